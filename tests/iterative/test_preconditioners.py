"""Each preconditioner against the dense matrix that it stands for."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pmgp.core.iterative.preconditioners import Diagonal, Identity, nystrom, random_pivots
from pmgp.core.iterative.preconditioners.low_rank import stable_cholesky
from pmgp.core.iterative.preconditioners.random_pivots import partial_cholesky, random_points
from tests.iterative.dense_kernel import DenseKernel, squared_exponential
from tests.iterative.dense_preconditioners import (
    KERNEL,
    NOISE,
    POINTS,
    D,
    M,
    N,
    check_draws,
    check_inverse,
    check_inverse_diagonal,
    check_log_determinant,
    check_solutions,
    low_rank,
)

CASES = {
    "none": (Identity(N), np.eye(N)),
    "diagonal": (Diagonal(NOISE), D),
    "Nystrom": (nystrom(KERNEL, NOISE, POINTS), low_rank(POINTS) + D),
    "random pivots": (
        random_pivots(KERNEL, NOISE, M, np.random.default_rng(2)),
        low_rank(random_points(KERNEL, M, np.random.default_rng(2))) + D,
    ),
    "all pivots": (random_pivots(KERNEL, NOISE, N, np.random.default_rng(2)), KERNEL.K + D),
}
each = pytest.mark.parametrize("case", CASES)


@each
def test_solutions_are_those_of_the_dense_matrix(case):
    check_solutions(*CASES[case])


@each
def test_inverses_are_symmetric_and_positive(case):
    check_inverse(CASES[case][0])


@each
def test_log_determinants_are_those_of_the_dense_matrix(case):
    check_log_determinant(*CASES[case])


@each
def test_draws_have_the_covariance_of_the_dense_matrix(case):
    check_draws(*CASES[case])


@pytest.mark.parametrize("case", ["Nystrom", "random pivots", "diagonal"])
def test_diagonals_of_inverses(case):
    check_inverse_diagonal(*CASES[case])


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


def test_pivots_end_where_little_is_left():
    """The diagonal of K - F'F is at most a millionth, and was more before the last 32 pivots were proposed."""
    kernel = DenseKernel(squared_exponential(np.linspace(0.0, 20.0, 400)[:, None], variance=3.0))
    points, factor = partial_cholesky(kernel, 400, np.random.default_rng(0), negligible=1e-6)
    assert_allclose(factor[:, points], np.triu(factor[:, points]), atol=1e-8)
    left = kernel.K - factor.T @ factor
    assert 0.0 < left.diagonal().max() <= 3e-6
    assert np.linalg.eigvalsh(left).min() > -1e-12
    before = factor[: len(points) - 32]
    assert (kernel.K - before.T @ before).diagonal().max() > 3e-6


def test_points_end_where_nothing_is_left():
    """Three different inputs, repeated."""
    kernel = DenseKernel(squared_exponential(np.repeat(np.arange(3.0), 5)[:, None]))
    points = random_points(kernel, 10, np.random.default_rng(0))
    assert sorted(points // 5) == [0, 1, 2]


def test_points_that_lie_together_are_allowed():
    kernel = DenseKernel(squared_exponential(np.repeat(np.arange(3.0), 5)[:, None]))
    P = nystrom(kernel, np.ones(15), np.arange(15))
    assert_allclose(P.solve(np.eye(15)), np.linalg.inv(kernel.K + np.eye(15)), atol=1e-6)


@pytest.mark.parametrize("matrix", [np.zeros((2, 2)), np.ones((3, 3))], ids=["zero", "points together"])
def test_a_jitter_suffices_for_a_singular_covariance(matrix):
    factor = stable_cholesky(matrix)
    assert_allclose(factor @ factor.T, matrix, atol=1e-5)


def test_noise_that_is_not_positive_is_refused():
    with pytest.raises(ValueError, match=r"noise on the diagonal must be positive, not -0\.1"):
        nystrom(KERNEL, np.full(N, -0.1), POINTS)
