"""The protocol that every likelihood follows, and a base class that derives the rest from the density of a site."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np

from pmgp.core.numerics.quadrature import SITES, TiltedMoments, tilted_moments, tilted_moments_in_parts

# Step of differences of the Fisher information, in deviations.
DIFFERENCE = 1e-4


class Likelihood(Protocol):
    """p(y|f) = prod_i p(y_i|f_i) with the data inside; leading axes of f are independent draws.

    All likelihoods have these methods, whether each term depends on one latent value (`SiteLikelihood`) or on several
    (`BlockLikelihood`). In the latter case f holds the latent vectors one after another.
    """

    def log_likelihood(self, f: np.ndarray) -> np.ndarray:
        """Return log p(y|f), summed over the n sites: (..., n) -> (...)."""

    def gradient(self, f: np.ndarray) -> np.ndarray:
        """Return the first derivative of each log p(y_i|f_i): (n,) -> (n,)."""

    def derivatives(self, f: np.ndarray) -> tuple[np.ndarray, Any]:
        """Return the gradient (n,) and the curvature, in the form of the sites' precisions; they may share work."""

    def tilted_moments(
        self, mean: np.ndarray, variance: np.ndarray, near: tuple[np.ndarray, np.ndarray] | None = None, /
    ) -> Any:
        """Return the moments of the terms times normal densities, and log normalizers; None if not known.

        `near` holds means and variances close to the answer, for likelihoods that need quadrature.
        """

    def fisher_information(self, f: np.ndarray) -> np.ndarray:
        """Return the expected curvature under p(y_i|f_i), or its diagonal for blocks; never negative: (n,) -> (n,)."""


class SiteLikelihood(Likelihood, Protocol):
    """A likelihood whose terms depend on one latent value each."""

    def curvature(self, f: np.ndarray) -> np.ndarray:
        """Return minus the second derivative of each log p(y_i|f_i): (n,) -> (n,)."""

    def derivatives(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient and curvature at the same f, which may share work: (n,) to two (n,) arrays."""

    def third_derivative(self, f: np.ndarray) -> np.ndarray:
        """Return the third derivative of each log p(y_i|f_i), for gradients of Laplace's evidence: (n,) -> (n,)."""

    def tilted_moments(
        self, mean: np.ndarray, variance: np.ndarray, near: tuple[np.ndarray, np.ndarray] | None = None, /
    ) -> TiltedMoments | None:
        """Return means, variances and log normalizers of p(y_i|f_i) N(f_i|mean, variance), (n,); None if not known."""


def sound_precision(likelihood: Likelihood, f: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    """Return the curvature at f, with the Fisher information in place of what is not positive: (n,)."""
    if not np.any(curvature <= 0.0):
        return curvature
    return np.where(curvature > 0.0, curvature, likelihood.fisher_information(f))


def slope_of_precision(likelihood: SiteLikelihood, f: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return the derivative of :func:`sound_precision` in f: (n,).

    `variance` (n,): of f, for the differences where the Fisher information stands in for the curvature.
    """
    slope, replaced = -likelihood.third_derivative(f), likelihood.curvature(f) <= 0.0
    if not replaced.any():
        return slope
    step = DIFFERENCE * np.sqrt(np.maximum(variance, np.finfo(float).tiny))
    above, below = likelihood.fisher_information(f + step), likelihood.fisher_information(f - step)
    return np.where(replaced, (above - below) / (2.0 * step), slope)


class NoisyLimits(NamedTuple):
    """Limits between which f_i + noise_i e_i lies, e standard normal, given the observation y_i: (n,) arrays."""

    lower: np.ndarray
    upper: np.ndarray
    noise: np.ndarray


@runtime_checkable
class Thresholded(Protocol):
    """A likelihood whose observations give limits between which the latent value plus normal noise lies.

    Its p(y|theta) is then the probability of an orthant, or of a box, under a Gaussian.
    """

    def noisy_limits(self) -> NoisyLimits:
        """Return the limits, and the standard deviation of the noise."""


@runtime_checkable
class Divisible(Protocol):
    """A likelihood whose terms can be computed for some of the observations without the others."""

    def subset(self, sites: slice) -> Self:
        """Return the likelihood of only these observations."""


class FactorizingLikelihood(ABC):
    """Base class: subclasses give the density of a site, its derivatives, and closed forms if there are any."""

    @abstractmethod
    def log_density(self, f: np.ndarray) -> np.ndarray:
        """Return log p(y_i|f_i), constants included: (..., n) -> (..., n)."""

    @abstractmethod
    def gradient(self, f: np.ndarray) -> np.ndarray:
        """Return the first derivative in f: (n,) -> (n,)."""

    @abstractmethod
    def curvature(self, f: np.ndarray) -> np.ndarray:
        """Return minus the second derivative in f: (n,) -> (n,)."""

    @abstractmethod
    def third_derivative(self, f: np.ndarray) -> np.ndarray:
        """Return the third derivative in f: (n,) -> (n,)."""

    @abstractmethod
    def fisher_information(self, f: np.ndarray) -> np.ndarray:
        """Return the expected curvature, never negative: (n,) -> (n,)."""

    def log_likelihood(self, f: np.ndarray) -> np.ndarray:
        """Return log p(y|f): (..., n) -> (...)."""
        return self.log_density(f).sum(axis=-1)

    def derivatives(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient and curvature at the same f: (n,) to two (n,) arrays."""
        return self.gradient(f), self.curvature(f)

    def tilted_moments(
        self, mean: np.ndarray, variance: np.ndarray, near: tuple[np.ndarray, np.ndarray] | None = None
    ) -> TiltedMoments | None:
        """Return means, variances and log normalizers of p(y_i|f_i) N(f_i|mean, variance), from quadrature: (n,)."""
        if len(mean) > SITES and isinstance(self, Divisible):
            return tilted_moments_in_parts(lambda part: self.subset(part).log_density, mean, variance, near)
        return tilted_moments(self.log_density, mean, variance, near)
