"""The units of the study: the smallest pieces that are run, kept and resumed, and the order they are run in.

Tables 1 to 3 and the figures are made of blocks of runs of one method with one number of draws; experiment 4 of
problems with one pair of hyper-parameters, on which all methods run, since they are compared with the median of four.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from case_studies.orthants import claims, classes, problems
from case_studies.orthants.methods import Found, method
from case_studies.orthants.problems import CLASSES, Problem
from case_studies.orthants.scales import CHAINS, SCALES, Scale
from case_studies.tools.grid import Grid
from case_studies.tools.provenance import provenance
from case_studies.tools.stream import stream

__all__ = ["SCALES", "Bias", "Block", "Extinction", "Scale", "Setting", "Unit", "run", "units"]

COUNTS = ("GPC-MC hard", "GPC-MC soft")
ONE_FEATURE = "GPC-MC one feature"
"""The first of these, with the same estimates in less time and memory, for Tables 1 to 3."""
CONTROLS = "control variables"
OURS = "EP-twisted"
DRAWS = (64, 200, 1000)
"""Numbers of draws of the new method."""

COMPETITORS = {
    "SMC": (100, 1000, 10_000),
    "GHK": (64, 1000, 10_000),
    "GHK random": (64, 1000, 10_000),
    "Botev": (64, 1000),
    "EP": (0,),
    "EP importance": (64, 1000, 10_000),
    "AIS": (16, 64, 256),
    "ESS": (10, 100, 1000),
    "HMC": (10, 100, 1000),
    "SciPy": (1000, 10_000),
}
"""Methods in Figures 1 and 2, with their numbers of draws; EP alone has none, SciPy's are points of a lattice."""

RUNS = 10
"""Number of runs of a competitor, as in the article's figures."""

ARTICLES = (COUNTS[1], *CHAINS)
"""The article's four methods in experiment 4, which are compared with their median."""
BESIDE = {"EP": 0, "EP importance": 1000, OURS: 1000}
"""Other methods in it, with their draws."""
EXPERIMENT_4 = (*ARTICLES, *BESIDE)
NO_CONTROLS = 9
"""The problem on which the article's control variables did not converge: all 750 labels need one. Ours are not run."""

REFERENCE = 10_000
"""Draws of the new method that stand for the truth where there is none."""

FEW = ("GPC-MC hard", "GPC-MC soft", "SMC", OURS)
FEW_DRAWS = (2, 4, 8, 16, 64)
VARIANCES = (1.0, 10.0, 50.0, 200.0)


class Block(NamedTuple):
    """Runs of experiment 1 ("factor", N is `which`) or 2 ("linear", `which` numbers the problem)."""

    part: str
    which: int
    method: str
    draws: int

    @property
    def name(self) -> str:
        """File name without ending."""
        return f"block-{self.part}-{self.which}-{self.method}-{self.draws}"

    @property
    def n(self) -> int:
        """Number of labels."""
        return self.which if self.part == "factor" else CLASSES[self.which].n


class Setting(NamedTuple):
    """A problem of experiment 4 with one pair of hyper-parameters, numbered from 0."""

    problem: int
    hyper: int

    @property
    def name(self) -> str:
        """File name without ending."""
        return f"setting-{self.problem}-{self.hyper}"


class Bias(NamedTuple):
    """The mean of a method's estimates of an equicorrelated orthant."""

    method: str
    n: int
    draws: int

    @property
    def name(self) -> str:
        """File name without ending."""
        return f"bias-{self.method}-{self.n}-{self.draws}"


class Extinction(NamedTuple):
    """Runs of a count on labels of a process with this variance."""

    n: int
    variance: float
    method: str
    draws: int

    @property
    def name(self) -> str:
        """File name without ending."""
        return f"extinction-{self.n}-{self.variance:g}-{self.method}-{self.draws}"


Unit = Block | Setting | Bias | Extinction


def units(scale: Scale) -> list[Unit]:
    """All units, what says most first."""
    blocks = sorted(_blocks(scale), key=lambda block: block.which != scale.figure or block.part != "linear")
    biases = [
        Bias(name, n, draws) for n in (3, 10) for draws in FEW_DRAWS for name in FEW if (name, draws) != (OURS, 2)
    ]
    return [*biases, *blocks, *_extinctions(scale), *(Setting(p, h) for p in scale.classes for h in _hypers())]


def _hypers() -> range:
    return range(len(classes.HYPERS))


def _blocks(scale: Scale) -> Iterator[Block]:
    hard, soft = COUNTS
    places = [("factor", n) for n in scale.sizes] + [("linear", number) for number in scale.linear]
    for part, which in places:
        tried = {OURS: DRAWS, ONE_FEATURE: scale.particles, soft: scale.particles}
        if (part, which) == ("linear", scale.figure):
            tried |= {hard: scale.particles} | COMPETITORS
        every = [Block(part, which, name, draws) for name, numbers in tried.items() for draws in numbers]
        yield from (one for one in every if one.method not in COUNTS or scale.feasible(one.n, one.draws))


