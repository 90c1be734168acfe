"""p(f|theta, y) as a density in the coordinates in which a transition moves.

*Latent*: f itself. *Scaled*: x with f = m + D x, where D D' is a covariance close to the posterior's. Gradient-based
transitions with a unit mass matrix in x are those with mass matrix (D D')^-1 in f, Algorithm 4 of the comparative
evaluation: x = D^-1 (f - m) and the momentum D' p replace f and p, and neither K^-1 nor the mass matrix is needed.
"""

from __future__ import annotations

import numpy as np

from pmgp.core.gaussians import Coordinates, Prior
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.transitions.base import NOT_COMPUTED, Point

# Smallest element of C, relative to the prior precision. Any diagonal C is exact, but I - B^-1 cancels for small ones.
SMALLEST_INFORMATION = 1e-3


class LatentDensity:
    """The density of f itself."""

    def __init__(self, prior: Prior, likelihood: Likelihood) -> None:
        self.prior = prior
        self.likelihood = likelihood

    def enter(self, f: np.ndarray) -> np.ndarray:
        """Return the position that corresponds to f."""
        return f

    def _weighted(self, deviation: np.ndarray) -> np.ndarray:
        """Return K^-1 (f - m)."""
        return self.prior.solve(deviation)

    def at(self, position: np.ndarray, gradient: bool = False) -> Point:
        """Return the point at a position, with the gradient on request."""
        deviation = position - self.prior.mean
        weighted = self._weighted(deviation)
        log_density = float(self.likelihood.log_likelihood(position)) - 0.5 * float(deviation @ weighted)
        slope = self.likelihood.gradient(position) - weighted if gradient else NOT_COMPUTED
        return Point(position, log_density, position, slope)

    def gradient(self, position: np.ndarray) -> np.ndarray:
        """Return the gradient of the log-density."""
        return self.likelihood.gradient(position) - self._weighted(position - self.prior.mean)


class ScaledDensity:
    """The density of x = D^-1 (f - m), where D D' = (K^-1 + C)^-1 for a diagonal C.

    D' K^-1 D = I - D' C D, so log p = log p(y|f) + (f - m)' C (f - m) / 2 - x'x / 2 with gradient
    D' (grad log p(y|f) + C (f - m)) - x: two products with D, and none with K^-1.

    - `coordinates`: map between x and f
    - `information` (n,): C; by default zero, with coordinates of the prior
    """

    def __init__(self, coordinates: Coordinates, likelihood: Likelihood, information: np.ndarray | None = None) -> None:
        self.coordinates = coordinates
        self.likelihood = likelihood
        self.information = information

    def enter(self, f: np.ndarray) -> np.ndarray:
        """Return the position that corresponds to f."""
        return self.coordinates.whiten(f)

    def at(self, position: np.ndarray, gradient: bool = False) -> Point:
        """Return the point at a position, with the gradient on request."""
        deviation = self.coordinates.deviation(position)
        f = self.coordinates.mean + deviation
        log_density = float(self.likelihood.log_likelihood(f)) - 0.5 * float(position @ position)
        if self.information is not None:
            log_density += 0.5 * float(deviation @ (self.information * deviation))
        slope = self._slope(position, deviation, f) if gradient else NOT_COMPUTED
        return Point(position, log_density, f, slope)

    def gradient(self, position: np.ndarray) -> np.ndarray:
        """Return the gradient of the log-density."""
        deviation = self.coordinates.deviation(position)
        return self._slope(position, deviation, self.coordinates.mean + deviation)

    def _slope(self, position: np.ndarray, deviation: np.ndarray, f: np.ndarray) -> np.ndarray:
        inner = self.likelihood.gradient(f)
        if self.information is not None:
            inner = inner + self.information * deviation
        return self.coordinates.pull(inner) - position


def latent(prior: Prior, likelihood: Likelihood) -> LatentDensity | None:
    """Return the density of f itself, or None if K is indefinite."""
    factorized = prior.factorized()
    return None if factorized is None else LatentDensity(factorized, likelihood)


def scaled_by_prior(prior: Prior, likelihood: Likelihood) -> ScaledDensity | None:
    """Return the density with D = L, the Cholesky factor of K, or None if K is indefinite."""
    factorized = prior.factorized()
    return None if factorized is None else ScaledDensity(factorized, likelihood)


def scaled_by_posterior(prior: Prior, likelihood: Likelihood) -> ScaledDensity | None:
    """Return the density with C the Fisher information at the prior mean, or None if K is indefinite.

    See section 3.6 of the comparative evaluation. It takes two factorizations and one inversion, but none of K itself.
    """
    smallest = SMALLEST_INFORMATION / prior.variance.mean()
    information = np.maximum(likelihood.fisher_information(prior.mean), smallest)
    coordinates = prior.observed(information)
    return None if coordinates is None else ScaledDensity(coordinates, likelihood, information)
