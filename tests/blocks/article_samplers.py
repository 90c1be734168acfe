"""Samplers (a) to (f) of the article on several classes and sources, and Geweke's test for them.

Weights theta = log w, f and counts of labels are drawn from their joint distribution, again and again, and a sampler
runs for a few iterations from each draw, counts given. No statistic may change on average (Gandy and Scott 2020).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pmgp.core.adaptation.scaling import Scaling
from pmgp.core.adaptation.step_size import StepSize
from pmgp.core.gaussians import BlockPrior, DensePrior
from pmgp.core.latent_updates import RiemannianUpdate
from pmgp.core.likelihoods import MultinomialLogit
from pmgp.core.theta_updates.densities import JointState, LatentPart
from pmgp.core.theta_updates.schemes import AncillaryScheme, Scheme, SufficientScheme
from pmgp.core.transitions.adaptive import HamiltonianMonteCarlo, RandomWalk
from pmgp.core.transitions.metric_adaptive import RiemannianMonteCarlo

N, CLASSES, SOURCES = 2, 2, 2
# Observations at each place, so that W changes with f as much as K^-1.
TRIALS = 10
LEAPFROG = 2


def _sources() -> np.ndarray:
    rng = np.random.default_rng(5)
    roots = rng.normal(size=(SOURCES, N, N))
    return roots @ roots.swapaxes(1, 2) / N + 0.3 * np.eye(N)


@dataclass
class WeightedSources:
    """K_c = sum_s exp(theta_cs) C_s with weights that are Gamma(2, 2), and counts y, (n, C), by a softmax."""

    y: np.ndarray
    sources: ClassVar[np.ndarray] = _sources()

    def weights(self, theta: np.ndarray) -> np.ndarray:
        return np.exp(theta).reshape(CLASSES, SOURCES)

    def log_prior(self, theta: np.ndarray) -> float:
        return float((2.0 * theta - 2.0 * np.exp(theta)).sum())

    def prior(self, theta: np.ndarray) -> BlockPrior:
        covariances = np.einsum("cs,sij->cij", self.weights(theta), self.sources)
        return BlockPrior([DensePrior(np.zeros(N), np.asfortranarray(k)) for k in covariances])

    def likelihood(self, theta: np.ndarray) -> MultinomialLogit:
        return MultinomialLogit(self.y, CLASSES)

    def theta_gradient(
        self, theta: np.ndarray, covariance_bar: np.ndarray, mean_bar: np.ndarray, f: np.ndarray
    ) -> np.ndarray:
        inner = np.einsum("cij,sij->cs", covariance_bar, self.sources) * self.weights(theta)
        return 2.0 - 2.0 * np.exp(theta) + inner.ravel()

    def pushforward(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        changes = np.zeros((CLASSES, SOURCES, CLASSES, N, N))
        for c, weights in enumerate(self.weights(theta)):
            changes[c, :, c] = weights[:, None, None] * self.sources
        return np.zeros((theta.size, CLASSES * N)), changes.reshape(theta.size, CLASSES, N, N)

    def curvature(self, theta: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.diag(2.0 * np.exp(theta))

    @classmethod
    def draw_jointly(cls, rng: np.random.Generator) -> tuple[JointState, WeightedSources]:
        theta = np.log(rng.gamma(2.0, 0.5, size=CLASSES * SOURCES))
        prior = cls(np.zeros((N, CLASSES), dtype=int)).prior(theta)
        f = prior.sample(rng, 1)[0]
        odds = np.exp(f.reshape(CLASSES, N).T)
        y = rng.multinomial(TRIALS, odds / odds.sum(axis=1, keepdims=True))
        return JointState(theta, LatentPart(prior, f)), cls(y)


class Sampler(NamedTuple):
    """An update of f and a scheme for theta, with their step sizes, and how many draws its test takes."""

    update: Any
    f_step: float
    scheme: Scheme
    theta_step: float
    replicates: int


HMC = HamiltonianMonteCarlo(max_leapfrog=LEAPFROG, learns_mass=False)
SAMPLERS = {
    "a": Sampler(RiemannianUpdate("identity", LEAPFROG), 0.35, SufficientScheme(HMC), 0.6, 750),
    "b": Sampler(RiemannianUpdate("fixed", LEAPFROG), 0.9, SufficientScheme(HMC), 0.6, 750),
    "c": Sampler(RiemannianUpdate("local", LEAPFROG), 1.0, SufficientScheme(HMC), 0.6, 250),
    "d": Sampler(
        RiemannianUpdate("local", LEAPFROG),
        1.0,
        SufficientScheme(RiemannianMonteCarlo(max_leapfrog=LEAPFROG)),
        0.4,
        150,
    ),
    "e": Sampler(RiemannianUpdate("fixed", LEAPFROG), 0.9, AncillaryScheme(RandomWalk()), 0.5, 750),
    "f": Sampler(RiemannianUpdate("local", LEAPFROG), 1.0, AncillaryScheme(RandomWalk()), 0.5, 250),
}


def iteration(
    rng: np.random.Generator, sampler: Sampler, model: WeightedSources, current: JointState
) -> tuple[JointState, tuple[float, float]]:
    """F given theta, then theta, and how likely each was accepted."""
    theta, (prior, f, _) = current
    target = sampler.update.prepare(prior, model.likelihood(theta))
    point, info = sampler.update.step(rng, sampler.update.init(target, f), target, sampler.f_step)
    current = JointState(theta, LatentPart(target.prior, point.payload))
    learned = Scaling.start(1.0, theta.size, 0)._replace(step_size=StepSize.start(sampler.theta_step))
    outcome = sampler.scheme.step(rng, current, model, (learned,), False)
    return outcome.current, (info.acceptance_rate, outcome.infos[0].acceptance_rate)


def statistics(current: JointState, y: np.ndarray) -> np.ndarray:
    """Moments of theta and f that tie them to each other and to the counts."""
    theta, (prior, f, _) = current
    counts = y.T.ravel() / TRIALS
    rows, columns = np.triu_indices(f.size)
    sizes = np.square(f).reshape(CLASSES, N).sum(axis=1)
    tied = [*(np.repeat(sizes, SOURCES) * theta), *(np.tanh(f) * counts), *(f * counts), prior.whiten(f)[0] ** 2]
    return np.array([*theta, *np.exp(theta), theta[0] * theta[1], *f, *(f[rows] * f[columns]), *tied])


def changes(sampler: Sampler, repeats: int = 2, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Changes of the statistics, a row for each draw, and mean acceptance rates."""
    rng, rows, rates = np.random.default_rng(seed), [], []
    for _ in range(sampler.replicates):
        current, model = WeightedSources.draw_jointly(rng)
        before = statistics(current, model.y)
        for _ in range(repeats):
            current, rate = iteration(rng, sampler, model, current)
            rates.append(rate)
        rows.append(statistics(current, model.y) - before)
    return np.array(rows), np.mean(rates, axis=0)


def z_score(rows: np.ndarray) -> float:
    """Return the largest mean change, in standard errors."""
    return float(np.max(np.abs(rows.mean(axis=0)) / (rows.std(axis=0, ddof=1) / np.sqrt(len(rows)))))
