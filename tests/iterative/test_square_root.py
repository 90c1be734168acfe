"""Draws from N(0, A) by products with A, beside the square root by dense algebra."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import sqrtm

from pmgp.core.iterative.conditional import IterativeConditional
from pmgp.core.iterative.preconditioners import LowRank, random_pivots
from pmgp.core.iterative.settings import Iterative
from pmgp.core.iterative.solvers import IndefiniteMatrixError, NotConvergedError
from pmgp.core.iterative.square_root import correlated, inverse_root
from tests.iterative.dense_kernel import DenseKernel, squared_exponential

N, M, RANK = 40, 12, 5
RNG = np.random.default_rng(0)
X, XNEW = RNG.uniform(-2.0, 2.0, (N, 2)), RNG.uniform(-2.5, 2.5, (M, 2))
K = squared_exponential(X, 0.7)
NOISE = np.geomspace(1e-3, 1e-2, N)
A = K + np.diag(NOISE)
UNITS = np.sqrt(NOISE)[:, None]
PRECONDITIONER = random_pivots(DenseKernel(K), NOISE, RANK, RNG)
P = np.linalg.inv(PRECONDITIONER.solve(np.eye(N)))
ROOT = np.linalg.cholesky(P)


def drawn(matrix=A, **given):
    settings = {"largest": 1.0 + N / 1e-3, "units": UNITS, "tolerance": 1e-9, "cap": 200} | given
    return correlated(matrix.__matmul__, PRECONDITIONER, ROOT, **settings)


@pytest.mark.parametrize("largest", [1.0 + 1e-9, 10.0, 1e4, 1e9])
def test_the_rule_is_an_inverse_root(largest):
    nodes, weights = inverse_root(largest)
    x = np.geomspace(1.0, largest, 50)
    assert_allclose((weights / (x[:, None] + nodes)).sum(axis=1), x**-0.5, rtol=1e-8)


def test_draws_have_the_covariance():
    """Columns of a root of P become columns of a root of A."""
    found = drawn()
    assert_allclose(found @ found.T, A, atol=1e-9)


def test_draws_of_the_preconditioner_do_not():
    assert np.abs(ROOT @ ROOT.T - A).max() > 1e-2


@pytest.mark.parametrize("tolerance", [0.3, 1e-2, 1e-4])
def test_the_tolerance_is_kept_and_used(tolerance):
    exact = np.real(sqrtm(A @ np.linalg.inv(P))) @ ROOT
    error = np.linalg.norm((drawn(tolerance=tolerance) - exact) / UNITS, axis=0).max()
    assert 1e-2 * tolerance < error < tolerance


def test_the_cap_gives_no_draw():
    with pytest.raises(NotConvergedError, match=r"after 3 iterations its error is up to .*There is no draw"):
        drawn(cap=3)


def test_an_indefinite_matrix_is_refused():
    with pytest.raises(IndefiniteMatrixError, match="not positive definite"):
        drawn(K - 0.5 * np.eye(N))


class Columns:
    """Stands in for a generator: its numbers are those of an orthogonal matrix, which multiplies the map of a draw."""

    def __init__(self, total):
        self._left = rotation(total)

    def standard_normal(self, shape):
        found, self._left = self._left[: shape[0]], self._left[shape[0] :]
        assert found.shape == shape
        return found


def rotation(total):
    return np.linalg.qr(np.random.default_rng(1).standard_normal((total, total)))[0]


def posterior(inputs):
    between = squared_exponential(np.vstack([X, inputs]), 0.7)[:N, N:]
    prior = squared_exponential(inputs, 0.7)
    factor = np.linalg.cholesky(prior + 1e-13 * np.eye(len(inputs)))
    covariance = prior - between.T @ np.linalg.solve(A, between)
    return factor, np.linalg.solve(factor, between.T), between, covariance


def pathwise(inputs, y, total=None):
    """Return draws whose squares sum to their covariance, and the closed forms of the mean and of that covariance."""
    factor, whitened, between, covariance = posterior(inputs)
    given = IterativeConditional(DenseKernel(K), NOISE, Iterative(tolerance=1e-8, rank=RANK))
    total = total or len(inputs) + RANK + N
    found = given.draws(Columns(total), factor, whitened, np.tile(y[:, None], (1, total)), total)
    return found, between.T @ np.linalg.solve(A, y), covariance


def moments_are_missed():
    """Return the largest errors of the mean and of the covariance, relative to the smallest standard deviation."""
    zero, _, covariance = pathwise(XNEW, np.zeros(N))
    y = np.sin(3.0 * X[:, 0])
    found, mean, _ = pathwise(XNEW, y)
    smallest = covariance.diagonal().min()
    of_mean = np.abs(found - zero - mean[:, None]).max() / np.sqrt(smallest)
    return max(of_mean, np.abs(zero @ zero.T - covariance).max() / smallest)


def test_pathwise_draws_have_the_posteriors_moments():
    assert moments_are_missed() < 1e-5


def test_draws_whose_observations_lack_noise_do_not(monkeypatch):
    """Forgetting the noise of the prior's observations makes the posterior too narrow."""
    sample = LowRank.sample
    monkeypatch.setattr(
        LowRank, "sample", lambda self, rng, size: sample(self, rng, size) - self._base.sample(Last(N, size), size)
    )
    assert moments_are_missed() > 0.05


class Last:
    """The numbers of the noise, which are the last rows of the matrix."""

    def __init__(self, number, size):
        self._rows = rotation(size)[size - number :]

    def standard_normal(self, shape):
        return self._rows


def test_draws_at_the_old_inputs_have_the_posteriors_moments():
    """Nothing is left of K given the process there."""
    zero, _, covariance = pathwise(X, np.zeros(N), total=N + N)
    assert_allclose(zero @ zero.T, covariance, atol=1e-6)
