"""One cell of the study, and the grid of all of them.

A cell is one operator on one data set of one model: chains that start from the prior, tune, and are then kept. What
is recorded is Table 2 of the comparative evaluation, as well as time, acceptance and operations in O(n^3).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from case_studies.tools import simulation
from case_studies.tools.autoregressive_size import autoregressive_sizes
from case_studies.tools.convergence import Moments, largest_rhat, moments_at
from case_studies.tools.effective_size import effective_sizes
from case_studies.tools.provenance import provenance
from case_studies.tools.scale import COMPARATIVE_EVALUATION, Scale
from case_studies.tools.stream import stream
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
from pmgp.core.numerics.ledger import OperationCounts, counted

__all__ = ["OPERATORS", "OURS", "SCALES", "Cell", "Scale", "cells", "prior", "problem", "run_cell", "run_chain"]

OURS = "ELL-SS q"
"""Elliptical slice sampling about Laplace's approximation and the prior in turn: the article does not have it."""

OPERATORS: dict[str, LatentUpdate] = {
    "MH v1": MetropolisUpdate("random_walk"),
    "MH v2": MetropolisUpdate("autoregressive"),
    "SMMALA": LangevinUpdate(),
    "ELL-SS": EllipticalSliceUpdate(),
    "HMC v1": HamiltonianUpdate("posterior", max_leapfrog=10),
    "HMC v2": HamiltonianUpdate("prior", max_leapfrog=10),
    OURS: EllipticalSliceUpdate(reference="laplace"),
}
"""In the order of the article's rows, by whose numbers the last row of its tables names them; ours is the last."""

SCALES = COMPARATIVE_EVALUATION


class Cell(NamedTuple):
    """One operator on one data set of one model."""

    n: int
    d: int
    dataset: int
    model: str
    operator: str

    @property
    def name(self) -> str:
        """File name without ending."""
        operator = self.operator.replace(" ", "_")
        return f"n{self.n}-d{self.d}-data{self.dataset}-{self.model}-{operator}"


class Chain(NamedTuple):
    """Results of one chain.

    Attributes
    ----------
    ess, ess_autoregressive : float
        Smallest over the latent values, by ArviZ's estimate and by coda's.
    moments : Moments
        For R-hat.
    acceptance, step_size, evaluations, seconds : float
        For the draws that are kept: mean acceptance probability and likelihood evaluations (for HMC: leapfrog steps)
        per transition, and processor time.
    operations : OperationCounts
        In O(n^3), likewise.
    """

    ess: float
    ess_autoregressive: float
    moments: Moments
    acceptance: float
    step_size: float
    evaluations: float
    seconds: float
    operations: OperationCounts


def cells(
    n: Sequence[int],
    d: Sequence[int],
    datasets: Sequence[int],
    models: Sequence[str] = tuple(simulation.MODELS),
    operators: Sequence[str] = tuple(OPERATORS),
) -> Iterator[Cell]:
    """All combinations, the data sets varying slowest, so that a run that is stopped has whole data sets."""
    for dataset in datasets:
        for size in n:
            for dimension in d:
                yield from _cells_of_one_data_set(size, dimension, dataset, models, operators)


def _cells_of_one_data_set(
    n: int, d: int, dataset: int, models: Iterable[str], operators: Sequence[str]
) -> Iterator[Cell]:
    return (Cell(n, d, dataset, model, operator) for model in models for operator in operators)


def run_cell(scale: Scale, cell: Cell) -> dict[str, Any]:
    """Run the chains of one cell: one only on data sets after the first, which differ as much as chains do, or more.

    Parameters
    ----------
    scale : Scale
    cell : Cell

    Returns
    -------
    dict
        Plain numbers and lists of them, which :func:`results.row` makes a line of. `ess` and `ess_autoregressive` have
        one number for each chain; `rhat` has one for each checkpoint, the largest over the latent values, which is not
        a number for one chain.
    """
    data, likelihood = problem(scale, cell)
    operator = OPERATORS[cell.operator]
    with counted() as preparation:
        target = operator.prepare(prior(data), likelihood)
    chains = [
        run_chain(_chain_stream(scale, cell, index), operator, target, start, scale)
        for index, start in enumerate(_starts(scale, cell, data))
    ]
    return _summary(chains, preparation.total, scale)


