"""One chain of the study, and the grid of all of them.

A cell is one sampler on one posterior: a number in Tables 3 to 6 of the comparative evaluation. Its chains are run one
by one, so that those of large data sets can be stopped and resumed. What is recorded of each is what the tables
show, for the hyper-parameters on the unconstrained scale, as well as time, acceptance and operations in O(n^3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from case_studies.parameterizations import problems
from case_studies.parameterizations.exact_variance import ExactVariance
from case_studies.parameterizations.problems import REAL
from case_studies.tools import simulation
from case_studies.tools.chain import run_chain
from case_studies.tools.grid import Result, Unit
from case_studies.tools.problem import Problem
from case_studies.tools.samplers import Alternating, Conditional, Marginal, Sampler
from case_studies.tools.scale import COMPARATIVE_EVALUATION, Scale
from case_studies.tools.stream import stream
from pmgp.core.approximations import Laplace
from pmgp.core.theta_updates.schemes import AncillaryScheme, JointScheme, Scheme, SufficientScheme, SurrogateScheme
from pmgp.core.transitions.adaptive import HamiltonianMonteCarlo, ManifoldLangevin, RandomWalk
from pmgp.core.transitions.base import AdaptiveTransition

__all__ = [
    "OPERATORS", "OURS", "PROPOSALS", "SCALES", "SCHEMES", "SETTINGS", "Cell", "Scale", "cells", "enough", "run_unit",
    "units",
]  # fmt: skip

SCALES = COMPARATIVE_EVALUATION

OPERATORS: dict[str, AdaptiveTransition] = {
    "MH": RandomWalk(),
    "HMC": HamiltonianMonteCarlo(max_leapfrog=10),
    "SMMALA": ManifoldLangevin(),
}
"""Rows of Tables 3 and 4, by the names of pmgp."""

OURS = "PM"
"""The pseudo-marginal chain, which the article does not have."""

SCHEMES = ("AA", "ASIS", "KHR", "SA", "SURR", OURS)
"""Rows of Tables 5 and 6, in the article's order, and ours."""

PROPOSALS = ("identity", "learned", "own")
"""Proposals of theta: with a multiple of the identity as covariance, as in the article; with that of tuning draws; or
as the method has it (SMMALA, pseudo-marginal)."""

SIMULATED = "simulated"
LATENT_UPDATES = {5: 1, 6: 5}
SETTINGS = {"latent_updates": list(LATENT_UPDATES.values())}
"""Settings that a finished chain depends on besides the scale and the simulation's settings."""

LARGE = tuple(REAL)[2:]
"""Real data sets with more than 600 rows."""
FEWEST_CHAINS = 4
PRECISION = 0.2
"""Relative standard error of a cell's mean ESS at which its chains end on the first data set. The record compares
within a factor of two."""


class Cell(NamedTuple):
    """One sampler on one posterior.

    Attributes
    ----------
    table : int
        The article's: 3 length-scales given f, 4 theta given nu and y, 5 theta and f jointly, 6 the same on real data.
    data : str
        "simulated", or the name of a data set.
    n, d, dataset : int
        For simulated data; 0 otherwise.
    model : str
        The likelihood's abbreviation.
    method, proposal : str
    """

    table: int
    data: str
    n: int
    d: int
    dataset: int
    model: str
    method: str
    proposal: str

    @property
    def name(self) -> str:
        """File name without ending."""
        problem = f"n{self.n}-d{self.d}-data{self.dataset}-{self.model}" if self.data == SIMULATED else self.data
        return f"table{self.table}-{problem}-{self.method}-{self.proposal}"


def cells(scale: Scale) -> list[Cell]:
    """All cells, what says most first.

    Real data that are small; n = 100; the same with learned proposals; then larger data. The data sets vary slower than
    the methods, so that a run that is stopped has whole comparisons.
    """
    small = [name for name in REAL if name not in LARGE]
    every = range(scale.datasets)
    first = [*_real(small, "identity"), *_joint(100, every, "identity"), *_conditional(100, every, "identity")]
    again = [*_real(small, "learned"), *_joint(100, every, "learned"), *_conditional(100, every, "learned")]
    last = [*_real(LARGE, "identity"), *_joint(400, every, "identity"), *_conditional(400, every, "identity")]
    return list(dict.fromkeys([*first, *again, *last]))


