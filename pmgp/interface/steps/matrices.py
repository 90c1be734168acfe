"""The library that holds the matrices of a chain: NumPy, or JAX, loaded when it is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pmgp.core.estimators import ApproximateEvidence, Estimator, ImportanceSampling
from pmgp.core.registry import resolve
from pmgp.interface.graphs.numerical import NumericalFunction
from pmgp.interface.model.latent_gaussian import LatentGaussianModel
from pmgp.interface.model.normal_evidence import EvidenceFunction, NormalEvidence
from pmgp.interface.model.observed_normal import ObservedNormal


class Matrices(Protocol):
    """A library that computes K(theta), and log-densities that are mostly linear algebra."""

    def model(self, parts: LatentGaussianModel) -> Any:
        """Return the model as the chain evaluates it."""

    def supports(self, estimator: Estimator) -> bool:
        """Return whether there is all that an estimator needs of the matrices."""

    def evidence(self, name: str, parts: ObservedNormal) -> EvidenceFunction:
        """Return the evidence of multivariate normal observations of this name."""

    def density(self, log_density: TensorVariable, vector: TensorVariable, size: int) -> Any:
        """Return a function that computes a log-density, given as a graph, and its gradient from a vector of that size.

        Its method `refresh_data` reads the model's data again.
        """


@dataclass(frozen=True)
class NumpyMatrices:
    """Matrices of NumPy, factorized by LAPACK."""

    def model(self, parts: LatentGaussianModel) -> LatentGaussianModel:
        """Return the model itself."""
        return parts

    def supports(self, estimator: Estimator) -> bool:
        """Return true: all estimators know NumPy."""
        return True

    def evidence(self, name: str, parts: ObservedNormal) -> NormalEvidence:
        """Return the evidence by LAPACK."""
        return NormalEvidence.of(name, parts)

    def density(self, log_density: TensorVariable, vector: TensorVariable, size: int) -> NumericalFunction:
        """Return a function of calls of NumPy and LAPACK."""
        return NumericalFunction([vector], [log_density, pt.grad(log_density, vector)], rearranged=True)


@dataclass(frozen=True)
class JaxMatrices:
    """Matrices on a JAX device, which computes and factorizes them in double precision; needs the extra `pmgp[jax]`.

    For :class:`pmgp.PseudoMarginal` the approximation, the estimates, the moves and the random numbers are those of
    NumPy's chain, so the draws differ only by rounding. The likelihood may be any that has one latent vector with a
    covariance matrix. NumPy computes its terms, in O(n). Estimates use importance samples. For
    :class:`pmgp.steps.SparseHMC` the device computes the log-density and its gradient. For :func:`pmgp.importance` it
    factorizes the covariance of multivariate normal observations, or that of f. Chains are drawn, and draws weighted,
    in the process where the step method was made, one after another, or in processes that are not forked from it.

    Parameters
    ----------
    device : str, optional
        Such as ``"gpu"``, or ``"gpu:1"`` for the second one; by default the device that JAX chooses.
    memory : float, optional
        Bytes that may be used on the device; by default all of its memory.

    Raises
    ------
    ImportError
        If JAX is not installed.
    ValueError
        If a setting is out of range, or JAX has no such device.
    MemoryError
        If the matrices need more memory.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> with pmgp.models.classifier(X, X[:, 0] > 0.5) as model:
    ...     step = pmgp.PseudoMarginal(backend=pmgp.steps.JaxMatrices(device="cpu"))
    >>> settings = dict(draws=20, tune=20, chains=1, cores=1, random_seed=1, progressbar=False)
    >>> idata = pmgp.sample(model, step=step, **settings)
    >>> idata.posterior["f"].shape
    (1, 20, 20)
    """

    device: str | None = None
    memory: float | None = None

    def __post_init__(self) -> None:
        if self.memory is not None and not self.memory > 0.0:
            raise ValueError(f"memory={self.memory!r}: give a positive number of bytes, or leave it out")

    def model(self, parts: LatentGaussianModel) -> Any:
        """Return the model with its prior of f on the device."""
        _check_jax()
        if parts.latent_prior.markov or parts.latent_vector.several:
            kind = "a sparse precision" if parts.latent_prior.markov else "several latent vectors"
            raise ValueError(
                f'backend="jax" takes one latent vector with a covariance matrix, and {parts.latent_name} has {kind}: '
                'use backend="numpy", which is the default'
            )
        from pmgp.interface.dense_jax.model import JaxModel

        return JaxModel.within(parts, self.device, self.memory)

    def supports(self, estimator: Estimator) -> bool:
        """Return whether an estimate is a mean of weights of draws from q, or q's own."""
        return isinstance(estimator, ImportanceSampling | ApproximateEvidence)

    def evidence(self, name: str, parts: ObservedNormal) -> EvidenceFunction:
        """Return the evidence with the covariance on the device."""
        _check_jax()
        from pmgp.interface.dense_jax.evidence import JaxEvidence

        return JaxEvidence.within(parts, self.device, self.memory)

    def density(self, log_density: TensorVariable, vector: TensorVariable, size: int) -> Any:
        """Return a function that is compiled for the device."""
        _check_jax()
        from pmgp.interface.dense_jax.log_density import JaxLogDensity

        return JaxLogDensity.within(log_density, vector, size, self.device, self.memory)


def _check_jax() -> None:
    try:
        import jax  # noqa: F401
    except ModuleNotFoundError as error:
        raise ImportError("backend=\"jax\" needs jax, which is not installed: pip install 'pmgp[jax]'") from error


NUMPY = NumpyMatrices()
BACKENDS = {"numpy": NumpyMatrices, "jax": JaxMatrices}


def matrices_of(given: Matrices | str) -> Matrices:
    """Return the matrices of the given name, or the given object."""
    return resolve(given, BACKENDS, Matrices, "backend")
