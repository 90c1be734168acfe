"""The cells of the study: a preconditioner at a length-scale and a variance of the noise.

Section 4 of the article: K_y z = y for Concrete, an isotropic squared exponential kernel of variance one, until the
squared norm of the residual is below n 1e-10; m is the root of n. Inputs and targets are standardized, as in the
authors' code.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from case_studies.tools.provenance import provenance
from case_studies.tools.stream import stream
from pmgp import datasets
from pmgp.core.iterative import preconditioners
from pmgp.core.iterative.solvers import (
    ConjugateGradients,
    FlexibleConjugateGradients,
    NotConvergedError,
    Preconditioner,
)

__all__ = ["PRECONDITIONERS", "SCALES", "Cell", "Kernel", "Problem", "Scale", "cells", "iterations", "run_cell"]

EXPONENTS = (-3, -2, -1, 0, 1, 2)
"""Logs to the base ten of the length-scales."""
EXCESS = 100.0
"""Amount that is added to the diagonal of a regularized matrix, in variances of the noise."""


class Cell(NamedTuple):
    """One square of the figure."""

    preconditioner: str
    log_noise: int
    log_lengthscale: int

    @property
    def name(self) -> str:
        """File name without ending."""
        return f"{self.preconditioner}-{self.log_noise}-{self.log_lengthscale}".replace(" ", "_")


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
        Draws of points, of frequencies and of projections; iterations are their median.
    cap : int
        Iterations at most.
    """

    name: str
    seed: int
    log_noise: tuple[int, ...]
    repetitions: int
    cap: int

    def settings(self) -> dict[str, Any]:
        """Settings that a finished cell depends on besides its own fields."""
        return asdict(self)


SCALES = {
    "quick": Scale("quick", 2016, (-2,), 3, 15_000),
    "paper": Scale("paper", 2016, (-2, -4, -6), 5, 15_000),
}


class Kernel:
    """K as a matrix, for so few points."""

    def __init__(self, K: np.ndarray) -> None:
        self._K, self.size = K, len(K)

    def product(self, vectors: np.ndarray) -> np.ndarray:
        """K times columns."""
        return self._K @ vectors

    def columns(self, points: np.ndarray) -> np.ndarray:
        """Columns of K."""
        return self._K[:, points]

    def block(self, where: slice) -> np.ndarray:
        """A square block on the diagonal."""
        return self._K[where, where]

    def diagonal(self) -> np.ndarray:
        """The diagonal of K."""
        return self._K.diagonal().copy()


class Problem(NamedTuple):
    """The parts of a covariance from which a preconditioner is made."""

    X: np.ndarray
    kernel: Kernel
    noise: np.ndarray
    lengthscale: float
    m: int
    rng: np.random.Generator

    def points(self) -> np.ndarray:
        """Points drawn without replacement."""
        return self.rng.choice(len(self.X), self.m, replace=False)


def _frequencies(problem: Problem) -> np.ndarray:
    return problem.rng.standard_normal((problem.X.shape[1], problem.m)) / problem.lengthscale


PRECONDITIONERS: dict[str, Callable[[Problem], Preconditioner]] = {
    "none": lambda p: preconditioners.Identity(len(p.X)),
    "Nystrom": lambda p: preconditioners.nystrom(p.kernel, p.noise, p.points()),
    "FITC": lambda p: preconditioners.fitc(p.kernel, p.noise, p.points()),
    "PITC": lambda p: preconditioners.pitc(p.kernel, p.noise, p.points(), p.m),
    "SVD": lambda p: preconditioners.partial_svd(p.kernel, p.noise, p.m, p.rng, repetitions=0),
    "spectral": lambda p: preconditioners.spectral(p.X, 1.0, _frequencies(p), p.noise),
    "block Jacobi": lambda p: preconditioners.block_jacobi(p.kernel, p.noise, p.m),
    "regularized": lambda p: preconditioners.Regularized(p.kernel, p.noise, EXCESS * p.noise[0]),
    "random pivots": lambda p: preconditioners.random_pivots(p.kernel, p.noise, p.m, p.rng),
    "pivoted Cholesky": lambda p: preconditioners.pivoted_cholesky(p.kernel, p.noise, p.m),
}
"""All of the article's but structured interpolation, and the two that it does not have."""
ONCE = ("none", "block Jacobi", "regularized", "pivoted Cholesky")
"""Those that draw nothing."""


def cells(scale: Scale) -> Iterator[Cell]:
    """All of them."""
    for log_noise in scale.log_noise:
        for exponent in EXPONENTS:
            yield from (Cell(name, log_noise, exponent) for name in PRECONDITIONERS)


def run_cell(scale: Scale, cell: Cell) -> dict[str, Any]:
    """Iterations by repetition, the products with K of a preconditioner that iterates included."""
    started = time.process_time()
    repetitions = 1 if cell.preconditioner in ONCE else scale.repetitions
    found = [iterations(scale, cell, repetition) for repetition in range(repetitions)]
    return {"iterations": found, "seconds": time.process_time() - started, **provenance()}


def iterations(
    scale: Scale, cell: Cell, repetition: int, preconditioned: Callable[[Problem], Preconditioner] | None = None
) -> int:
    """Iterations of one repetition, with the cell's preconditioner if no other is given."""
    X, y = concrete()
    lengthscale, noise = 10.0**cell.log_lengthscale, np.full(len(y), 10.0**cell.log_noise)
    kernel = Kernel(np.exp(-0.5 * squared_distances() / lengthscale**2))
    rng = stream(scale.seed, *cell, repetition)
    problem = Problem(X, kernel, noise, lengthscale, int(np.sqrt(len(y))), rng)
    preconditioner = (preconditioned or PRECONDITIONERS[cell.preconditioner])(problem)
    kind = FlexibleConjugateGradients if preconditioner.iterated else ConjugateGradients
    solver = kind(tolerance=1e-5 * np.sqrt(len(y)), cap=scale.cap)
    try:
        solution = solver.solve(lambda v: kernel.product(v) + noise[:, None] * v, y[:, None], preconditioner)
    except NotConvergedError:
        return scale.cap
    return int(solution.iterations[0]) + int(getattr(preconditioner, "products", 0))


@lru_cache
def concrete() -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets, each with mean zero and deviation one."""
    found = datasets.load("concrete")
    return tuple((a - a.mean(axis=0)) / a.std(axis=0, ddof=1) for a in (found.X, found.y.astype(float)))


@lru_cache
def squared_distances() -> np.ndarray:
    X, _ = concrete()
    return cdist(X, X, "sqeuclidean")
