"""Why some cells differ from the authors': ``python -m case_studies.iterative.sensitivity`` tries their program's ways.

The article solves the inner systems of a regularized matrix by conjugate gradients as well, and does not say how
exactly. Its published program (code/pcgComparison of github.com/mauriziofilippone/preconditioned_GPs) adds 1e-6 to the
diagonal of K_UU, inverts it with eigenvectors that a solver for general matrices gives, and takes left and right
singular vectors of K as they are returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from scipy.linalg import qr, solve_triangular, svd

from case_studies.iterative import results, study
from case_studies.iterative.preconditioners import BlockDiagonal, Regularized, consecutive
from case_studies.iterative.study import SCALES, Cell, Problem, Scale
from case_studies.tools import data
from case_studies.tools.provenance import provenance
from case_studies.tools.sensitivity import write
from pmgp.core.iterative.preconditioners import LowRank
from pmgp.core.iterative.solvers import ConjugateGradients, Preconditioner

__all__ = ["CAP", "LARGER", "LARGEST", "lines"]

LARGER, LARGEST = "powerplant", "protein"
CAP = 5000
"""Iterations at most with singular vectors of the larger data set, where the authors' have not converged in 15,000."""
TOLERANCES = (0.1, 0.6)
"""Tolerance of the inner systems, relative to their right-hand sides."""
JITTER = 1e-6
"""Added to the diagonal of K_UU by the authors."""
SMALLEST = 1e-12
"""Smallest eigenvalue."""
OVERSAMPLES = 10
"""Random vectors beyond the rank, as scikit-learn has them."""


class TwoSided:
    """The inverse of D + left @ right.T, which need not be symmetric: (n, m) each, D (n,) positive."""

    def __init__(self, left: np.ndarray, right: np.ndarray, noise: np.ndarray) -> None:
        self._left, self._right, self._noise = left, right, noise[:, None]
        self._inner = np.eye(left.shape[1]) + right.T @ (left / self._noise)

    def solve(self, x: np.ndarray) -> np.ndarray:
        """Return the inverse times columns."""
        scaled = x / self._noise
        return scaled - self._left @ np.linalg.solve(self._inner, self._right.T @ scaled) / self._noise


def loose(tolerance: float, problem: Problem) -> Preconditioner:
    """Return the regularized matrix whose systems are solved to a tolerance."""
    inner = ConjugateGradients(tolerance=tolerance, cap=SCALES["paper"].cap)
    return Regularized(problem.kernel, problem.noise, study.EXCESS * problem.noise[0], inner)


def general_eigenvectors(problem: Problem) -> TwoSided:
    """Return Nystrom's approximation from eigenvectors that are not orthogonal where eigenvalues are almost equal."""
    points = problem.points()
    columns = problem.kernel.columns(points)
    values, vectors = np.linalg.eig(np.linalg.inv(columns[points] + JITTER * np.eye(len(points))))
    half = columns @ (vectors.real * np.sqrt(np.maximum(values.real, SMALLEST)))
    return TwoSided(half, half, problem.noise)


def with_jitter(name: str, problem: Problem) -> LowRank:
    """Return the approximation of FITC or PITC with an amount on the diagonal of K_UU that is as large as the noise."""
    points, kernel = problem.points(), problem.kernel
    columns = kernel.columns(points)
    lower = np.linalg.cholesky(columns[points] + JITTER * np.eye(len(points)))
    factor = solve_triangular(lower, columns.T, lower=True).T
    slices = consecutive(kernel.size, problem.m if name == "PITC" else 1)
    blocks = [kernel.block(rows) - factor[rows] @ factor[rows].T + np.diag(problem.noise[rows]) for rows in slices]
    return LowRank(factor, BlockDiagonal(slices, blocks))


