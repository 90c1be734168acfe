"""Figures 3 and 4 of Filippone and Engler (2015): solutions and gradients on Concrete, by solvers that stop at random.

Theta is drawn from a prior, so that the condition number of C = K + lambda I varies. Each draw is a cell, which has the
iterations, the error of C^-1 r for signs r, and the error of the gradient of log p(y|theta).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from case_studies.iterative.isotropic import Isotropic
from case_studies.iterative.study import concrete, squared_distances
from case_studies.tools.provenance import provenance
from case_studies.tools.stream import stream
from pmgp.core.iterative.preconditioners import Identity
from pmgp.core.iterative.roulette import Matched, Roulette

__all__ = ["SCALES", "SOLVERS", "Cell", "Printed", "Scale", "cells", "run_cell"]

RATES = (1.0, 10.0, 100.0)
"""Rates of the exponential prior of lambda, used in turns; sigma and tau have a rate of one."""
POINTS = 1030
CONVERGED = 1e-8
"""The article's norm of the residual at which a solution is exact."""


@dataclass(frozen=True)
class Printed:
    """The article's probabilities, P_j = P_(j-1) exp(-beta j)."""

    beta: float = 1.0

    def probability(self, before: float, number: int, decrease: float) -> float:
        """Return P_j, given P_(j-1)."""
        return before * float(np.exp(-self.beta * number))


@dataclass(frozen=True)
class Whole:
    """Certain survival: conjugate gradients until a residual is as small as the threshold, and no iteration more."""

    def probability(self, before: float, number: int, decrease: float) -> float:
        """Return zero, since nothing survives the threshold."""
        return 0.0


SOLVERS: dict[str, Roulette] = {
    "CG": Roulette(CONVERGED / np.sqrt(POINTS), Whole()),
    **{f"printed, q = {q}, beta = {beta}": Roulette(q, Printed(beta)) for q in (1.0, 0.1) for beta in (1.0, 100.0)},
    **{f"matched, q = {q}": Roulette(q, Matched()) for q in (1.0, 0.1)},
}
"""Solvers by name; q is the threshold of the residual."""


class Cell(NamedTuple):
    """A draw of theta."""

    draw: int

    @property
    def name(self) -> str:
        """File name without ending."""
        return f"truncation-{self.draw}"


@dataclass(frozen=True)
class Scale:
    """The seed, the number of draws of theta, and repetitions of each solution and gradient."""

    name: str
    seed: int
    draws: int
    repetitions: int

    def settings(self) -> dict[str, Any]:
        """Return the settings with which a finished cell must have been made."""
        return {"scale": self.name, "seed": self.seed, "repetitions": self.repetitions}


SCALES = {"quick": Scale("quick", 34, 6, 6), "paper": Scale("paper", 34, 100, 100)}


def cells(scale: Scale) -> list[Cell]:
    """All cells of a scale."""
    return [Cell(draw) for draw in range(scale.draws)]


class _Counted:
    """A product with C that counts its columns."""

    def __init__(self, C: np.ndarray) -> None:
        self._C, self.count = C, 0

    def __call__(self, vectors: np.ndarray) -> np.ndarray:
        self.count += 1
        return self._C @ vectors


def run_cell(scale: Scale, cell: Cell) -> dict[str, Any]:
    """Return a line for each solver, fit for JSON."""
    rng = stream(scale.seed, "truncation", cell.draw)
    sigma, tau, noise = (rng.exponential(size=3) / (1.0, 1.0, RATES[cell.draw % len(RATES)])).tolist()
    theta, problem = np.log([sigma, tau, noise]), Isotropic(squared_distances(), concrete()[1])
    C = problem.covariance(theta)[0] + noise * np.eye(len(problem.y))
    condition = float(np.linalg.cond(C))
    truth = problem.gradient(theta)
    lines = []
    for name, solver in SOLVERS.items():
        more = stream(scale.seed, "truncation", cell.draw, name)
        repetitions = 1 if name == "CG" else scale.repetitions
        found = _solutions(solver, C, more, repetitions)
        estimated = [problem.estimate(more, theta, solver, 1) for _ in range(scale.repetitions)]
        error = np.square(estimated - truth).sum(axis=1) / np.square(truth).sum()
        lines.append({"solver": name, **found, "gradient_error": float(np.mean(np.log10(error)))})
    return {"rows": lines, "condition": condition, "sigma": sigma, "tau": tau, "lambda": noise} | provenance()


def _solutions(solver: Roulette, C: np.ndarray, rng: np.random.Generator, repetitions: int) -> dict[str, float]:
    """Return mean iterations; and the relative error of one solution, and of the mean of all."""
    signs = rng.choice([-1.0, 1.0], size=len(C))
    exact, product = np.linalg.solve(C, signs), _Counted(C)
    P = Identity(len(C))
    found = np.array([solver.solve(rng, product, signs, P)[:, 0] for _ in range(repetitions)])
    norm = np.linalg.norm(exact)
    return {
        "iterations": product.count / repetitions,
        "error": float(np.sqrt(np.mean(np.square(found - exact).sum(axis=1))) / norm),
        "error_of_mean": float(np.linalg.norm(found.mean(axis=0) - exact) / norm),
    }
