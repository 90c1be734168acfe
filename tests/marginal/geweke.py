"""Geweke's joint distribution test (2004) for a scheme on theta.

Alternate one step of the chain given y with a fresh y given f. Then theta and f must keep their prior distribution:
a chain that does not leave p(theta, f|y) invariant drifts away from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import ndtr

from pmgp.core.adaptation.mode_prediction import ModePredictor
from pmgp.core.approximations import Approximation, Laplace
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods import BernoulliProbit
from pmgp.core.marginal.evaluation import Evaluator
from pmgp.core.marginal.pseudo_marginal import Frozen, PseudoMarginalChain, State
from pmgp.core.marginal.screen import ScreenDensity
from pmgp.core.numerics.linalg import symmetrized
from pmgp.core.transitions.base import Point
from pmgp.core.transitions.mixture import LearnedMixture
from pmgp.core.transitions.proposals import AdaptiveProposal
from tests import mean_changes

DEFAULT = Laplace()


@cache
def probit(y: tuple[int, ...]) -> BernoulliProbit:
    """The likelihood of six labels, of which there are few."""
    return BernoulliProbit(np.array(y))


@dataclass
class ToyModel:
    """A squared exponential process at six points, theta = (log length-scale, log variance), both normal."""

    y: np.ndarray
    x = np.linspace(-1.5, 1.5, 6)
    squared_distances = np.square(x[:, None] - x)
    jitter = 1e-3 * np.eye(6)
    prior_mean = np.array([0.0, 1.2])
    prior_scale = np.array([0.5, 0.7])

    def log_prior(self, theta: np.ndarray) -> float:
        return -0.5 * float(np.square((theta - self.prior_mean) / self.prior_scale).sum())

    def prior(self, theta: np.ndarray) -> DensePrior:
        lengthscale, variance = np.exp(theta)
        covariance = variance * np.exp(-0.5 * self.squared_distances / lengthscale**2) + self.jitter
        return DensePrior(np.full(6, 0.4), np.asfortranarray(covariance))

    def likelihood(self, theta: np.ndarray) -> BernoulliProbit:
        return probit(tuple(self.y))


class DifferentiableToy(ToyModel):
    """With what trajectories on the screen need."""

    likelihood_elements = ()

    def log_prior_gradient(self, theta: np.ndarray) -> np.ndarray:
        return -(theta - self.prior_mean) / self.prior_scale**2

    def covariance_pullback(self, theta: np.ndarray, covariance_bar: np.ndarray, mean_bar: np.ndarray) -> np.ndarray:
        lengthscale, variance = np.exp(theta)
        squared = self.squared_distances / lengthscale**2
        smooth = variance * np.exp(-0.5 * squared)
        bar = symmetrized(covariance_bar)
        return np.array([(bar * smooth * squared).sum(), (bar * smooth).sum()])


def learned() -> LearnedMixture:
    """Half random walk, half an independence t that is deliberately off."""
    return LearnedMixture.fixed(
        AdaptiveProposal(
            2,
            independence=0.5,
            log_scale=np.log(1.2),
            location=np.array([0.3, 1.0]),
            factor=np.array([[0.5, 0.0], [0.1, 0.6]]),
        )
    )


def ready_point(
    evaluate: Evaluator, theta: np.ndarray, predictor: ModePredictor | None = None, gradient: bool = False
) -> Point:
    """The point of the screen where a chain stands."""
    point = ScreenDensity(evaluate, predictor).at(theta, gradient)
    return point._replace(payload=evaluate.prepare(point.payload))


def statistics(theta: np.ndarray, f: np.ndarray, y: np.ndarray) -> np.ndarray:
    """First and second moments of theta, and moments of f that tie it to theta and y: (draws, 10)."""
    first, second = theta.T
    size = np.square(f).mean(axis=1)
    of_theta = [first, second, first**2, second**2, first * second]
    of_f = [f.mean(axis=1), size, f[:, 0] * f[:, 5], second * size, (y * f).sum(axis=1)]
    return np.stack([*of_theta, *of_f], axis=1)


def statistics_of(rows: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> np.ndarray:
    """The statistics of rows of theta, f and y."""
    return statistics(*map(np.array, zip(*rows, strict=True)))


@cache
def prior_statistics(draws: int, seed: int) -> np.ndarray:
    """The marginal-conditional simulator: independent draws of the statistics."""
    rng, toy = np.random.default_rng(seed), ToyModel
    theta = toy.prior_mean + toy.prior_scale * rng.standard_normal((draws, 2))
    lengthscale, variance = np.exp(theta.T)[..., None, None]
    covariance = variance * np.exp(-0.5 * toy.squared_distances / lengthscale**2) + toy.jitter
    f = 0.4 + (np.linalg.cholesky(covariance) @ rng.standard_normal((draws, 6, 1)))[..., 0]
    return statistics(theta, f, rng.uniform(size=(draws, 6)) < ndtr(f))


@cache
def expected_statistics() -> np.ndarray:
    """Means over so many independent draws that their errors do not count: (10,)."""
    return prior_statistics(300_000, 0).mean(axis=0)


def chain_statistics(
    scheme: PseudoMarginalChain,
    steps: int,
    seed: int,
    approximation: Approximation = DEFAULT,
) -> np.ndarray:
    """The successive-conditional simulator.

    Parameters
    ----------
    approximation : Approximation
        Where q is poor, as without sweeps of moment matching, errors in how particles are kept weigh more.
    """
    rng = np.random.default_rng(seed)
    model = ToyModel(np.array([0, 1, 1, 0, 1, 1]))
    evaluate = Evaluator(model, approximation)
    frozen = Frozen(learned(), None, getattr(scheme.estimator, "draws", None))
    current = ready_point(evaluate, model.prior_mean)
    state = scheme.init(rng, current.payload, frozen)
    rows = []
    for _ in range(steps):
        state, current, _ = scheme.step(rng, state, current, evaluate, frozen)
        rows.append((state.theta, state.particle, model.y))
        model.y = (rng.uniform(size=6) < ndtr(state.particle)).astype(int)
        current = ready_point(evaluate, state.theta)
        state = scheme.refresh(rng, state, current.payload, frozen)
    return statistics_of(rows)


def largest_change(
    scheme: PseudoMarginalChain,
    frozen: Frozen,
    approximation: Approximation,
    replicates: int,
    repeats: int = 2,
    seed: int = 1,
    use_latent: bool = False,
) -> float:
    """Return the largest change that some iterations make to a mean, in standard errors; see `mean_changes`.

    A chain begins with an estimate given f, so that its extended state is a draw too. With `use_latent`, f is the
    trace's copy and not the retained particle.
    """
    rng = np.random.default_rng(seed)
    before, after = [], []
    for _ in range(replicates):
        model = DifferentiableToy(np.zeros(6, dtype=int))
        theta = model.prior_mean + model.prior_scale * rng.standard_normal(2)
        f = model.prior(theta).sample(rng, 1)[0]
        model.y = (rng.uniform(size=6) < ndtr(f)).astype(int)
        before.append((theta, f, model.y))
        evaluate = Evaluator(model, approximation)
        current = ready_point(evaluate, theta, frozen.predictor, gradient=scheme.transition.derivatives > 0)
        state = scheme.refresh(rng, State(theta, f, 0.0, 1.0, 0), current.payload, frozen)
        for _ in range(repeats):
            state, current, info = scheme.step(rng, state, current, evaluate, frozen)
        after.append((state.theta, info.latent if use_latent else state.particle, model.y))
    return mean_changes.largest_change(statistics_of(before), statistics_of(after), expected_statistics())


def largest_z_score(chain: np.ndarray, independent: np.ndarray, batches: int = 100) -> float:
    """Largest difference of means over all statistics, in standard errors; batch means for the chain."""
    means = chain[: len(chain) // batches * batches].reshape(batches, -1, chain.shape[1]).mean(axis=1)
    variance = means.var(axis=0, ddof=1) / batches + independent.var(axis=0, ddof=1) / len(independent)
    return float(np.max(np.abs(means.mean(axis=0) - independent.mean(axis=0)) / np.sqrt(variance)))


def z_score(scheme: PseudoMarginalChain, steps: int, seed: int = 1, approximation: Approximation = DEFAULT) -> float:
    """Geweke's test by one long chain: about 3 at most if the scheme is right (the largest of ten)."""
    chain = chain_statistics(scheme, steps, seed, approximation)
    return largest_z_score(chain, prior_statistics(40_000, seed + 1))


def change_score(
    scheme: PseudoMarginalChain | None = None,
    replicates: int = 2000,
    approximation: Approximation = DEFAULT,
    **settings,
) -> float:
    """Geweke's test by changes from independent draws, which shows most mistakes with far fewer steps than a chain."""
    scheme = scheme or PseudoMarginalChain(ImportanceSampling(4), refresh_every=3)
    frozen = Frozen(learned(), None, getattr(scheme.estimator, "draws", None))
    return largest_change(scheme, frozen, approximation, replicates, **settings)
