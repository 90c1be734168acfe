"""p(f|theta, y) as a density in the coordinates that a transition moves in.

*Latent*: f itself. *Scaled*: x with f = m + D x, where D D' is a covariance close to the posterior's. Gradient-based
transitions with a unit mass matrix in x are those with mass matrix (D D')^-1 in f, Algorithm 4 of the comparative
evaluation: x = D^-1 (f - m) and the momentum D' p replace f and p, and neither K^-1 nor the mass matrix is needed.
"""

from __future__ import annotations

import numpy as np

from pmgp.core.gaussians import DensePrior
from pmgp.core.gaussians.sites import posterior_factor
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.numerics import linalg
from pmgp.core.transitions.base import NOT_COMPUTED, Point

__all__ = ["LatentDensity", "ScaledDensity", "scaled_by_posterior", "scaled_by_prior"]

# Relative to the prior precision. Any diagonal C is exact; for smaller ones I - B^-1 would cancel.
SMALLEST_INFORMATION = 1e-3


class LatentDensity:
    """The density of f itself.

    Parameters
    ----------
    prior : DensePrior
    likelihood : Likelihood
    """

    def __init__(self, prior: DensePrior, likelihood: Likelihood) -> None:
        self.mean = prior.mean
        self.likelihood = likelihood
        self.factor = prior.factor

    def enter(self, f: np.ndarray) -> np.ndarray:
        """Position that stands for f."""
        return f

    def _weighted(self, deviation: np.ndarray) -> np.ndarray:
        """K^-1 (f - m)."""
        return linalg.cholesky_solve(self.factor, deviation)

    def at(self, position: np.ndarray, gradient: bool = False) -> Point:
        """Value, and the gradient where asked for."""
        deviation = position - self.mean
        weighted = self._weighted(deviation)
        log_density = float(self.likelihood.log_likelihood(position)) - 0.5 * float(deviation @ weighted)
        slope = self.likelihood.gradient(position) - weighted if gradient else NOT_COMPUTED
        return Point(position, log_density, position, slope)

    def gradient(self, position: np.ndarray) -> np.ndarray:
        """Gradient of the log-density."""
        return self.likelihood.gradient(position) - self._weighted(position - self.mean)


class ScaledDensity:
    """The density of x = D^-1 (f - m), where D D' = (K^-1 + C)^-1 for a diagonal C.

    D' K^-1 D = I - D' C D, so that log p = log p(y|f) + (f - m)' C (f - m) / 2 - x'x / 2 with gradient
    D' (grad log p(y|f) + C (f - m)) - x: two products with D, and none with K^-1.

    Parameters
    ----------
    mean : (n,) array
    factor : (n, n) array
        D, lower triangular.
    likelihood : Likelihood
    information : (n,) array, optional
        C; none means zero, and D the Cholesky factor of K.
    """

    def __init__(
        self, mean: np.ndarray, factor: np.ndarray, likelihood: Likelihood, information: np.ndarray | None = None
    ) -> None:
        self.mean = mean
        self.factor = factor
        self.likelihood = likelihood
        self.information = information

    def enter(self, f: np.ndarray) -> np.ndarray:
        """Position that stands for f."""
        return linalg.triangular_solve(self.factor, f - self.mean)

    def at(self, position: np.ndarray, gradient: bool = False) -> Point:
        """Value, and the gradient where asked for."""
        deviation = linalg.triangular_product(self.factor, position)
        f = self.mean + deviation
        log_density = float(self.likelihood.log_likelihood(f)) - 0.5 * float(position @ position)
        if self.information is not None:
            log_density += 0.5 * float(deviation @ (self.information * deviation))
        slope = self._slope(position, deviation, f) if gradient else NOT_COMPUTED
        return Point(position, log_density, f, slope)

    def gradient(self, position: np.ndarray) -> np.ndarray:
        """Gradient of the log-density."""
        deviation = linalg.triangular_product(self.factor, position)
        return self._slope(position, deviation, self.mean + deviation)

    def _slope(self, position: np.ndarray, deviation: np.ndarray, f: np.ndarray) -> np.ndarray:
        inner = self.likelihood.gradient(f)
        if self.information is not None:
            inner = inner + self.information * deviation
        return linalg.triangular_product(self.factor, inner, transpose=True) - position


def scaled_by_prior(prior: DensePrior, likelihood: Likelihood) -> ScaledDensity:
    """D = L, the Cholesky factor of K: no further O(n^3) operation ("v2")."""
    return ScaledDensity(prior.mean, prior.factor, likelihood)


def scaled_by_posterior(prior: DensePrior, likelihood: Likelihood) -> ScaledDensity:
    """C the Fisher information at the prior mean: two factorizations and one inversion ("v1").

    Section 3.6 of the comparative evaluation; K itself is not factorized.

    Raises
    ------
    NotPositiveDefiniteError
        If K is indefinite and stays so with a jitter.
    """
    variance = np.einsum("ii->i", prior.covariance)
    information = np.maximum(likelihood.fisher_information(prior.mean), SMALLEST_INFORMATION / variance.mean())
    _, factor = posterior_factor(prior, information)
    return ScaledDensity(prior.mean, factor, likelihood, information)
