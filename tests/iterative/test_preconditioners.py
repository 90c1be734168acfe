"""Each preconditioner against the dense matrix that it stands for."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pmgp.core.iterative.preconditioners import (
    Diagonal,
    Identity,
    Regularized,
    StructuredInterpolation,
    UnknownLogDeterminantError,
    block_jacobi,
    fitc,
    nystrom,
    partial_svd,
    pitc,
    pivoted_cholesky,
    random_pivots,
    spectral,
)
from pmgp.core.iterative.preconditioners.random_pivots import random_points
from pmgp.core.iterative.solvers import ConjugateGradients
from tests.iterative.dense_kernel import DenseKernel, squared_exponential

RNG = np.random.default_rng(0)
N, M, WIDTH = 60, 12, 8
X = RNG.standard_normal((N, 2))
KERNEL = DenseKernel(squared_exponential(X, 0.7, 1.7))
NOISE = RNG.uniform(0.05, 0.2, N)
POINTS = RNG.choice(N, M, replace=False)
FREQUENCIES = RNG.standard_normal((2, M)) / 0.7
TIGHT = ConjugateGradients(1e-13, cap=5000)


def low_rank(points):
    columns = KERNEL.columns(points)
    return columns @ np.linalg.solve(columns[points], columns.T)


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


D = np.diag(NOISE)
CASES = {
    "none": (Identity(N), np.eye(N)),
    "diagonal": (Diagonal(NOISE), D),
    "Nystrom": (nystrom(KERNEL, NOISE, POINTS), low_rank(POINTS) + D),
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
    "interpolation": (StructuredInterpolation(NEAREST, FACTORS, NOISE, TIGHT), interpolated() + D),
    "pivoted Cholesky": (pivoted_cholesky(KERNEL, NOISE, M), low_rank(greedy_points()) + D),
    "random pivots": (
        random_pivots(KERNEL, NOISE, M, np.random.default_rng(2)),
        low_rank(random_points(KERNEL, M, np.random.default_rng(2))) + D,
    ),
    "all pivots": (random_pivots(KERNEL, NOISE, N, np.random.default_rng(2)), KERNEL.K + D),
}
SOLVES_ONLY = ("regularized", "interpolation")
each = pytest.mark.parametrize("case", CASES)
sampled = pytest.mark.parametrize("case", [case for case in CASES if case != "regularized"])


@each
def test_solutions_are_those_of_the_dense_matrix(case):
    preconditioner, P = CASES[case]
    x = np.random.default_rng(3).standard_normal((N, 4))
    assert_allclose(preconditioner.solve(x), np.linalg.solve(P, x), rtol=1e-6, atol=1e-7)


@each
def test_inverses_are_symmetric_and_positive(case):
    inverse = CASES[case][0].solve(np.eye(N))
    assert_allclose(inverse, inverse.T, atol=1e-9)
    assert np.linalg.eigvalsh(inverse).min() > 0.0


@pytest.mark.parametrize("case", [case for case in CASES if case not in SOLVES_ONLY])
def test_log_determinants_are_those_of_the_dense_matrix(case):
    preconditioner, P = CASES[case]
    assert_allclose(preconditioner.log_determinant, np.linalg.slogdet(P)[1], atol=1e-6)


@sampled
def test_draws_have_the_covariance_of_the_dense_matrix(case):
    """White after the inverse root of P: all elements of the covariance within six standard errors."""
    preconditioner, P = CASES[case]
    draws = preconditioner.sample(np.random.default_rng(4), 4000)
    white = np.linalg.solve(np.linalg.cholesky(P), draws)
    found = white @ white.T / 4000
    assert np.abs(found - np.eye(N)).max() < 6.0 * np.sqrt(2.0 / 4000)
    # The twin: draws of too small a variance.
    twin = np.linalg.solve(np.linalg.cholesky(P + 0.5 * np.diag(P.diagonal())), draws)
    assert np.abs(twin @ twin.T / 4000 - np.eye(N)).max() > 12.0 * np.sqrt(2.0 / 4000)


@pytest.mark.parametrize("case", ["Nystrom", "FITC", "PITC", "random pivots", "block Jacobi", "diagonal"])
def test_diagonals_of_inverses(case):
    preconditioner, P = CASES[case]
    assert_allclose(preconditioner.inverse_diagonal(), np.linalg.inv(P).diagonal(), rtol=1e-6)


@pytest.mark.parametrize("case", SOLVES_ONLY)
def test_what_would_take_a_factorization_is_refused(case):
    with pytest.raises(UnknownLogDeterminantError, match=f"of a .*{case}.* preconditioner.*Use random_pivots"):
        _ = CASES[case][0].log_determinant


def test_a_partial_decomposition_leaves_what_the_best_of_its_rank_leaves():
    """Eckart and Young: no matrix of rank m is closer than the largest m eigenvalues; random ones come near."""
    approximate = partial_svd(KERNEL, np.full(N, 1e-12), M, np.random.default_rng(1), repetitions=2)
    error = np.linalg.norm(KERNEL.K - approximate._factor @ approximate._factor.T, 2)
    best = np.linalg.eigvalsh(KERNEL.K)[-M - 1]
    assert best * (1.0 - 1e-6) <= error < 1.1 * best


def test_random_pivots_are_drawn_by_the_variance_that_is_left():
    """The first two points of three, against their probabilities: v_i / sum v, and then of what i has left."""
    K = np.array([[2.0, 1.2, 0.3], [1.2, 1.0, 0.1], [0.3, 0.1, 0.5]])
    kernel, rng, size = DenseKernel(K), np.random.default_rng(5), 6000
    found = np.zeros((3, 3))
    for _ in range(size):
        i, j = random_points(kernel, 2, rng)
        found[i, j] += 1.0 / size
    expected = np.zeros((3, 3))
    for i in range(3):
        left = K.diagonal() - K[i] ** 2 / K[i, i]
        expected[i] = K[i, i] / np.trace(K) * left / left.sum()
    errors = np.sqrt(expected * (1.0 - expected) / size) + 1e-12
    assert np.max(np.abs(found - expected) / errors) < 3.0
    # The twin: the second one by the variances before the first.
    independent = np.array([[K[i, i] * K[j, j] * (i != j) for j in range(3)] for i in range(3)])
    independent /= np.trace(K) * (np.trace(K) - K.diagonal())[:, None]
    assert np.max(np.abs(found - independent) / errors) > 6.0


def test_points_end_where_nothing_is_left():
    """Three different inputs, repeated."""
    kernel = DenseKernel(squared_exponential(np.repeat(np.arange(3.0), 5)[:, None]))
    points = random_points(kernel, 10, np.random.default_rng(0))
    assert sorted(points // 5) == [0, 1, 2]


def test_points_that_lie_together_are_allowed():
    kernel = DenseKernel(squared_exponential(np.repeat(np.arange(3.0), 5)[:, None]))
    P = nystrom(kernel, np.ones(15), np.arange(15))
    assert_allclose(P.solve(np.eye(15)), np.linalg.inv(kernel.K + np.eye(15)), atol=1e-6)


def test_noise_that_is_not_positive_is_refused():
    with pytest.raises(ValueError, match=r"noise on the diagonal must be positive, not -0\.1"):
        nystrom(KERNEL, np.full(N, -0.1), POINTS)
