"""Metrics for f: the identity, and G = K^-1 + W with the curvature W of the likelihood.

For several classes W has blocks diag(pi) - pi pi' (times counts), and everything that a trajectory needs from G comes
from the structured form of G^-1 (`block_shrinkage.py`): C + 1 factorizations of n rows for G, and O(C n^2) for a draw
of the momentum and for its velocity. One latent vector is the case C = 1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from pmgp.core.gaussians import Prior
from pmgp.core.latent_updates.coordinates import LatentDensity
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.numerics.block_matrices import BlockMatrix, DenseBlocks
from pmgp.core.numerics.block_shrinkage import Shrinkage
from pmgp.core.transitions.riemannian import Metric

# Smallest curvature; below it an observation carries no information.
SMALLEST_CURVATURE = 1e-10
# Largest number of Newton steps to the constant f that fits the data best; without observations of a class they do not
# converge.
NEWTON_STEPS = 30
SMALLEST_STEP = 1e-10
RIDGE = 1e-10


class IdentityMetric:
    """G = I."""

    constant: ClassVar[bool] = True
    log_determinant: ClassVar[float] = 0.0

    def __init__(self, size: int) -> None:
        self.size = size

    def momentum(self, rng: np.random.Generator) -> np.ndarray:
        """Return standard normals."""
        return rng.standard_normal(self.size)

    def velocity(self, momentum: np.ndarray) -> np.ndarray:
        """Return the momentum itself."""
        return momentum

    def force(self, velocity: np.ndarray) -> np.ndarray:
        """Return zero, since the metric is constant."""
        return np.zeros_like(velocity)


class PosteriorMetric:
    """G = K^-1 + W, with W fixed.

    `prior`: the prior, with its factors; `precision`: W; `shrinkage`: G^-1.
    """

    constant: ClassVar[bool] = True

    def __init__(self, prior: Prior, precision: BlockMatrix, shrinkage: Shrinkage) -> None:
        self.prior, self.precision, self.shrinkage = prior, precision, shrinkage

    @property
    def log_determinant(self) -> float:
        """log|K G|, in place of log|G|, since K does not depend on f."""
        return self.shrinkage.log_determinant

    def momentum(self, rng: np.random.Generator) -> np.ndarray:
        """Return a draw from N(0, G), the sum of a draw for each term."""
        of_prior, of_sites = rng.standard_normal((2, self.prior.size))
        return self.prior.solve(self.prior.deviation(of_prior)) + self.precision.root_product(of_sites)

    def velocity(self, momentum: np.ndarray) -> np.ndarray:
        """Return G^-1 p."""
        return self.shrinkage.product(momentum)

    def force(self, velocity: np.ndarray) -> np.ndarray:
        """Return zero, since the metric is constant."""
        return np.zeros_like(velocity)


class LocalMetric(PosteriorMetric):
    """G = K^-1 + W(f), at one f.

    `prior`, `precision`, `shrinkage`: see `PosteriorMetric`; `curvature_gradient`: maps symmetric (n, C, C) blocks A to
    the gradient of sum_i <A_i, W_i(f)> in f.
    """

    constant: ClassVar[bool] = False

    def __init__(
        self,
        prior: Prior,
        precision: BlockMatrix,
        shrinkage: Shrinkage,
        curvature_gradient: Callable[[np.ndarray], np.ndarray],
    ) -> None:
        super().__init__(prior, precision, shrinkage)
        self.curvature_gradient = curvature_gradient

    @cached_property
    def marginals(self) -> np.ndarray:
        """The diagonal blocks of G^-1, (n, C, C), the only ones that are multiplied by derivatives of W."""
        return self.shrinkage.marginals()

    def force(self, velocity: np.ndarray) -> np.ndarray:
        """Return <G^-1 - v v', d_jG> / 2 for each j; only block i of G depends on f_i."""
        v = velocity.reshape(self.prior.vectors, -1).T
        return 0.5 * self.curvature_gradient(self.marginals - v[:, :, None] * v[:, None, :])


