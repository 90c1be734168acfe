"""Figures 1 and 2 of Filippone and Engler (2015): condition numbers under priors, and solvers beside them, on Concrete.

Each covariance parameter has the same Gamma prior. For some of its draws C s = y is solved with conjugate gradients
whose products are in double or single precision, and with P = C + delta I, where the products of inner conjugate
gradients are in one or the other. As in the article, delta is the best of several. Trees and anchors, for approximate
products, are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from case_studies.iterative.flexible import FlexibleConjugateGradients
from case_studies.iterative.isotropic import Isotropic
from case_studies.iterative.kernels import Stored
from case_studies.iterative.preconditioners import Regularized
from case_studies.iterative.study import concrete, squared_distances
from case_studies.tools.provenance import provenance
from case_studies.tools.stream import stream
from pmgp.core.iterative.preconditioners import Identity
from pmgp.core.iterative.roulette import increments
from pmgp.core.iterative.solvers import ConjugateGradients, NotConvergedError

__all__ = ["PRIORS", "SCALES", "Cell", "Scale", "cells", "run_cell"]

PRIORS = ((1.0, 1.0), (1.0, 10.0), (2.0, 1.0), (2.0, 10.0))
"""Shapes and rates; the article's are only in its picture."""
CONVERGED = 1e-8
"""The article's norm of the residual."""
CAP = 5000
"""Products with K at most."""
EXCESS = (1.0, 10.0, 100.0)
"""Amounts delta that are tried, in variances of the noise."""
INNER = ConjugateGradients(tolerance=1e-2, cap=CAP)


class Cell(NamedTuple):
    """A draw of theta from a prior."""

    shape: float
    rate: float
    draw: int

    @property
    def name(self) -> str:
        """File name without ending."""
        return f"condition-{self.shape:g}-{self.rate:g}-{self.draw}"


@dataclass(frozen=True)
class Scale:
    """The seed, the number of draws from each prior, and of those for which systems are solved."""

    name: str
    seed: int
    draws: int
    solved: int

    def settings(self) -> dict[str, Any]:
        """Return the settings with which a finished cell must have been made."""
        return {"scale": self.name, "seed": self.seed}


SCALES = {"quick": Scale("quick", 34, 25, 8), "paper": Scale("paper", 34, 200, 100)}


def cells(scale: Scale) -> list[Cell]:
    """All cells of a scale."""
    return [Cell(shape, rate, draw) for shape, rate in PRIORS for draw in range(scale.draws)]


class Single(Stored):
    """K in single precision."""

    def __init__(self, K: np.ndarray) -> None:
        super().__init__(K.astype(np.float32))

    def product(self, vectors: np.ndarray) -> np.ndarray:
        """K times columns."""
        return super().product(vectors.astype(np.float32)).astype(float)


def run_cell(scale: Scale, cell: Cell) -> dict[str, Any]:
    """Return a line for each solver, or a single one without, fit for JSON."""
    draws = stream(scale.seed, "conditions", *map(str, cell)).gamma(cell.shape, 1.0 / cell.rate, 3)
    _, y = concrete()
    K, noise = Isotropic(squared_distances(), y).covariance(np.log(draws))
    C = K + noise * np.eye(len(y))
    values = np.linalg.eigvalsh(C)
    common = {"condition": float(values[-1] / values[0])}
    lines = [{"solver": "factorization", "products": 0.0, "error": 0.0, "excess": 0.0}]
    if cell.draw < scale.solved:
        exact = np.linalg.solve(C, y)
        for name, solver in SOLVERS.items():
            x, products, excess = solver(K, noise, y)
            error = float(np.linalg.norm(x - exact) / np.linalg.norm(exact))
            lines.append({"solver": name, "products": float(products), "error": error, "excess": excess})
    return {"rows": lines} | common | dict(zip(("sigma", "tau", "lambda"), draws.tolist(), strict=True)) | provenance()


Solved = tuple[np.ndarray, int, float]
"""A solution, products with K, and the excess of a preconditioner; the solution is not a number if none is found."""


def _plain(kernel: Stored, noise: float, y: np.ndarray) -> Solved:
    """Solve as in algorithm 1 of the article, where the recursion's residual decides when to end."""
    x = np.zeros(len(y))
    norms = increments(lambda v: kernel.product(v) + noise * v, y, Identity(len(y)))
    for number, (increment, norm) in enumerate(norms):
        if norm < CONVERGED or number == CAP:
            return x, number, 0.0
        x = x + increment
    return x, number + 1, 0.0


def _nested(kernel: Stored, inside: Stored, noise: float, y: np.ndarray) -> Solved:
    """Solve with the best of the regularized matrices."""
    solver, best = FlexibleConjugateGradients(CONVERGED, CAP), (np.full(len(y), np.nan), CAP, np.nan)
    for excess in EXCESS:
        P = Regularized(inside, np.full(len(y), noise), excess * noise, INNER)
        try:
            found = solver.solve(lambda v: kernel.product(v) + noise * v, y[:, None], P)
        except NotConvergedError:
            continue
        if (products := int(found.iterations[0]) + P.products) < best[1]:
            best = found.x[:, 0], products, excess
    return best


SOLVERS: dict[str, Callable[[np.ndarray, float, np.ndarray], Solved]] = {
    "CG, double": lambda K, noise, y: _plain(Stored(K), noise, y),
    "CG, single": lambda K, noise, y: _plain(Single(K), noise, y),
    "PCG, double inside": lambda K, noise, y: _nested(Stored(K), Stored(K), noise, y),
    "PCG, single inside": lambda K, noise, y: _nested(Stored(K), Single(K), noise, y),
}
