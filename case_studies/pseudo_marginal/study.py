"""One chain of the study, and the grid of all of them.

A cell is one sampler on one posterior: a line of Tables 1 and 3, or of Figures 3 and 4, of the pseudo-marginal article.
Table 2 is counted on the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from case_studies.pseudo_marginal.problems import KERNELS, Problem, simulate
from case_studies.pseudo_marginal.samplers import PlainPseudoMarginal, Repeated, Traced
from case_studies.tools.chain import run_chain
from case_studies.tools.grid import Unit
from case_studies.tools.samplers import Alternating, Iterate, Marginal, Sampler
from case_studies.tools.scale import Scale
from case_studies.tools.stream import stream
from pmgp.core.approximations import Approximation, ExpectationPropagation, Laplace
from pmgp.core.latent_updates import EllipticalSliceUpdate
from pmgp.core.theta_updates.schemes import AncillaryScheme, Scheme, SurrogateScheme

__all__ = [
    "ESTIMATORS", "METHODS", "OURS", "OURS_LAPLACE", "SCALES", "SIMULATED", "THINNING", "Cell", "cells",
    "preliminary", "run_unit", "scale_of", "units",
]  # fmt: skip

OURS = "pmgp"
"""The step method with its defaults, with everything that the article's algorithm does not have."""

OURS_LAPLACE = "pmgp, Laplace"
"""The same with Laplace's approximation in place of expectation propagation."""

SIMULATED = "simulated"

APPROXIMATIONS: dict[str, Approximation] = {
    # Section 4: stop when the squared norm of f changes by less than n / 10^4.
    "LA": Laplace(tolerance=1e-4, sweeps=0),
    "EP": ExpectationPropagation(),
}
ESTIMATORS = {f"PM {name} ({draws})": (name, draws) for name in APPROXIMATIONS for draws in (1, 16, 64)}
"""Approximation and number of importance samples, by the names of Table 1's rows."""

METHODS = {
    "table 1": (*ESTIMATORS, "AA", "SURR", OURS, OURS_LAPLACE),
    "table 3": ("PM EP (64)", "AA", "SURR"),
    "real": ("PM LA (1)", "AA", "SURR", OURS),
}
"""Rows, by experiment."""

REPEATS = 20
"""Updates of theta, and then of f, in each iteration of Table 3."""

LATENT_UPDATES = {"table 1": 1, "table 3": REPEATS, "real": 10}
"""Elliptical slice moves of AA and SURR in each iteration; section 4.3 gives no number for Table 1."""

CHECKPOINTS = (1000, 2000, 5000, 10000)
THINNING = 10
"""Thinning of the traces in Figures 3 and 4."""


def _every(step: int, draws: int) -> tuple[int, ...]:
    return tuple(range(step, draws + 1, step))


SCALES: dict[str, dict[str, Scale]] = {
    "quick": {
        "table 1": Scale("quick", 12, 3, 300, 1500, (500, 1000, 1500), 1),
        "table 3": Scale("quick", 12, 3, 20, 100, (50, 100), 1),
        "real": Scale("quick", 12, 3, 100, 400, _every(50, 400), 1),
        "Abalone": Scale("quick", 12, 2, 5, 20, (10, 20), 1),
    },
    "paper": {
        "table 1": Scale("paper", 2014, 10, 5000, 10000, CHECKPOINTS, 1),
        "table 3": Scale("paper", 2014, 3, 250, 2000, (500, 1000, 2000), 1),
        "real": Scale("paper", 2014, 3, 1000, 4000, _every(100, 4000), 1),
        "Abalone": Scale("paper", 2014, 2, 100, 400, _every(20, 400), 1),
    },
}
"""Chains, tuning and draws of each experiment; ours are fewer than the article's on large data."""

FEW_CHAINS = 3
"""Number of chains for simulated data with n = 200."""


class Cell(NamedTuple):
    """One sampler on one posterior.

    Attributes
    ----------
    experiment : {"table 1", "table 3", "real"}
    data : str
        "simulated", or the name of a data set.
    n, d : int
        For simulated data; 0 otherwise.
    kernel : {"isotropic", "ARD"}
    method : str
    """

    experiment: str
    data: str
    n: int
    d: int
    kernel: str
    method: str

    @property
    def name(self) -> str:
        """File name without ending."""
        problem = f"n{self.n}-d{self.d}-{self.kernel}" if self.data == SIMULATED else self.data
        method = self.method.replace(" ", "_").translate(str.maketrans("", "", "(),"))
        return f"{self.experiment.replace(' ', '')}-{problem}-{method}"


def cells() -> list[Cell]:
    """All cells: small simulated data first, real data that are small, larger data."""
    small = _real("Breast", "Pima")
    return [
        *_simulated("table 1", 50), *small, *_simulated("table 3", 50), *_simulated("table 1", 200),
        *_simulated("table 3", 200), *_real("Abalone"),
    ]  # fmt: skip


