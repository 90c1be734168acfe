"""The cells of the study: a preconditioner at a length-scale and a variance of the noise, on a data set.

Section 4 of the article: K_y z = y with an isotropic squared exponential kernel of variance one, until the squared norm
of the residual is below n 1e-10; m is the root of n. Inputs and targets are standardized, as in the authors' code.
Cells of a data set that have the length-scale in common are a group, whose solvers share products with K.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from case_studies.iterative.flexible import FlexibleConjugateGradients
from case_studies.iterative.kernels import side_by_side, squared_exponential
from case_studies.iterative.preconditioners import (
    Regularized,
    StructuredInterpolation,
    block_jacobi,
    fitc,
    partial_svd,
    pitc,
    pivoted_cholesky,
    spectral,
)
from case_studies.tools import data
from case_studies.tools.grid import Finished, Grid, Result
from case_studies.tools.provenance import provenance
from case_studies.tools.stream import stream
from pmgp import datasets
from pmgp.core.iterative.preconditioners import Identity, Kernel, nystrom, random_pivots
from pmgp.core.iterative.solvers import ConjugateGradients, IndefiniteMatrixError, NotConvergedError, Preconditioner

__all__ = [
    "CONCRETE", "EXPONENTS", "PRECONDITIONERS", "ROWS", "SCALES", "Cell", "Group", "Problem", "Scale", "cells",
    "groups", "iterations", "run_group", "standardized",
]  # fmt: skip

CONCRETE = "concrete"
ROWS = {CONCRETE: 1030, "powerplant": 9568, "protein": 45_730}
"""Number of rows by data set; the article uses all of them."""
EXPONENTS = (-3, -2, -1, 0, 1, 2)
"""Logs to the base ten of the length-scales."""
EXCESS = 100.0
"""Amount that is added to the diagonal of a regularized matrix, in variances of the noise."""


class Cell(NamedTuple):
    """One square of the figure."""

    preconditioner: str
    log_noise: int
    log_lengthscale: int
    data: str = CONCRETE

    @property
    def name(self) -> str:
        """File name without ending."""
        preconditioner = self.preconditioner.replace(" ", "_")
        return f"{self.data}-{self.log_lengthscale}-{self.log_noise}-{preconditioner}"


class Group(NamedTuple):
    """Cells with the same K."""

    data: str
    log_lengthscale: int
    cells: tuple[Cell, ...]

    @property
    def name(self) -> str:
        """Different for each group of a run."""
        return f"{self.data}-{self.log_lengthscale}"


def groups(chosen: Iterable[Cell]) -> list[Group]:
    """Put cells into groups."""
    found: dict[tuple[str, int], list[Cell]] = {}
    for cell in chosen:
        found.setdefault((cell.data, cell.log_lengthscale), []).append(cell)
    return [Group(*key, tuple(own)) for key, own in found.items()]


@dataclass(frozen=True)
class Scale:
    """How large the study is.

    Parameters
    ----------
    name : str
    seed : int
    log_noise : tuple of int
        Logs to the base ten of the variances of the noise.
    repetitions : int
        Draws of points, of frequencies and of projections on Concrete; iterations are their median. Other data sets
        have one.
    cap : int
        Iterations at most, those inside a preconditioner included.
    rows : dict of int
        Number of rows of data sets that are not whole.
    """

    name: str
    seed: int
    log_noise: tuple[int, ...]
    repetitions: int
    cap: int
    rows: dict[str, int]

    def settings(self, unit: Cell | Group) -> dict[str, Any]:
        """Settings with which a finished cell must have been made."""
        repetitions = self.repetitions if unit.data == CONCRETE else 1
        return {
            "seed": self.seed,
            "repetitions": repetitions,
            "cap": self.cap,
            "n": self.rows.get(unit.data, ROWS[unit.data]),
        }


SCALES = {
    "quick": Scale("quick", 2016, (-2,), 3, 15_000, {"protein": 5000}),
    "paper": Scale("paper", 2016, (-2, -4, -6), 5, 15_000, {}),
}


class Problem(NamedTuple):
    """The parts of a covariance from which a preconditioner is made."""

    X: np.ndarray
    kernel: Kernel
    noise: np.ndarray
    lengthscale: float
    m: int
    rng: np.random.Generator
    cap: int

    def points(self) -> np.ndarray:
        """Points drawn without replacement."""
        return self.rng.choice(len(self.X), self.m, replace=False)


def _frequencies(problem: Problem) -> np.ndarray:
    return problem.rng.standard_normal((problem.X.shape[1], problem.m)) / problem.lengthscale


def _interpolation(problem: Problem) -> Preconditioner:
    """Interpolate between points of a grid, equally many along each axis, with which a product costs about n^(3/2)."""
    n, d = problem.X.shape
    number = round((n**1.5 / d) ** (1.0 / (d + 1)))
    grids = [np.linspace(column.min(), column.max(), number) for column in problem.X.T]
    pairs = zip(problem.X.T, grids, strict=True)
    nearest = np.stack([np.abs(column[:, None] - grid).argmin(axis=1) for column, grid in pairs], axis=1)
    factors = [np.exp(-0.5 * np.square((grid[:, None] - grid) / problem.lengthscale)) for grid in grids]
    return StructuredInterpolation(nearest, factors, problem.noise)


PRECONDITIONERS: dict[str, Callable[[Problem], Preconditioner]] = {
    "none": lambda p: Identity(len(p.X)),
    "Nystrom": lambda p: nystrom(p.kernel, p.noise, p.points()),
    "FITC": lambda p: fitc(p.kernel, p.noise, p.points()),
    "PITC": lambda p: pitc(p.kernel, p.noise, p.points(), p.m),
    "SVD": lambda p: partial_svd(p.kernel, p.noise, p.m, p.rng, repetitions=0),
    "spectral": lambda p: spectral(p.X, 1.0, _frequencies(p), p.noise),
    "block Jacobi": lambda p: block_jacobi(p.kernel, p.noise, p.m),
    "regularized": lambda p: Regularized(p.kernel, p.noise, EXCESS * p.noise[0], cap=p.cap),
    "structured interpolation": _interpolation,
    "random pivots": lambda p: random_pivots(p.kernel, p.noise, p.m, p.rng),
    "pivoted Cholesky": lambda p: pivoted_cholesky(p.kernel, p.noise, p.m),
}
"""Those of the article, and two more."""
ONCE = ("none", "block Jacobi", "regularized", "structured interpolation", "pivoted Cholesky")
"""Those that draw nothing."""
ITERATED = ("regularized",)
"""Those that solve their own systems by iterations."""


def cells(scale: Scale) -> Iterator[Cell]:
    """Yield all cells of a scale."""
    for name in ROWS:
        for log_noise in scale.log_noise:
            for exponent in EXPONENTS:
                yield from (Cell(preconditioner, log_noise, exponent, name) for preconditioner in PRECONDITIONERS)


def run_group(scale: Scale, folder: Path, group: Group) -> list[Finished]:
    """Return the iterations of each cell by repetition, and the processor seconds from the group's start to its end.

    Each cell is kept in a folder when it has ended.
    """
    started = time.process_time()
    grid = Grid(folder, scale.settings(group))
    X, y = problem_of(scale, group.data)

    def solve(cell: Cell, kernel: Kernel) -> Finished:
        return grid.complete(partial(count, kernel), cell)

    def count(kernel: Kernel, cell: Cell) -> Result:
        repetitions = 1 if cell.preconditioner in ONCE else scale.settings(cell)["repetitions"]
        found = [_iterations(scale, cell, repetition, X, y, kernel) for repetition in range(repetitions)]
        return {"iterations": found, "seconds": time.process_time() - started, **provenance()}

    kernel = squared_exponential(X / 10.0**group.log_lengthscale)
    return side_by_side(kernel, [partial(solve, cell) for cell in group.cells])


def iterations(
    scale: Scale, cell: Cell, repetition: int, preconditioned: Callable[[Problem], Preconditioner] | None = None
) -> int:
    """Iterations of one repetition, with the cell's preconditioner if no other is given."""
    X, y = problem_of(scale, cell.data)
    kernel = squared_exponential(X / 10.0**cell.log_lengthscale)
    return _iterations(scale, cell, repetition, X, y, kernel, preconditioned)