class MovingMetricDensity(LatentDensity):
    """The density of f with a metric.

    - `prior`: the prior, with its factors
    - `constant`: a metric that is the same everywhere; by default K^-1 + W(f)
    """

    def __init__(self, prior: Prior, likelihood: Likelihood, constant: Metric | None = None) -> None:
        super().__init__(prior, likelihood)
        self.constant = constant

    def metric_at(self, position: np.ndarray) -> Metric | None:
        """Return G at a position; None where the curvature is negative or not finite."""
        if self.constant is not None:
            return self.constant
        precision = _curvature(self.likelihood, position)
        shrinkage = None if precision is None else self.prior.shrunk(precision)
        if precision is None or shrinkage is None:
            return None
        return LocalMetric(self.prior, precision, shrinkage, self._curvature_gradient_at(position))

    def _curvature_gradient_at(self, f: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        likelihood: Any = self.likelihood
        if self.prior.vectors > 1:
            return lambda weights: likelihood.curvature_gradient(f, weights)
        third = likelihood.third_derivative(f)
        return lambda weights: -third * weights[:, 0, 0]


def _curvature(likelihood: Any, f: np.ndarray) -> BlockMatrix | None:
    """Return W(f); None where it is negative or not finite."""
    curvature = likelihood.derivatives(f)[1]
    if not isinstance(curvature, np.ndarray):
        return curvature
    if not (np.isfinite(curvature).all() and curvature.min() >= -SMALLEST_CURVATURE):
        return None
    return DenseBlocks(np.maximum(curvature, SMALLEST_CURVATURE)[:, None, None])


def _information(likelihood: Any, f: np.ndarray) -> BlockMatrix:
    """Return the Fisher information, which is never negative and so can replace the curvature everywhere."""
    curvature = likelihood.derivatives(f)[1]
    if not isinstance(curvature, np.ndarray):
        return curvature
    return DenseBlocks(np.maximum(likelihood.fisher_information(f), SMALLEST_CURVATURE)[:, None, None])


def local_curvature_known(prior: Prior, likelihood: Likelihood) -> bool:
    """Return whether W(f) can be a metric: it must have derivatives, and be positive at and around the prior mean."""
    if prior.vectors > 1:
        return hasattr(likelihood, "curvature_gradient")
    spread = np.sqrt(prior.variance)
    places = [prior.mean + shift * spread for shift in (-2.0, 0.0, 2.0)]
    return all(_curvature(likelihood, place) is not None for place in places)


def best_constant(prior: Prior, likelihood: Likelihood) -> np.ndarray:
    """Return the f that fits the data best among those that are constant in each latent vector: (C n,).

    For labels of classes its probabilities are n_c / n. Newton's method finds it from the prior mean.
    """
    sites = prior.size // prior.vectors
    values = prior.mean.reshape(-1, sites).mean(axis=1)
    value = likelihood.log_likelihood(np.repeat(values, sites))
    for _ in range(NEWTON_STEPS):
        step = _newton_step(likelihood, values, sites)
        while not (found := likelihood.log_likelihood(np.repeat(values + step, sites))) >= value:
            step *= 0.5
            if np.abs(step).max() < SMALLEST_STEP:
                return np.repeat(values, sites)
        values, value = values + step, found
        if np.abs(step).max() < SMALLEST_STEP:
            break
    return np.repeat(values, sites)


def _newton_step(likelihood: Likelihood, values: np.ndarray, n: int) -> np.ndarray:
    f = np.repeat(values, n)
    gradient = likelihood.gradient(f).reshape(len(values), n).sum(axis=1)
    hessian = _information(likelihood, f).blocks.sum(axis=0)
    # The ridge is needed because a softmax is constant along vectors of equal elements.
    step = np.linalg.solve(hessian + RIDGE * np.trace(hessian) * np.eye(len(values)), gradient)
    return step if np.isfinite(step).all() else np.zeros_like(step)


def _identity(prior: Prior, likelihood: Likelihood) -> MovingMetricDensity:
    return MovingMetricDensity(prior, likelihood, IdentityMetric(prior.size))


def _fixed(prior: Prior, likelihood: Likelihood) -> MovingMetricDensity | None:
    precision = _information(likelihood, best_constant(prior, likelihood))
    shrinkage = prior.shrunk(precision)
    metric = None if shrinkage is None else PosteriorMetric(prior, precision, shrinkage)
    return None if metric is None else MovingMetricDensity(prior, likelihood, metric)


def _local(prior: Prior, likelihood: Likelihood) -> MovingMetricDensity:
    if prior.vectors > 1 and not hasattr(likelihood, "curvature_gradient"):
        raise ValueError(f"the metric 'local' needs derivatives of the curvature, which {likelihood!r} does not have")
    return MovingMetricDensity(prior, likelihood)


METRICS: dict[str, Callable[[Prior, Likelihood], MovingMetricDensity | None]] = {
    "identity": _identity,
    "fixed": _fixed,
    "local": _local,
}
"""Functions by name that make the density of f with a metric from a factorized prior."""
