"""The cells of figures 2 and 3 of the article: a data set and a method, whose error is followed over time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from case_studies.iterative.learning import FOR_NUMBERS, OPTIMIZERS, Problem, climbed, scored, thinned
from case_studies.tools import data
from case_studies.tools.data import LABELS
from case_studies.tools.provenance import provenance

if TYPE_CHECKING:
    from case_studies.iterative.inducing import Rival

__all__ = ["FIGURES", "RIVALS", "SCALES", "Cell", "Scale", "cells", "rival_of", "run_cell"]

FIGURES = {"concrete": "3", "credit": "3", "powerplant": "2", "protein": "2", "spam": "2", "eeg": "2"}
"""Where the article has a data set."""
RIVALS = ("FITC", "PITC", "VAR")
"""Methods with inducing inputs, which need JAX."""
THREE_FOLDS = ("protein", "eeg")
SEEN = 0.9
HELD_OUT = 1000


class Cell(NamedTuple):
    """A method on a split of a data set."""

    data: str
    method: str
    fold: int

    @property
    def name(self) -> str:
        """File name without ending."""
        return f"curve-{self.data}-{self.method}-{self.fold}"


@dataclass(frozen=True)
class Scale:
    """How large the study is.

    Parameters
    ----------
    name : str
    seed : int
    folds : int
        Splits of a data set, and at most three of the largest.
    rows : int
        Rows that are seen, at most.
    seconds : dict of float
        Processor seconds of an optimization, by data set.
    points : int
        Points of a curve that are scored, at most.
    """

    name: str
    seed: int
    folds: int
    rows: int
    seconds: dict[str, float]
    points: int

    def settings(self, cell: Cell) -> dict[str, Any]:
        """Return the settings with which a finished cell must have been made."""
        return {"scale": self.name, "seed": self.seed, "most": self.rows, "budget": self.seconds[cell.data]}


SCALES = {
    "quick": Scale("quick", 34, 1, 2000, dict.fromkeys(FIGURES, 20.0), 8),
    "paper": Scale("paper", 34, 5, 50_000, dict.fromkeys(FIGURES, 3600.0) | {"credit": 120.0, "protein": 21_600.0}, 20),
}


def cells(scale: Scale) -> list[Cell]:
    """All cells of a scale."""
    return [
        Cell(name, method, fold)
        for name in FIGURES
        for method in _methods(name)
        for fold in range(min(scale.folds, 3) if name in THREE_FOLDS else scale.folds)
    ]


def _methods(name: str) -> list[str]:
    """Methods for a data set."""
    return [*(method for method in OPTIMIZERS if name not in LABELS or method not in FOR_NUMBERS), *RIVALS]


def rival_of(method: str, problem: Problem, seed: int) -> Rival:
    """Return one of :data:`RIVALS` for a problem."""
    from case_studies.iterative.inducing import Regression
    from case_studies.iterative.inducing_labels import Classification

    return (Classification if problem.labels else Regression)(method, problem, seed)


def run_cell(scale: Scale, cell: Cell) -> dict[str, Any]:
    """Return the curve of a cell, and theta at its end, fit for JSON."""
    given = data.load(cell.data, cell.fold, scale.seed, SEEN, HELD_OUT)
    given = given._replace(X=given.X[: scale.rows], y=given.y[: scale.rows])
    problem = Problem(given, cell.data in LABELS, scale.seconds[cell.data])
    if cell.method in RIVALS:
        rival = rival_of(cell.method, problem, scale.seed + cell.fold)
        path, score = rival.climbed(problem), rival.scored
    else:
        path = climbed(problem, cell.method, scale.seed + cell.fold)
        score = partial(scored, problem)
    lines = [{"step": k, "seconds": path[k][0]} | score(path[k][1]) for k in thinned(path, scale.points)]
    size = {"n": len(given.y), "d": given.X.shape[1], "rows": len(given.y_new), "steps": len(path) - 1}
    return {"curve": lines, "theta": path[-1][1].round(4).tolist()} | size | provenance()