def _simulated(experiment: str, n: int) -> Iterator[Cell]:
    for d in (2, 10):
        for kernel in KERNELS:
            yield from (Cell(experiment, SIMULATED, n, d, kernel, method) for method in METHODS[experiment])


def _real(*names: str) -> list[Cell]:
    return [Cell("real", name, 0, 0, "isotropic", method) for name in names for method in METHODS["real"]]


def scale_of(name: str, cell: Cell) -> Scale:
    """Chains, tuning and draws of a cell at one of the :data:`SCALES`."""
    scale = SCALES[name]["Abalone" if cell.data == "Abalone" else cell.experiment]
    return replace(scale, chains=min(scale.chains, FEW_CHAINS)) if cell.n == 200 else scale


def units(name: str, chosen: Sequence[Cell]) -> list[Unit]:
    """Their chains, cell by cell."""
    return [Unit(cell, chain) for cell in chosen for chain in range(scale_of(name, cell).chains)]


@lru_cache(maxsize=1)
def _problem(seed: int, data: str, n: int, d: int, kernel: str) -> Problem:
    """Compiled once for all methods; both kernels and all tables have the same simulated data."""
    if data != SIMULATED:
        return Problem.real(data)
    return Problem.simulated(simulate(n, d, stream(seed, "data", n, d)), kernel)


@lru_cache(maxsize=4)
def preliminary(seed: int, n: int, d: int, kernel: str, iterations: int) -> float:
    """Step size that gives EP with 64 importance samples an acceptance of 25 %; all pseudo-marginal rows have it.

    Parameters
    ----------
    seed, n, d, kernel
        Those of the simulated problem.
    iterations : int
        Number for the preliminary chain, which starts from the prior.
    """
    problem, rng = _problem(seed, SIMULATED, n, d, kernel), stream(seed, "preliminary", n, d, kernel)
    sampler = PlainPseudoMarginal(APPROXIMATIONS["EP"], 64)
    iterate: Iterate = sampler.start(rng, problem, problem.start(rng), iterations, 0)
    for _ in range(iterations):
        iterate = sampler.step(rng, problem, iterate, True)
    return iterate.state.step_size.frozen


def sampler(cell: Cell, step_size: float | None) -> Sampler:
    """The sampler of a cell; `step_size` is that of plain pseudo-marginal chains on simulated data."""
    if cell.method in (OURS, OURS_LAPLACE):
        return Marginal()
    repeats = REPEATS if cell.experiment == "table 3" else 1
    if cell.method in ESTIMATORS:
        name, draws = ESTIMATORS[cell.method]
        return PlainPseudoMarginal(APPROXIMATIONS[name], draws, step_size, cell.experiment == "real", repeats)
    scheme: Scheme = AncillaryScheme() if cell.method == "AA" else SurrogateScheme()
    moves = EllipticalSliceUpdate(LATENT_UPDATES[cell.experiment])
    return Alternating(Repeated(scheme=scheme, repeats=repeats), 1, latent=moves)


def _step_size(name: str, cell: Cell) -> float | None:
    """From a preliminary chain as long as Table 1's tuning, whatever the experiment."""
    if cell.data != SIMULATED or cell.method not in ESTIMATORS:
        return None
    scale = SCALES[name]["table 1"]
    return preliminary(scale.seed, cell.n, cell.d, cell.kernel, scale.tune)


def run_unit(name: str, unit: Unit) -> dict[str, Any]:
    """Run one chain.

    Parameters
    ----------
    name : str
        Name of the scale.
    unit : Unit

    Returns
    -------
    dict
        What :func:`run_chain` returns; `step_size` of the plain pseudo-marginal chains on simulated data; on real data
        `trace`, the thinned log length-scale.
    """
    cell, scale = unit.cell, scale_of(name, unit.cell)
    problem, step_size = _problem(scale.seed, *cell[1:5]), _step_size(name, cell)
    problem = problem.with_laplace if cell.method == OURS_LAPLACE else problem
    start = problem.start(_start_stream(scale, unit))
    chain = Traced(sampler(cell, step_size))
    result = run_chain(_chain_stream(scale, unit), chain, problem, start, scale) | {"step_size": step_size}
    if cell.data == SIMULATED:
        return result
    log_lengthscale = problem.model.parts.theta_names.index("lengthscale_log__")
    return result | {"trace": np.array(chain.trace)[THINNING - 1 :: THINNING, log_lengthscale].tolist()}


def _start_stream(scale: Scale, unit: Unit) -> np.random.Generator:
    """Methods share their starts."""
    return stream(scale.seed, "start", *unit.cell[:5], unit.chain)


def _chain_stream(scale: Scale, unit: Unit) -> np.random.Generator:
    """Random numbers of one chain, independent of those of all other chains of the study."""
    return stream(scale.seed, "chain", *unit.cell, unit.chain)
