"""Why regularization takes more: ``python -m case_studies.iterative.sensitivity`` solves inner systems loosely.

The article solves the inner systems by conjugate gradients as well, and does not say how exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from case_studies.iterative import results, study
from case_studies.iterative.study import SCALES, Cell
from case_studies.tools.provenance import provenance
from case_studies.tools.sensitivity import write
from pmgp.core.iterative.preconditioners import Regularized
from pmgp.core.iterative.solvers import ConjugateGradients

__all__ = ["TOLERANCES", "lines"]

TOLERANCES = (0.1, 0.6)
"""Tolerance of the inner systems, relative to their right-hand sides."""
CELLS = [Cell("regularized", -2, exponent) for exponent in study.EXPONENTS]


def lines() -> Iterator[dict[str, Any]]:
    """Products with K, those of the inner systems included."""
    for cell, tolerance in product(CELLS, TOLERANCES):
        inner = ConjugateGradients(tolerance=tolerance, cap=SCALES["paper"].cap)

        def loose(problem: study.Problem, inner: ConjugateGradients = inner) -> Regularized:
            return Regularized(problem.kernel, problem.noise, study.EXCESS * problem.noise[0], inner)

        found = study.iterations(SCALES["paper"], cell, 0, loose)
        yield cell._asdict() | {"tolerance": tolerance, "iterations": found} | provenance()


if __name__ == "__main__":
    write(results.FOLDER, lines())
