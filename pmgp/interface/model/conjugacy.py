"""Search for a variance whose full conditional given f is known: an inverse-gamma prior, and K proportional to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
from pymc.distributions.transforms import LogTransform
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import InvGammaRV
from pytensor.tensor.variable import TensorVariable

from pmgp.core.gaussians import Prior
from pmgp.core.theta_updates.variance import ConjugateVariance
from pmgp.interface.model.latent_gaussian import LatentGaussianModel

# A step in the log of the variance. A part that does not scale with it, such as gp.prior's jitter, shows where the
# variance is small.
SPAN = 25.0
TOLERANCE = 1e-12
# Number of random vectors whose products with K are compared.
VECTORS = 4


def find_conjugate_variance(model: pm.Model, parts: LatentGaussianModel) -> ConjugateVariance | None:
    """Return the first hyper-parameter that can be drawn from its full conditional given f, or None.

    It must have an inverse-gamma prior with constant parameters, K must be proportional to it, and nothing else may
    depend on it. Proportionality is checked at random theta, and needs ``gp.prior(..., jitter=0)``; a jitter must scale
    with the variance, as in ``variance * (kernel + pm.gp.cov.WhiteNoise(1e-3))``.
    """
    for variable in model.free_RVs:
        parameters = _inverse_gamma_parameters(model, variable)
        if parameters is None or not _only_in_priors(model, parts, variable):
            continue
        index = int(parts.theta.places([model.rvs_to_values[variable]])[0])
        if _proportional(parts, index):
            return ConjugateVariance(index, *parameters)
    return None


def _inverse_gamma_parameters(model: pm.Model, variable: TensorVariable) -> tuple[float, float] | None:
    node = variable.owner
    if variable.ndim != 0 or node is None or not isinstance(node.op, InvGammaRV):
        return None
    if not isinstance(model.rvs_to_transforms[variable], LogTransform):
        return None
    parameters = node.op.dist_params(node)
    if set(ancestors(parameters)) & {*model.free_RVs, *model.data_vars}:
        return None
    shape, scale = (float(parameter.eval()) for parameter in parameters)
    return shape, scale


def _only_in_priors(model: pm.Model, parts: LatentGaussianModel, variable: TensorVariable) -> bool:
    """Return whether only its own prior and the prior of f depend on the variable."""
    others: list[Any] = [
        v for v in (*model.basic_RVs, *model.potentials) if v not in (variable, *parts.latent_vector.variables)
    ]
    terms = model.logp(vars=others, sum=False)
    return model.rvs_to_values[variable] not in set(ancestors(terms))


def _proportional(parts: LatentGaussianModel, index: int) -> bool:
    """Return whether, at random theta, K is proportional to the variance and the mean does not depend on it."""
    rng = np.random.default_rng(0)
    vectors = np.random.default_rng(1).standard_normal((len(parts.initial_moments[0]), VECTORS))
    for _ in range(2):
        more = rng.uniform(-0.5, 0.5, parts.dimension)
        less = more.copy()
        less[index] -= SPAN
        if not _same_but_for_scale(parts.prior(less), parts.prior(more), vectors):
            return False
    return True


def _same_but_for_scale(before: Prior, after: Prior, vectors: np.ndarray) -> bool:
    """Return whether the means are equal, and products with the vectors equal up to the factor exp(SPAN)."""
    expected = np.exp(SPAN) * before.product(vectors)
    same = np.allclose(after.product(vectors), expected, rtol=0.0, atol=TOLERANCE * np.abs(expected).max())
    return same and np.array_equal(after.mean, before.mean)