def _methods(names: Sequence[str], proposal: str) -> Iterator[tuple[str, str]]:
    return ((name, "own" if name in ("SMMALA", OURS) else proposal) for name in names)


def _real(names: Sequence[str], proposal: str) -> Iterator[Cell]:
    return (Cell(6, name, 0, 0, 0, "LRG", *method) for name in names for method in _methods(SCHEMES, proposal))


def _joint(n: int, every: range, proposal: str) -> Iterator[Cell]:
    for d in (2, 10):
        for dataset in every:
            yield from (Cell(5, SIMULATED, n, d, dataset, "LRG", *method) for method in _methods(SCHEMES, proposal))


def _conditional(n: int, every: range, proposal: str) -> Iterator[Cell]:
    """Tables 3 and 4. Given f the likelihood does not matter, so Table 3 has one model only."""
    operators = list(_methods(tuple(OPERATORS), proposal))
    for dataset in every:
        for d in (2, 10):
            yield from (Cell(3, SIMULATED, n, d, dataset, "LRG", *method) for method in operators)
            for model in simulation.MODELS:
                yield from (Cell(4, SIMULATED, n, d, dataset, model, *method) for method in operators)


def enough(cell: Cell, chains: Sequence[Result]) -> bool:
    """Whether the mean ESS of chains, by coda's estimate, is known well enough to be compared with the article's.

    The article's is a mean over ten data sets, which differ about as much as chains do, or more. So the data sets after
    the first have one chain each; and so have the real ones with most rows, whose chains take up to ten minutes.
    """
    if cell.dataset > 0 or cell.data in LARGE:
        return len(chains) > 0
    sizes = np.array([chain["ess_autoregressive"] for chain in chains])
    if sizes.size < FEWEST_CHAINS:
        return False
    return bool(sizes.std(ddof=1) <= PRECISION * np.sqrt(sizes.size) * sizes.mean())


def units(scale: Scale, chosen: Sequence[Cell]) -> list[Unit]:
    """Their chains, cell by cell."""
    return [Unit(cell, chain) for cell in chosen for chain in range(scale.chains)]


PROBLEMS: dict[int, Callable[..., Problem]] = {
    3: problems.given_latent,
    4: problems.given_whitened,
    5: problems.jointly,
}


@lru_cache(maxsize=1)
def _problem(seed: int, table: int, data: str, n: int, d: int, dataset: int, model: str) -> Problem:
    """Compiled once for all methods, which follow one another in the grid."""
    if table == 6:
        return problems.on_real_data(data)
    return PROBLEMS[table](seed, n, d, dataset, model)


def sampler(cell: Cell, problem: Problem, rate: float | None = None) -> Sampler:
    """The sampler of a cell, its operator tuned to an acceptance rate, by default its own."""
    if cell.method == OURS:
        return Marginal()
    if cell.method in OPERATORS:
        operator: Any = OPERATORS[cell.method]
        operator = operator if rate is None else replace(operator, target_acceptance=rate)
        scheme = SufficientScheme(operator) if cell.table == 3 else AncillaryScheme(operator)
        return Conditional(scheme, cell.proposal == "learned")
    return Alternating(_scheme(cell.method, problem), LATENT_UPDATES[cell.table], cell.proposal == "learned")


def _scheme(name: str, problem: Problem) -> Scheme:
    if name in ("ASIS", "SA"):
        assert problem.variance is not None
        return ExactVariance(variance=problem.variance, interweaving=name == "ASIS")
    return {"AA": AncillaryScheme(), "KHR": JointScheme(approximation=Laplace(sweeps=0)), "SURR": SurrogateScheme()}[
        name
    ]


def run_unit(scale: Scale, unit: Unit) -> dict[str, Any]:
    """Run one chain, and return what :func:`run_chain` does."""
    problem = _problem(scale.seed, *unit.cell[:6])
    start = problem.start(_start_stream(scale, unit))
    return run_chain(_chain_stream(scale, unit), sampler(unit.cell, problem), problem, start, scale)


def _start_stream(scale: Scale, unit: Unit) -> np.random.Generator:
    """Methods share their starts."""
    return stream(scale.seed, "start", *unit.cell[:6], unit.chain)


def _chain_stream(scale: Scale, unit: Unit) -> np.random.Generator:
    """Random numbers of one chain, independent of those of all other chains of the study."""
    return stream(scale.seed, "chain", *unit.cell, unit.chain)
