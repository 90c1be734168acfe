"""Transitions of f given theta: what one costs, and what it is worth beside BlackJAX's on the same target.

An evaluation is one of the likelihood; in hybrid Monte Carlo it is a leapfrog step. The data are those of the
comparative evaluation (section 4.1, d = 2): X, theta and f are the same for all four models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any, NamedTuple

import arviz as az
import numpy as np
from scipy.linalg.blas import dtrmv
from threadpoolctl import threadpool_limits

from case_studies.tools import simulation
from pmgp.core.adaptation.step_size import StepSize
from pmgp.core.gaussians import DensePrior
from pmgp.core.latent_updates import (
    EllipticalSliceUpdate,
    HamiltonianUpdate,
    LangevinUpdate,
    LatentUpdate,
    MetropolisUpdate,
)
from pmgp.core.likelihoods import Likelihood

__all__ = ["MODELS", "SIZES", "efficiency_rows", "time_rows"]

SIZES = (100, 400, 1000, 2000)
MODELS = tuple(simulation.MODELS)
ISOTROPIC: dict[str, LatentUpdate] = {
    "LatentMetropolis isotropic": MetropolisUpdate("isotropic"),
    "LatentHMC isotropic": HamiltonianUpdate("identity"),
}
OPERATORS: dict[str, LatentUpdate] = {
    "EllipticalSlice": EllipticalSliceUpdate(),
    "EllipticalSlice laplace": EllipticalSliceUpdate(reference="laplace"),
    "LatentMetropolis v1": MetropolisUpdate("random_walk"),
    "LatentMetropolis v2": MetropolisUpdate("autoregressive"),
    "LatentHMC v1": HamiltonianUpdate("posterior"),
    "LatentHMC v2": HamiltonianUpdate("prior"),
    "LatentSMMALA": LangevinUpdate(),
}
BLOCKS = 11
BLOCK_SECONDS = 0.05
TUNING = 1_000
# Enough for a step size of about the right length, which is all that timing needs: chains start at a posterior draw.
TUNING_FOR_TIME = 200
CHAINS = 4
# Draws kept of a chain, every k-th if it makes more: 400 latent values of them take 50 MB.
KEPT = 16_000
SEED = 1


class Run(NamedTuple):
    """One chain.

    Attributes
    ----------
    draws : (draws, n) array
        Every k-th of its transitions, where it made more than can be kept.
    seconds : float
        Time that it took, without tuning and compilation.
    transitions : int
    acceptance : float
    """

    draws: np.ndarray
    seconds: float
    transitions: int
    acceptance: float


class Problem(NamedTuple):
    """A data set: f is a draw of p(f|theta, y), as y was drawn given it."""

    covariance: np.ndarray
    likelihood: Likelihood
    f: np.ndarray

    def prior(self) -> DensePrior:
        """A prior that nobody has factorized yet."""
        return DensePrior(np.zeros(len(self.f)), self.covariance.copy(order="F"))


def problem(model: str, n: int) -> Problem:
    """One data set of a model, with two inputs."""
    data = simulation.simulate(n, 2, _stream(n))
    return Problem(data.covariance, simulation.likelihood(model, data.f, _stream(n, 1)), data.f)


def _stream(*key: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(SEED, spawn_key=key))


class Chain:
    """An operator at one theta, tuned; a call makes one transition."""

    def __init__(self, operator: LatentUpdate, problem: Problem, seed: int, tuning: int = TUNING) -> None:
        self.operator = operator
        self.rng = np.random.default_rng(seed)
        self.target = operator.prepare(problem.prior(), problem.likelihood)
        self.point = operator.init(self.target, problem.f)
        size = StepSize.start(operator.initial_step_size(len(problem.f)), operator.largest_step_size)
        self.accepted = self.evaluations = self.transitions = 0.0
        for _ in range(tuning):
            self.point, info = operator.step(self.rng, self.point, self.target, size.value)
            size = size.updated(info.acceptance_rate, operator.target_acceptance)
        self.step_size = size.frozen

    def __call__(self) -> None:
        self.point, info = self.operator.step(self.rng, self.point, self.target, self.step_size)
        self.accepted += info.acceptance_rate
        self.evaluations += info.evaluations
        self.transitions += 1.0


def seconds_of(call: Callable[[], Any], repetitions: int) -> float:
    """Mean time of a call."""
    start = perf_counter()
    for _ in range(repetitions):
        call()
    return (perf_counter() - start) / repetitions


def repetitions_of(call: Callable[[], Any]) -> int:
    """How many calls take about the time of a block."""
    return max(3, int(BLOCK_SECONDS / seconds_of(call, 5)))


def time_rows(sizes: tuple[int, ...] = SIZES, models: tuple[str, ...] = MODELS) -> Iterator[dict[str, Any]]:
    """Medians over blocks, each beside a block of triangular products: one chain, one BLAS thread."""
    with threadpool_limits(limits=1):
        for model in models:
            for n in sizes:
                given = problem(model, n)
                for name, operator in (ISOTROPIC | OPERATORS).items():
                    yield {"model": model, "n": n, "operator": name} | _times(operator, given)


def _times(operator: LatentUpdate, given: Problem) -> dict[str, float]:
    chain = Chain(operator, given, SEED, TUNING_FOR_TIME)
    chain.evaluations = chain.transitions = 0.0
    factor, vector = given.prior().factor, given.f

    def product() -> None:
        dtrmv(factor, vector, lower=1)

    numbers = repetitions_of(product), repetitions_of(chain)
    times = np.array([(seconds_of(product, numbers[0]), seconds_of(chain, numbers[1])) for _ in range(BLOCKS)])
    unit, transition = np.median(times, axis=0)
    evaluations = chain.evaluations / chain.transitions
    return {
        "us": float(1e6 * transition),
        "dtrmv us": float(1e6 * unit),
        "dtrmvs": float(transition / unit),
        "evaluations": evaluations,
        "dtrmvs an evaluation": float(transition / unit / evaluations),
    }


def efficiency_rows(
    n: int = 400, seconds: float = 5.0, blackjax: bool = True, models: tuple[str, ...] = MODELS
) -> Iterator[dict[str, Any]]:
    """Smallest ESS of the latent values per second of sampling, theta fixed, tuning and compilation not in the time.

    Parameters
    ----------
    n : int
    seconds : float
        Length of each of the four chains, which start at the true f, a draw of the posterior.
    blackjax : bool
        With BlackJAX's samplers on the same targets.
    models : tuple of str
    """
    with threadpool_limits(limits=1):
        for model in models:
            given = problem(model, n)
            for name, operator in OPERATORS.items():
                runs = [_run(operator, given, seed, seconds) for seed in range(CHAINS)]
                yield _efficiency_row(model, n, f"pmgp {name}", runs)
            if blackjax:
                yield from _blackjax_rows(model, n, given, seconds)


def _run(operator: LatentUpdate, given: Problem, seed: int, seconds: float) -> Run:
    chain = Chain(operator, given, seed)
    thin, draws = _length(seconds_of(chain, 100), seconds)
    kept = np.empty((draws, len(given.f)))
    chain.accepted = chain.transitions = 0.0
    start = perf_counter()
    for row in kept:
        for _ in range(thin):
            chain()
        row[:] = chain.point.payload
    return Run(kept, perf_counter() - start, thin * draws, chain.accepted / chain.transitions)


def _blackjax_rows(model: str, n: int, given: Problem, seconds: float) -> Iterator[dict[str, Any]]:
    import jax

    from benchmarks import blackjax_samplers

    for sampler in blackjax_samplers.SAMPLERS:
        runs = []
        for seed in range(CHAINS):
            chain = sampler(given.covariance, given.likelihood, given.f)
            keys = jax.random.split(jax.random.key(seed), 3)
            parameter = chain.tune(keys[0])
            trial = chain.run(keys[1], parameter, 1, 500)
            thin, draws = _length(trial.seconds / 500, seconds)
            run = chain.run(keys[2], parameter, thin, draws)
            runs.append(Run(run.draws, run.seconds, thin * draws, run.acceptance))
        yield _efficiency_row(model, n, sampler.name, runs)


def _length(cost: float, seconds: float) -> tuple[int, int]:
    """Thinning and draws kept for a number of seconds."""
    transitions = max(500.0, seconds / cost)
    thin = int(np.ceil(transitions / KEPT))
    return thin, int(transitions / thin)


def _efficiency_row(model: str, n: int, name: str, runs: list[Run]) -> dict[str, Any]:
    # Chains of a given time differ a little in length; what is cut off is taken off the time as well.
    length = min(len(run.draws) for run in runs)
    share = length / np.mean([len(run.draws) for run in runs])
    seconds = share * sum(run.seconds for run in runs)
    transitions = share * sum(run.transitions for run in runs)
    posterior = az.convert_to_dataset({"f": np.stack([run.draws[:length] for run in runs])})
    smallest = float(np.min(az.ess(posterior, method="bulk")["f"]))
    return {
        "model": model,
        "n": n,
        "method": name,
        "transitions": int(transitions),
        "seconds": float(seconds),
        "us": float(1e6 * seconds / transitions),
        "accepted": float(np.mean([run.acceptance for run in runs])),
        "min ESS": smallest,
        "R-hat": float(np.max(az.rhat(posterior)["f"])),
        "ESS/s": float(smallest / seconds),
        "ESS/transition": float(smallest / transitions),
    }
