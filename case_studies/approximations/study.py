"""The cells of the study: one of the twenty posteriors by one method, with the processor seconds that it took."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

from case_studies.approximations.methods import METHODS, Budget
from case_studies.approximations.posteriors import POSTERIORS
from case_studies.tools.provenance import provenance
from case_studies.tools.stream import stream

__all__ = ["SCALES", "Cell", "Scale", "cells", "run"]


class Cell(NamedTuple):
    """A posterior, and a method by which it is approximated or sampled."""

    posterior: str
    method: str

    @property
    def name(self) -> str:
        """File name without ending."""
        return f"{self.posterior}-{self.method}".replace(" ", "_").replace(",", "")


@dataclass(frozen=True)
class Scale:
    """How large the study is.

    Parameters
    ----------
    name : str
    seed : int
    budget : Budget
        Iterations of the methods, and processor seconds of those that may not end in time.
    """

    name: str
    seed: int
    budget: Budget

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings with which a finished cell must have been made."""
        limits = {f"limit_{name}": value for name, value in self.budget._asdict().items()}
        return {"scale": self.name, "seed": self.seed} | limits


SCALES = {
    "quick": Scale("quick", 37, Budget()),
    "paper": Scale(
        "paper",
        37,
        Budget(2000, 10_000, 1000, 4000, weighed=1000, seconds=900.0, inducing=200, iterations=30_000, dense=700),
    ),
}


def cells(scale: Scale) -> list[Cell]:
    """Return all cells of a scale: all posteriors by the methods that are fast, then by the others."""
    groups = [name for name in METHODS if METHODS[name].fast], [name for name in METHODS if not METHODS[name].fast]
    return [
        Cell(posterior, method)
        for methods in groups
        for posterior, given in POSTERIORS.items()
        for method in methods
        if METHODS[method].suits(given, scale.budget)
    ]


def run(scale: Scale, cell: Cell) -> dict[str, Any]:
    """Run one cell; fit for JSON.

    Returns
    -------
    dict
        The summary of the method, ``status`` in words, ``seconds`` of the processor from its first iteration to its
        last, and ``all_seconds``, with compilation and signs.
    """
    rng, clock = stream(scale.seed, cell.posterior, cell.method), time.process_time()
    with warnings.catch_warnings():
        # The warnings about convergence and weights repeat what is in the results.
        warnings.simplefilter("ignore")
        found = METHODS[cell.method].run(POSTERIORS[cell.posterior], scale.budget, rng)
    return found | {"all_seconds": time.process_time() - clock} | provenance()