def problem(scale: Scale, cell: Cell) -> tuple[simulation.Simulated, Likelihood]:
    """X, theta and f of the data set, the same for all models; and the likelihood that holds the model's y."""
    place = (scale.seed, cell.n, cell.d, cell.dataset)
    data = simulation.data_set(*place)
    return data, simulation.observations(data, cell.model, *place)


def prior(data: simulation.Simulated) -> DensePrior:
    """The prior of f given the theta behind the data."""
    return DensePrior(np.zeros(len(data.f)), data.covariance.copy(order="F"))


def _starts(scale: Scale, cell: Cell, data: simulation.Simulated) -> Iterator[np.ndarray]:
    """Draws of the prior, the same for all models and operators; not among the counted operations of any."""
    drawn_from = prior(data)
    for index in range(scale.chains if cell.dataset == 0 else 1):
        yield drawn_from.sample(_start_stream(scale, cell, index), 1)[0]


def _start_stream(scale: Scale, cell: Cell, index: int) -> np.random.Generator:
    return stream(scale.seed, "start", cell.n, cell.d, cell.dataset, index)


def _chain_stream(scale: Scale, cell: Cell, index: int) -> np.random.Generator:
    """Random numbers of one chain, independent of those of all other chains of the study."""
    return stream(scale.seed, "chain", *cell, index)


def run_chain(
    rng: np.random.Generator,
    operator: LatentUpdate,
    target: Any,
    start: np.ndarray,
    scale: Scale,
    acceptance_rate: float | None = None,
) -> Chain:
    """Tune from a start, to the operator's own acceptance rate if no other is given; then sample."""
    wanted = operator.target_acceptance if acceptance_rate is None else acceptance_rate
    point, step_size = _tuned(rng, operator, target, operator.init(target, start), scale.tune, wanted)
    draws = np.empty((scale.draws, start.size))
    acceptance, evaluations = 0.0, 0
    clock = time.process_time()
    with counted() as counts:
        for row in draws:
            point, info = operator.step(rng, point, target, step_size)
            row[:] = point.payload
            acceptance += info.acceptance_rate
            evaluations += info.evaluations
    seconds = time.process_time() - clock
    sizes = (float(effective_sizes(draws).min()), float(autoregressive_sizes(draws).min()))
    means = (acceptance / scale.draws, step_size, evaluations / scale.draws)
    return Chain(*sizes, moments_at(draws, scale.checkpoints), *means, seconds, counts.total)


def _tuned(
    rng: np.random.Generator, operator: LatentUpdate, target: Any, point: Any, iterations: int, wanted: float
) -> tuple[Any, float]:
    """The point after tuning, and the step size that was learnt."""
    step = StepSize.start(operator.initial_step_size(point.payload.size), operator.largest_step_size)
    for _ in range(iterations):
        point, info = operator.step(rng, point, target, step.value)
        step = step.updated(info.acceptance_rate, wanted)
    return point, step.frozen


def _summary(chains: Sequence[Chain], preparation: OperationCounts, scale: Scale) -> dict[str, Any]:
    rhat = largest_rhat([chain.moments for chain in chains], scale.checkpoints)
    return {
        "ess": [chain.ess for chain in chains],
        "ess_autoregressive": [chain.ess_autoregressive for chain in chains],
        "rhat": dict(zip(map(str, scale.checkpoints), rhat.tolist(), strict=True)),
        **{key: _mean(chains, key) for key in ("acceptance", "step_size", "evaluations", "seconds")},
        "preparation": _by_kind(preparation),
        **provenance(),
        "sampling": _by_kind(OperationCounts(*_mean(chains, "operations"))),
    }


def _by_kind(counts: OperationCounts) -> dict[str, float]:
    """Those in O(n^3)."""
    return dict(zip(OperationCounts._fields, counts.cubic, strict=False))


def _mean(chains: Sequence[Chain], key: str) -> Any:
    return np.mean([getattr(chain, key) for chain in chains], axis=0).tolist()