def singular_vectors(problem: Problem) -> TwoSided:
    """Return the partial decomposition of one pass, whose left and right singular vectors differ.

    It is scikit-learn's, with the same random numbers, from two products with K, which need not be in memory.
    """
    m, random = problem.m, np.random.RandomState(int(problem.rng.integers(2**31)))
    basis, _ = qr(problem.kernel.product(random.normal(size=(problem.kernel.size, m + OVERSAMPLES))), mode="economic")
    left, values, right = svd(problem.kernel.product(basis).T, full_matrices=False)
    return TwoSided(basis @ left[:, :m] * values[:m], right[:m].T, problem.noise)


def lines() -> Iterator[dict[str, Any]]:
    """Products with K, those of the inner systems included."""
    yield from _on_concrete()
    yield from _on_larger_data()
    yield from _on_largest_data()


def _on_larger_data() -> Iterator[dict[str, Any]]:
    """Iterations with the authors' matrices on a data set of which K takes hundreds of megabytes."""
    for noise, exponent in product((-4, -6), (1, 2)):
        yield _line(Cell("Nystrom", noise, exponent, LARGER), "general eigenvectors", 0, general_eigenvectors)
        for name in ("FITC", "PITC"):
            yield _line(Cell(name, noise, exponent, LARGER), "jitter", 0, partial(with_jitter, name))
    yield _line(Cell("Nystrom", -6, -1, LARGER), "general eigenvectors", 0, general_eigenvectors)
    for repetition in (1, 2):
        yield _line(Cell("spectral", -6, 1, LARGER), "again", repetition, study.PRECONDITIONERS["spectral"])
    for noise, exponent in ((-4, -3), (-4, -2), (-4, -1), (-6, -3), (-6, -2), (-6, -1)):
        cell = Cell("SVD", noise, exponent, LARGER)
        yield _line(cell, "singular vectors", 0, singular_vectors, replace(SCALES["paper"], cap=CAP))


def _on_largest_data() -> Iterator[dict[str, Any]]:
    """Iterations with the authors' matrices, and with other frequencies, where few are enough or K is sparse."""
    for noise, exponent in ((-4, 2), (-6, 2), (-4, -1), (-2, -1)):
        yield _line(Cell("Nystrom", noise, exponent, LARGEST), "general eigenvectors", 0, general_eigenvectors)
    for name in ("FITC", "PITC"):
        yield _line(Cell(name, -4, 2, LARGEST), "jitter", 0, partial(with_jitter, name))
    for repetition in (1, 2):
        yield _line(Cell("spectral", -6, 2, LARGEST), "again", repetition, study.PRECONDITIONERS["spectral"])
    for noise, exponent in ((-2, -3), (-2, -2), (-4, -1), (-6, -2)):
        yield _line(Cell("SVD", noise, exponent, LARGEST), "singular vectors", 0, singular_vectors)


def _on_concrete() -> Iterator[dict[str, Any]]:
    for exponent, tolerance in product(study.EXPONENTS, TOLERANCES):
        yield _line(Cell("regularized", -2, exponent), f"to {tolerance:g}", 0, partial(loose, tolerance))
    repetitions = range(SCALES["paper"].repetitions)
    for noise, repetition in product((-4, -6), repetitions):
        yield _line(Cell("Nystrom", noise, -1), "general eigenvectors", repetition, general_eigenvectors)
    for repetition in repetitions:
        yield _line(Cell("SVD", -4, -3), "singular vectors", repetition, singular_vectors)
        for name in ("FITC", "PITC"):
            yield _line(Cell(name, -6, 2), "jitter", repetition, partial(with_jitter, name))


def _line(
    cell: Cell, way: str, repetition: int, made: Callable[[Problem], Preconditioner], scale: Scale = SCALES["paper"]
) -> dict[str, Any]:
    found = study.iterations(scale, cell, repetition, made)
    line = cell._asdict() | {"way": way, "repetition": repetition, "iterations": found}
    print(*line.values(), flush=True)
    return line | provenance()


if __name__ == "__main__":
    for name in (LARGER, LARGEST):
        if not data.available(name):
            raise SystemExit(f"PMGP_DATA must name a folder with the files of {name}")
    write(results.FOLDER, lines())