def _iterations(
    scale: Scale,
    cell: Cell,
    repetition: int,
    X: np.ndarray,
    y: np.ndarray,
    kernel: Kernel,
    preconditioned: Callable[[Problem], Preconditioner] | None = None,
) -> int:
    """Iterations to the solution, the products with K of a preconditioner that iterates included.

    A preconditioner whose own systems are solved so inexactly that it is not positive definite leaves the system
    without a solution, as too many iterations do.
    """
    noise = np.full(len(y), 10.0**cell.log_noise)
    # Data sets have their streams in common.
    rng = stream(scale.seed, cell.preconditioner, cell.log_noise, cell.log_lengthscale, repetition)
    problem = Problem(X, kernel, noise, 10.0**cell.log_lengthscale, int(np.sqrt(len(y))), rng, scale.cap)
    preconditioner = (preconditioned or PRECONDITIONERS[cell.preconditioner])(problem)
    kind = FlexibleConjugateGradients if cell.preconditioner in ITERATED else ConjugateGradients
    solver = kind(tolerance=1e-5 * np.sqrt(len(y)), cap=scale.cap)
    try:
        solution = solver.solve(lambda v: kernel.product(v) + noise[:, None] * v, y[:, None], preconditioner)
    except (NotConvergedError, IndefiniteMatrixError):
        return scale.cap
    return min(int(solution.iterations[0]) + int(getattr(preconditioner, "products", 0)), scale.cap)


def problem_of(scale: Scale, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and targets of a data set, each with mean zero and deviation one.

    They are those of a random subset of its rows where the scale does not have all.
    """
    if name == CONCRETE:
        return concrete()
    X, y = data.whole(name)
    chosen = np.sort(stream(scale.seed, "rows", name).permutation(len(y))[: scale.rows.get(name)])
    return standardized(X[chosen], y[chosen])


@lru_cache
def concrete() -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of Concrete, each with mean zero and deviation one."""
    found = datasets.load(CONCRETE)
    return standardized(found.X, found.y.astype(float))


def standardized(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return arrays whose columns have mean zero and deviation one."""
    return tuple((a - a.mean(axis=0)) / a.std(axis=0, ddof=1) for a in arrays)


@lru_cache
def squared_distances() -> np.ndarray:
    """Return those between the inputs of Concrete."""
    X, _ = concrete()
    return cdist(X, X, "sqeuclidean")