def _extinctions(scale: Scale) -> Iterator[Extinction]:
    for variance in VARIANCES:
        for draws in (100, 1000, scale.most):
            yield from (Extinction(200, variance, name, draws) for name in COUNTS)


def run(scale: Scale, grid: Grid, unit: Unit) -> dict[str, Any]:
    """Run a unit, or take what it gave before; fit for JSON."""
    [finished] = grid.run([unit], partial(_COMPUTE[type(unit)], scale))
    return finished.result


def _stream(scale: Scale, unit: Unit, *names: str) -> np.random.Generator:
    """Random numbers of one unit, independent of those of all others; its name has its kind and all its fields."""
    return stream(scale.seed, unit.name, *names)


@lru_cache(maxsize=64)
def _problem(seed: int, part: str, which: int, number: int) -> Problem:
    """Data of one run, the same for all methods."""
    rng = stream(seed, "data", part, which, number)
    return problems.of_one_factor(rng, which) if part == "factor" else problems.linear(rng, which)


@lru_cache
def _compile(name: str) -> None:
    """So that what is compiled in a first call is not in the times."""
    method(name)(np.random.default_rng(0), problems.linear(np.random.default_rng(0), 1), 64)


def _timed(rng: np.random.Generator, name: str, problem: Problem, draws: int) -> tuple[Found, float]:
    _compile(name)
    clock = time.process_time()
    found = method(name)(rng, problem, draws)
    return found, time.process_time() - clock


def _block(scale: Scale, unit: Block) -> dict[str, Any]:
    rng = _stream(scale, unit)
    runs = scale.runs(unit.part, unit.n, unit.draws, unit.method in COUNTS)
    runs = min(runs, RUNS) if unit.method in COMPETITORS else runs
    rows = []
    for number in range(runs):
        problem = _problem(scale.seed, unit.part, unit.which, number)
        assert problem.truth is not None
        found, seconds = _timed(rng, unit.method, problem, unit.draws)
        errors = np.abs(found.probability - problem.truth.probability)
        error = float(errors.mean()) if errors.size else float("nan")
        truth = {"truth": problem.truth.log_evidence, "log_evidence": found.log_evidence}
        rows.append({"run": number, **truth, "probability_error": error, "seconds": seconds})
    return {"rows": rows} | provenance()


def _setting(scale: Scale, unit: Setting) -> dict[str, Any]:
    """All methods on one problem of experiment 4."""
    given = classes.data(stream(scale.seed, "classes", unit.problem), unit.problem)
    problem = classes.problem(given, *classes.HYPERS[unit.hyper])
    particles, chains = scale.draws(problem.size)
    counts = {COUNTS[1]: particles, **chains, **BESIDE}
    if unit.problem == NO_CONTROLS:
        del counts[CONTROLS]
    tried = {name: _timed(_stream(scale, unit, name), name, problem, draws) for name, draws in counts.items()}
    reference = method(OURS)(_stream(scale, unit, "reference"), problem, REFERENCE)
    judges = [found.probability for name, (found, _) in tried.items() if name in ARTICLES]
    median = np.median(judges, axis=0)
    compared = {"post": given.posterior, "median": median, "reference": reference.probability}
    rows = []
    for name, (found, seconds) in tried.items():
        errors = {f"mae_{key}": _distance(found.probability, value) for key, value in compared.items()}
        evidences = {"log_evidence": found.log_evidence, "reference": reference.log_evidence}
        rows.append({"method": name, "draws": counts[name], **evidences, **errors, "seconds": seconds})
    return {"rows": rows} | provenance()


def _distance(one: np.ndarray, other: np.ndarray | None) -> float:
    return float("nan") if other is None else float(np.abs(one - other).mean())


def _bias(scale: Scale, unit: Bias) -> dict[str, Any]:
    # Estimates of the new method spread far less, and each fits an approximation.
    repetitions = scale.repetitions // 20 if unit.method == OURS else scale.repetitions
    found = claims.mean_ratio(_stream(scale, unit), unit.method, unit.n, unit.draws, repetitions)
    return {"rows": [found]} | provenance()


@lru_cache(maxsize=4)
def _process(seed: int, n: int, variance: float) -> tuple[Problem, float]:
    """Labels, and a long run's log p(y|theta)."""
    problem = claims.process(stream(seed, "process", n, f"{variance:g}"), n, variance)
    return problem, method(OURS)(stream(seed, "process reference", n, f"{variance:g}"), problem, REFERENCE).log_evidence


def _extinction(scale: Scale, unit: Extinction) -> dict[str, Any]:
    problem, reference = _process(scale.seed, unit.n, unit.variance)
    runs = max(int(20 * scale.share), 3)
    found = claims.extinction(_stream(scale, unit), problem, unit.method, unit.draws, runs, reference)
    return {"rows": [found]} | provenance()


_COMPUTE: dict[type, Callable[[Scale, Any], dict[str, Any]]] = {
    Block: _block,
    Setting: _setting,
    Bias: _bias,
    Extinction: _extinction,
}
