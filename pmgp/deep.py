"""Deep Gaussian processes by random features, fitted with JAX: the extra `pmgp[jax]`."""

try:
    import jax  # noqa: F401
    import optax  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError(f"pmgp.deep needs {error.name}, which is not installed: pip install 'pmgp[jax]'") from error

from pmgp.core.deep.likelihoods import JaxLikelihood
from pmgp.interface.deep.random_feature_gp import RandomFeatureGP

__all__ = ["JaxLikelihood", "RandomFeatureGP"]
