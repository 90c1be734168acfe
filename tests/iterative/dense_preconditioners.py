"""Preconditioners of one covariance, checked against the dense matrix P that each of them stands for."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

from tests.iterative.dense_kernel import DenseKernel, squared_exponential

__all__ = [
    "KERNEL", "NOISE", "POINTS", "D", "M", "N", "X", "check_draws", "check_inverse", "check_inverse_diagonal",
    "check_log_determinant", "check_solutions", "low_rank",
]  # fmt: skip

RNG = np.random.default_rng(0)
N, M = 60, 12
X = RNG.standard_normal((N, 2))
KERNEL = DenseKernel(squared_exponential(X, 0.7, 1.7))
NOISE = RNG.uniform(0.05, 0.2, N)
POINTS = RNG.choice(N, M, replace=False)
D = np.diag(NOISE)


def low_rank(points):
    columns = KERNEL.columns(points)
    return columns @ np.linalg.solve(columns[points], columns.T)


def check_solutions(preconditioner, P):
    x = np.random.default_rng(3).standard_normal((N, 4))
    assert_allclose(preconditioner.solve(x), np.linalg.solve(P, x), rtol=1e-6, atol=1e-7)


def check_inverse(preconditioner):
    """Symmetric and positive."""
    inverse = preconditioner.solve(np.eye(N))
    assert_allclose(inverse, inverse.T, atol=1e-9)
    assert np.linalg.eigvalsh(inverse).min() > 0.0


def check_log_determinant(preconditioner, P):
    assert_allclose(preconditioner.log_determinant, np.linalg.slogdet(P)[1], atol=1e-6)


def check_draws(preconditioner, P):
    """White after the inverse root of P: all elements of the covariance within six standard errors."""
    draws = preconditioner.sample(np.random.default_rng(4), 4000)
    white = np.linalg.solve(np.linalg.cholesky(P), draws)
    found = white @ white.T / 4000
    assert np.abs(found - np.eye(N)).max() < 6.0 * np.sqrt(2.0 / 4000)
    # The twin: draws of too small a variance.
    twin = np.linalg.solve(np.linalg.cholesky(P + 0.5 * np.diag(P.diagonal())), draws)
    assert np.abs(twin @ twin.T / 4000 - np.eye(N)).max() > 12.0 * np.sqrt(2.0 / 4000)


def check_inverse_diagonal(preconditioner, P):
    assert_allclose(preconditioner.inverse_diagonal(), np.linalg.inv(P).diagonal(), rtol=1e-6)
