"""Mixtures of multivariate t distributions: independent proposals for theta, fitted to draws of its posterior.

The tails of a t are heavier than those of a posterior whose log-density falls at least linearly, as it does on the
logarithmic scale of most positive parameters: importance weights are bounded there. The mixture is fitted by
expectation maximization (Peel and McLachlan 2000, with the degrees of freedom fixed).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, logsumexp

DEGREES_OF_FREEDOM = 5.0
# Share and scale of a component that is wider than the draws, for regions that a chain has missed.
WIDE_SHARE, WIDE_SCALE = 0.1, 3.0
LARGEST_NUMBER = 4
SWEEPS = 100
# Smallest increase of the mean log-density of the draws, in nats.
TOLERANCE = 1e-4
# Share of the covariance of all draws that is added to that of a component.
RIDGE = 1e-3


@dataclass(frozen=True, eq=False)
class StudentMixture:
    """A mixture of multivariate t distributions.

    `shares` (k,): probabilities of the components; `locations` (k, dimension); `factors` (k, dimension, dimension):
    lower Cholesky factors of their scale matrices; `degrees_of_freedom`: degrees of freedom of every component.
    """

    shares: np.ndarray
    locations: np.ndarray
    factors: np.ndarray
    degrees_of_freedom: float = DEGREES_OF_FREEDOM

    @property
    def dimension(self) -> int:
        """Length of theta."""
        return self.locations.shape[1]

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw independently: (size, dimension)."""
        chosen = rng.choice(len(self.shares), size=size, p=self.shares)
        normals = rng.standard_normal((size, self.dimension))
        divisors = np.sqrt(rng.chisquare(self.degrees_of_freedom, size) / self.degrees_of_freedom)
        return self.locations[chosen] + np.einsum("sij,sj->si", self.factors[chosen], normals) / divisors[:, None]

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """Return the log-density with its normalizing constant: (size, dimension) -> (size,)."""
        return logsumexp(self.log_joint(theta), axis=0)

    def log_joint(self, theta: np.ndarray) -> np.ndarray:
        """Return the log of each component's share times its density: (size, dimension) -> (k, size)."""
        log_volumes = np.log(np.einsum("kii->ki", self.factors)).sum(axis=1, keepdims=True)
        logs = log_student(self.squared_distances(theta), log_volumes, self.dimension, self.degrees_of_freedom)
        return np.log(self.shares)[:, None] + logs

    def squared_distances(self, theta: np.ndarray) -> np.ndarray:
        """Return squared distances from the locations, in the scales' metric: (size, dimension) -> (k, size)."""
        deviations = theta - self.locations[:, None, :]
        return np.square(np.linalg.solve(self.factors, deviations.transpose(0, 2, 1))).sum(axis=1)

    def with_wide_component(self) -> StudentMixture:
        """Return the mixture with one more component, which is wider and lies at the center of all others."""
        center = self.shares @ self.locations
        deviations = self.locations - center
        scales = self.factors @ self.factors.transpose(0, 2, 1) + deviations[:, :, None] * deviations[:, None, :]
        wide = WIDE_SCALE * np.linalg.cholesky(np.einsum("k,kij->ij", self.shares, scales))
        return StudentMixture(
            np.append((1.0 - WIDE_SHARE) * self.shares, WIDE_SHARE),
            np.vstack([self.locations, center]),
            np.concatenate([self.factors, wide[None]]),
            self.degrees_of_freedom,
        )


def log_student(
    squared_distances: np.ndarray, log_volume: np.ndarray | float, dimension: int, degrees_of_freedom: float
) -> np.ndarray:
    """Return log-densities of t distributions at squared distances, in the metric of their scales.

    `log_volume`: half of the log determinants of the scale matrices.
    """
    nu, d = degrees_of_freedom, dimension
    constant = gammaln(0.5 * (nu + d)) - gammaln(0.5 * nu) - 0.5 * d * np.log(nu * np.pi)
    return constant - log_volume - 0.5 * (nu + d) * np.log1p(squared_distances / nu)


def fitted(rng: np.random.Generator, draws: np.ndarray) -> StudentMixture:
    """Fit a proposal for importance sampling to draws from a density.

    The number of components is the one that, fitted to the first half of the draws, describes the second half best.
    Then the components are fitted to all draws, and a wider one is added.

    `draws` (size, dimension): in the order of the chain; at least twice as many different draws as dimensions. In zero
    dimensions the only point has the density one.

    Raises ValueError if there are not enough draws, or some are not finite.
    """
    if not draws.shape[1]:
        return StudentMixture(np.ones(1), np.empty((1, 0)), np.empty((1, 0, 0)))
    _check(draws)
    first, second = np.array_split(draws, 2)
    best, chosen = -np.inf, 1
    for number in range(1, LARGEST_NUMBER + 1):
        score = float(_maximized(rng, first, number).log_density(second).mean())
        if score < best + TOLERANCE:
            break
        best, chosen = score, number
    return _maximized(rng, draws, chosen).with_wide_component()


def _check(draws: np.ndarray) -> None:
    if not np.isfinite(draws).all():
        raise ValueError("some draws of the hyper-parameters are not finite on the unconstrained scale")
    distinct, needed = len(np.unique(draws, axis=0)), max(10, 2 * draws.shape[1])
    if distinct < needed:
        raise ValueError(
            f"the posterior has {distinct} different draws of {draws.shape[1]} hyper-parameters, and a proposal needs "
            f"at least {needed}: sample longer"
        )


def _maximized(rng: np.random.Generator, draws: np.ndarray, number: int) -> StudentMixture:
    """Fit components by expectation maximization, with random draws as their first locations."""
    spread = np.atleast_2d(np.cov(draws, rowvar=False))
    ridge = RIDGE * spread + 1e-12 * np.eye(len(spread))
    factors = np.repeat(np.linalg.cholesky(spread + ridge)[None], number, axis=0)
    center = draws.mean(axis=0)
    locations = center[None] if number == 1 else draws[rng.choice(len(draws), number, replace=False)]
    mixture, last = StudentMixture(np.full(number, 1.0 / number), locations, factors), -np.inf
    for _ in range(SWEEPS):
        joint = mixture.log_joint(draws)
        total = logsumexp(joint, axis=0)
        mixture = _improved(mixture, draws, np.exp(joint - total), ridge)
        value = float(total.mean())
        if value - last < TOLERANCE:
            break
        last = value
    return mixture


def _improved(
    mixture: StudentMixture, draws: np.ndarray, responsibilities: np.ndarray, ridge: np.ndarray
) -> StudentMixture:
    """Make one step of expectation maximization; `responsibilities` has shape (k, size)."""
    nu, d = mixture.degrees_of_freedom, mixture.dimension
    weights = responsibilities * (nu + d) / (nu + mixture.squared_distances(draws))
    # A component that has lost its draws keeps a share of one draw.
    sizes = np.maximum(responsibilities.sum(axis=1), 1.0)
    locations = (weights @ draws) / weights.sum(axis=1, keepdims=True)
    deviations = draws - locations[:, None, :]
    scales = np.einsum("ks,ksi,ksj->kij", weights, deviations, deviations, optimize=True) / sizes[:, None, None]
    return StudentMixture(sizes / sizes.sum(), locations, np.linalg.cholesky(scales + ridge))
