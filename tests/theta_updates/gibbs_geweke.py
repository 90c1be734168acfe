"""Geweke's joint distribution test (2004) for the schemes that update theta with f beside it.

Theta, f and y are drawn from their joint distribution, again and again, and a scheme runs for a few iterations from
each draw, y given. Then theta, f and y must still have their joint distribution, so that no statistic changes on
average. The draws are independent, and changes vary less than the statistics themselves: mistakes show soon (Gandy and
Scott 2020).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np

from pmgp.core.adaptation.step_size import StepSize
from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods import LogGaussianCox
from pmgp.core.theta_updates.densities import JointState, LatentPart
from pmgp.core.theta_updates.schemes import Scheme
from pmgp.core.transitions.adaptive import HamiltonianMonteCarlo, ManifoldLangevin, RandomWalk

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


def statistics(current: JointState, y: np.ndarray) -> np.ndarray:
    """Moments of theta, and of f whitened and plain, that tie them to theta and to y: (13,)."""
    theta, (prior, f, _) = current
    nu = prior.whiten(f)
    size = nu @ nu
    tied = [
        size,
        *(theta * size),
        theta[0] * nu[0],
        f.mean(),
        theta[0] * f.mean(),
        theta[1] * f.mean(),
        np.log1p(y) @ f,
    ]
    return np.array([*theta, *theta**2, theta[0] * theta[1], *tied])


def fixed_adaptations(scheme: Scheme) -> tuple[Any, ...]:
    """Nothing is learned, so that the chain is one Markov chain."""
    size = StepSize.start(STEP_SIZES[type(scheme.operator)])
    return tuple(adaptation._replace(step_size=size, factor=FACTOR) for adaptation in scheme.start(2, 0))


def changes(scheme: Scheme, replicates: int, repeats: int, seed: int) -> np.ndarray:
    """What some iterations do to the statistics of independent draws of theta, f and y: (replicates, 13)."""
    rng = np.random.default_rng(seed)
    adaptations = fixed_adaptations(scheme)
    rows = []
    for _ in range(replicates):
        current, model = draw_jointly(rng)
        before = statistics(current, model.y)
        for _ in range(repeats):
            current = scheme.step(rng, current, model, adaptations, False).current
        rows.append(statistics(current, model.y) - before)
    return np.array(rows)


def z_score(scheme: Scheme, replicates: int = 4000, repeats: int = 3, seed: int = 1) -> float:
    """Largest mean change in standard errors: about 3 at most if the scheme is right."""
    rows = changes(scheme, replicates, repeats, seed)
    error = rows.std(axis=0, ddof=1) / np.sqrt(len(rows))
    # Given f, nothing but theta moves: what f alone says does not change.
    return float(np.max(np.abs(rows.mean(axis=0)) / np.maximum(error, 1e-12)))
