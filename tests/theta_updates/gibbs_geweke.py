"""Geweke's joint distribution test (2004) for the schemes that update theta with f beside it.

Theta, f and y are drawn from their joint distribution, again and again, and a scheme runs for a few iterations from
each draw, y given. Then theta, f and y must still have their joint distribution, so that no statistic changes on
average. The draws are independent, and their statistics are control variates: mistakes show soon (Gandy and Scott
2020).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np

from pmgp.core.adaptation.step_size import StepSize
from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods import LogGaussianCox
from pmgp.core.theta_updates.densities import JointState, LatentPart
from pmgp.core.theta_updates.schemes import Scheme
from pmgp.core.transitions.adaptive import HamiltonianMonteCarlo, ManifoldLangevin, RandomWalk
from tests.mean_changes import largest_change

N = 6
# Coordinates that the random walk and hybrid Monte Carlo move in, deliberately not those of theta.
FACTOR = np.array([[0.5, 0.0], [0.15, 0.4]])
STEP_SIZES = {RandomWalk: 0.7, HamiltonianMonteCarlo: 0.7, ManifoldLangevin: 1.3}
X = np.linspace(-1.5, 1.5, N)
DIFFERENCES = X[:, None] - X
ONES, JITTER = np.ones(N), 1e-2 * np.eye(N)


@lru_cache(maxsize=4)
def correlation(log_lengthscale: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the correlation of f, and the derivative of all but its jitter in the log length-scale.

    Both are asked for at a point's prior, gradient and metric.
    """
    squared = np.square(DIFFERENCES / np.exp(log_lengthscale))
    smooth = np.exp(-0.5 * squared)
    return smooth + JITTER, squared * smooth


@dataclass
class DifferentiableToy:
    """A squared exponential process at six points, theta = (log length-scale, log variance).

    The first element is normal and shifts the mean of f as well; the variance is inverse gamma, and K proportional to
    it.
    """

    y: np.ndarray
    location: ClassVar[float] = 0.0
    spread: ClassVar[float] = 0.5
    shape: ClassVar[float] = 3.0
    scale: ClassVar[float] = 3.0
    level: ClassVar[float] = 0.2
    slope: ClassVar[float] = 0.4
    means: ClassVar[np.ndarray] = slope * np.array([np.ones(N), np.zeros(N)])

    def log_prior(self, theta: np.ndarray) -> float:
        if np.abs(theta).max() > 20.0:
            return -np.inf
        normal = -0.5 * ((theta[0] - self.location) / self.spread) ** 2
        return float(normal - self.shape * theta[1] - self.scale * np.exp(-theta[1]))

    def prior(self, theta: np.ndarray) -> DensePrior:
        covariance = np.exp(theta[1]) * correlation(theta[0])[0]
        return DensePrior((self.level + self.slope * theta[0]) * ONES, np.asfortranarray(covariance))

    def likelihood(self, theta: np.ndarray) -> LogGaussianCox:
        return self.counts

    @cached_property
    def counts(self) -> LogGaussianCox:
        return LogGaussianCox(self.y)

    def pushforward(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        matrix, change = correlation(theta[0])
        return self.means, np.exp(theta[1]) * np.array([change, matrix])

    def theta_gradient(
        self, theta: np.ndarray, covariance_bar: np.ndarray, mean_bar: np.ndarray, f: np.ndarray
    ) -> np.ndarray:
        means, covariances = self.pushforward(theta)
        of_prior = np.array(
            [-(theta[0] - self.location) / self.spread**2, -self.shape + self.scale * np.exp(-theta[1])]
        )
        return of_prior + means @ mean_bar + np.einsum("kij,ij->k", covariances, covariance_bar)

    def curvature(self, theta: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.diag([self.spread**-2, self.scale * np.exp(-theta[1])])

    def draw_theta(self, rng: np.random.Generator) -> np.ndarray:
        """From the prior."""
        variance = self.scale / rng.gamma(self.shape)
        return np.array([self.location + self.spread * rng.standard_normal(), np.log(variance)])


def draw_jointly(rng: np.random.Generator) -> tuple[JointState, DifferentiableToy]:
    """Theta, f, and a model with data drawn given f."""
    model = DifferentiableToy(np.zeros(N))
    theta = model.draw_theta(rng)
    prior = model.prior(theta)
    f = prior.sample(rng, 1)[0]
    return JointState(theta, LatentPart(prior, f)), DifferentiableToy(rng.poisson(np.exp(f)))


def statistics(theta: np.ndarray, nu: np.ndarray, f: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Moments of theta, and of f whitened and plain, that tie them to theta and to y: (draws, 13)."""
    first, second = theta.T
    size, mean = np.square(nu).sum(axis=1), f.mean(axis=1)
    of_theta = [first, second, first**2, second**2, first * second]
    of_nu = [size, first * size, second * size, first * nu[:, 0]]
    of_f = [mean, first * mean, second * mean, (np.log1p(y) * f).sum(axis=1)]
    return np.stack([*of_theta, *of_nu, *of_f], axis=1)


@cache
def expected_statistics(draws: int = 300_000) -> np.ndarray:
    """Means over so many independent draws that their errors do not count: (13,)."""
    rng, toy = np.random.default_rng(0), DifferentiableToy
    log_variance = np.log(toy.scale / rng.gamma(toy.shape, size=draws))
    theta = np.stack([toy.location + toy.spread * rng.standard_normal(draws), log_variance], axis=1)
    correlations = np.exp(-0.5 * np.square(DIFFERENCES / np.exp(theta[:, :1, None]))) + JITTER
    nu = rng.standard_normal((draws, N))
    deviations = np.exp(0.5 * theta[:, 1:]) * (np.linalg.cholesky(correlations) @ nu[..., None])[..., 0]
    f = toy.level + toy.slope * theta[:, :1] + deviations
    return statistics(theta, nu, f, rng.poisson(np.exp(f))).mean(axis=0)


def row(current: JointState, model: DifferentiableToy) -> tuple[np.ndarray, ...]:
    """Return theta, f whitened and plain, and y, from which the statistics are computed."""
    theta, (prior, f, _) = current
    return theta, prior.whiten(f), f, model.y


def fixed_adaptations(scheme: Scheme) -> tuple[Any, ...]:
    """Nothing is learned, so that the chain is one Markov chain."""
    size = StepSize.start(STEP_SIZES[type(scheme.operator)])
    return tuple(adaptation._replace(step_size=size, factor=FACTOR) for adaptation in scheme.start(2, 0))


def z_score(scheme: Scheme, replicates: int, repeats: int = 3, seed: int = 1) -> float:
    """Return the largest change that some iterations make to a mean, in standard errors; see `largest_change`."""
    rng = np.random.default_rng(seed)
    adaptations = fixed_adaptations(scheme)
    before, after = [], []
    for _ in range(replicates):
        current, model = draw_jointly(rng)
        before.append(row(current, model))
        for _ in range(repeats):
            current = scheme.step(rng, current, model, adaptations, False).current
        after.append(row(current, model))
    first, last = (statistics(*map(np.array, zip(*rows, strict=True))) for rows in (before, after))
    return largest_change(first, last, expected_statistics())
