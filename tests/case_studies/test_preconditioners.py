"""Each preconditioner of the study against the dense matrix that it stands for."""

from __future__ import annotations

import numpy as np
import pytest

from case_studies.iterative.preconditioners import (
    Regularized,
    StructuredInterpolation,
    UnknownLogDeterminantError,
    block_jacobi,
    fitc,
    partial_svd,
    pitc,
    pivoted_cholesky,
    spectral,
)
from pmgp.core.iterative.solvers import ConjugateGradients
from tests.iterative.dense_kernel import squared_exponential
from tests.iterative.dense_preconditioners import (
    KERNEL,
    NOISE,
    POINTS,
    D,
    M,
    N,
    X,
    check_draws,
    check_inverse,
    check_inverse_diagonal,
    check_log_determinant,
    check_solutions,
    low_rank,
)

WIDTH = 8
FREQUENCIES = np.random.default_rng(6).standard_normal((2, M)) / 0.7
TIGHT = ConjugateGradients(1e-13, cap=5000)


def blocks_of(matrix):
    same = np.repeat(np.arange(7), [9] * 4 + [8] * 3)  # 60 rows in blocks of at least 8
    return np.where(same[:, None] == same, matrix, 0.0)


def random_features():
    differences = X[:, None] - X[None]
    return 1.7 * np.cos(differences @ FREQUENCIES).mean(axis=2)


GRID = [np.linspace(-3.0, 3.0, 9), np.linspace(-3.0, 3.0, 5)]
NEAREST = np.column_stack([np.argmin(np.abs(x[:, None] - grid), axis=1) for x, grid in zip(X.T, GRID, strict=True)])
FACTORS = [squared_exponential(grid[:, None], 0.7, v) for grid, v in zip(GRID, (1.7, 1.0), strict=True)]


def interpolated():
    snapped = np.column_stack([grid[index] for grid, index in zip(GRID, NEAREST.T, strict=True)])
    return squared_exponential(snapped, 0.7, 1.7)


def greedy_points():
    left, points = KERNEL.K.copy(), []
    for _ in range(M):
        points.append(int(np.argmax(left.diagonal())))
        left = left - np.outer(left[points[-1]], left[points[-1]]) / left[points[-1], points[-1]]
    return np.array(points)


CASES = {
    "FITC": (
        fitc(KERNEL, NOISE, POINTS),
        low_rank(POINTS) + np.diag((KERNEL.K - low_rank(POINTS)).diagonal()) + D,
    ),
    "PITC": (
        pitc(KERNEL, NOISE, POINTS, WIDTH),
        low_rank(POINTS) + blocks_of(KERNEL.K - low_rank(POINTS)) + D,
    ),
    "spectral": (spectral(X, 1.7, FREQUENCIES, NOISE), random_features() + D),
    "partial SVD": (partial_svd(KERNEL, NOISE, N, np.random.default_rng(1)), KERNEL.K + D),
    "block Jacobi": (block_jacobi(KERNEL, NOISE, WIDTH), blocks_of(KERNEL.K + D)),
    "regularized": (Regularized(KERNEL, NOISE, 0.7, TIGHT), KERNEL.K + D + 0.7 * np.eye(N)),
    "interpolation": (StructuredInterpolation(NEAREST, FACTORS, NOISE), interpolated() + D),
    "pivoted Cholesky": (pivoted_cholesky(KERNEL, NOISE, M), low_rank(greedy_points()) + D),
}
each = pytest.mark.parametrize("case", CASES)


@each
def test_solutions_are_those_of_the_dense_matrix(case):
    check_solutions(*CASES[case])


@each
def test_inverses_are_symmetric_and_positive(case):
    check_inverse(CASES[case][0])


@pytest.mark.parametrize("case", [case for case in CASES if case != "regularized"])
def test_log_determinants_are_those_of_the_dense_matrix(case):
    check_log_determinant(*CASES[case])


@pytest.mark.parametrize("case", [case for case in CASES if case != "regularized"])
def test_draws_have_the_covariance_of_the_dense_matrix(case):
    check_draws(*CASES[case])


@pytest.mark.parametrize("case", ["FITC", "PITC", "block Jacobi"])
def test_diagonals_of_inverses(case):
    check_inverse_diagonal(*CASES[case])


def test_what_would_take_a_factorization_is_refused():
    regularized, _ = CASES["regularized"]
    with pytest.raises(UnknownLogDeterminantError, match=r"of a regularized preconditioner.*Use random_pivots"):
        _ = regularized.log_determinant


def test_a_partial_decomposition_leaves_what_the_best_of_its_rank_leaves():
    """Eckart and Young: no matrix of rank m is closer than the largest m eigenvalues; random ones come near."""
    approximate = partial_svd(KERNEL, np.full(N, 1e-12), M, np.random.default_rng(1), repetitions=2)
    error = np.linalg.norm(KERNEL.K - approximate._factor @ approximate._factor.T, 2)
    best = np.linalg.eigvalsh(KERNEL.K)[-M - 1]
    assert best * (1.0 - 1e-6) <= error < 1.1 * best
