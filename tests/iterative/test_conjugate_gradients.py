"""Conjugate gradients against Cholesky factors, at the cap, with products in single precision, and what is refused."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import cho_factor, cho_solve

from pmgp.core.iterative.preconditioners import Identity, random_pivots
from pmgp.core.iterative.solvers import ConjugateGradients, IndefiniteMatrixError, NotConvergedError, watched
from pmgp.core.iterative.solvers import conjugate_gradients as module
from tests.iterative.dense_kernel import DenseKernel, squared_exponential

RNG = np.random.default_rng(0)
N = 200
KERNEL = DenseKernel(squared_exponential(RNG.standard_normal((N, 2))))
B = RNG.standard_normal((N, 3))


def matrix(noise):
    return KERNEL.K + noise * np.eye(N)


def preconditioned(noise, rank=20):
    return random_pivots(KERNEL, np.full(N, noise), rank, np.random.default_rng(1))


class WithInverse:
    """Solves with a given matrix."""

    def __init__(self, inverse):
        self.inverse = inverse

    def solve(self, x):
        return self.inverse @ x


@pytest.mark.parametrize(("noise", "tolerance"), [(1.0, 1e-9), (1e-3, 1e-9), (2e-6, 1e-6)])
def test_solutions_are_those_by_cholesky_factors(noise, tolerance):
    """Condition numbers up to 1e8; an error in x is at most a residual over the smallest eigenvalue."""
    C = matrix(noise)
    solution = ConjugateGradients(tolerance).solve(C.__matmul__, B, preconditioned(noise))
    assert_allclose(solution.x, cho_solve(cho_factor(C), B), atol=1.5 * tolerance / noise)
    assert np.all(np.linalg.norm(B - C @ solution.x, axis=0) <= tolerance)
    assert_allclose(solution.norms, np.linalg.norm(B - C @ solution.x, axis=0), rtol=1e-3)


def test_the_matrix_itself_as_preconditioner_takes_one_iteration():
    C = matrix(0.1)
    solution = ConjugateGradients(1e-6).solve(C.__matmul__, B, WithInverse(np.linalg.inv(C)))
    assert solution.iterations.tolist() == [1, 1, 1]


def test_columns_are_solved_as_by_themselves():
    """Columns that converge early are left out of the products; each has its own iterations."""
    C, P = matrix(0.01), preconditioned(0.01)
    b = np.column_stack([B, P.sample(np.random.default_rng(2), 2), np.zeros(N)])
    solver = ConjugateGradients(1e-6)
    together = solver.solve(C.__matmul__, b, P)
    apart = [solver.solve(C.__matmul__, b[:, [k]], P) for k in range(b.shape[1])]
    # Rounding differs with the number of columns.
    assert_allclose(together.iterations, [one.iterations[0] for one in apart], atol=2)
    assert len(set(together.iterations.tolist())) > 2
    assert_allclose(together.x, np.hstack([one.x for one in apart]), atol=1e-4)
    assert together.iterations[-1] == 0


def test_residuals_are_measured_in_the_given_units():
    C, units = matrix(0.01), np.linspace(0.1, 10.0, N)[:, None]
    solution = ConjugateGradients(1e-3).solve(C.__matmul__, B, preconditioned(0.01), units=units)
    assert_allclose(solution.norms, np.linalg.norm((B - C @ solution.x) / units, axis=0), rtol=1e-6)
    assert np.all(solution.norms <= 1e-3)


def test_the_tolerance_bounds_the_posterior_mean_in_posterior_deviations():
    """By the norm of the residual over the noise's deviations, for all linear functions of f at once."""
    noise = 0.05
    C, y = matrix(noise), B[:, :1]
    exact = np.linalg.solve(C, y)
    covariance = KERNEL.K - KERNEL.K @ np.linalg.solve(C, KERNEL.K)
    for tolerance in (1.0, 0.1):
        solution = ConjugateGradients(tolerance).solve(C.__matmul__, y, Identity(N), units=np.sqrt(noise))
        moved = (KERNEL.K @ (solution.x - exact))[:, 0]
        assert np.max(np.abs(moved) / np.sqrt(covariance.diagonal())) < tolerance
        assert np.max(np.abs(moved) / np.sqrt(covariance.diagonal())) > 1e-3 * tolerance


def test_a_start_saves_iterations():
    P = preconditioned(0.01)
    near = ConjugateGradients(1e-6).solve(matrix(0.0101).__matmul__, B, P).x
    cold = ConjugateGradients(1e-6).solve(matrix(0.01).__matmul__, B, P)
    warm = ConjugateGradients(1e-6).solve(matrix(0.01).__matmul__, B, P, start=near)
    assert np.all(warm.iterations < cold.iterations)
    assert_allclose(warm.x, cold.x, atol=1e-4)


def test_the_cap_gives_no_value_but_the_residual_and_a_remedy():
    with pytest.raises(NotConvergedError, match=r"after 5 iterations .* up to .* rank, a cap over 5, or a Cholesky"):
        ConjugateGradients(1e-8, cap=5).solve(matrix(1e-4).__matmul__, B, Identity(N))


def in_single_precision(C):
    rounded = C.astype(np.float32)
    return lambda x: (rounded @ x.astype(np.float32)).astype(float)


def test_single_precision_is_refined_to_the_accuracy_of_double():
    C = matrix(1e-2)
    solution = ConjugateGradients(1e-9).solve(in_single_precision(C), B, preconditioned(1e-2), checked_by=C.__matmul__)
    assert np.all(np.linalg.norm(B - C @ solution.x, axis=0) <= 1e-9)


def test_a_residual_that_is_not_computed_anew_would_not_have_said_so(monkeypatch):
    """The twin believes the recursion, and leaves far more than its tolerance."""
    C, tolerance = matrix(1e-2), 1e-9

    def believing(self, columns):
        self._residual[:, columns] = 0.0

    monkeypatch.setattr(module._Search, "_check", believing)
    solution = ConjugateGradients(tolerance).solve(in_single_precision(C), B, preconditioned(1e-2))
    assert np.all(np.linalg.norm(B - C @ solution.x, axis=0) > 100.0 * tolerance)


def test_rounding_that_stops_the_solution_is_an_error():
    C = matrix(1e-6)
    with pytest.raises(NotConvergedError, match="Rounding stops it"):
        ConjugateGradients(1e-14, cap=5000).solve(C.__matmul__, B, preconditioned(1e-6))


def test_an_indefinite_matrix_is_refused():
    with pytest.raises(IndefiniteMatrixError, match="not positive definite: p'C p is -"):
        ConjugateGradients(1e-8).solve((KERNEL.K - np.eye(N)).__matmul__, B, Identity(N))


def test_an_indefinite_preconditioner_is_refused():
    with pytest.raises(IndefiniteMatrixError, match="the preconditioner is not symmetric and positive"):
        ConjugateGradients(1e-8).solve(matrix(0.1).__matmul__, B, WithInverse(-np.eye(N)))


def test_what_is_not_finite_is_refused():
    with pytest.raises(IndefiniteMatrixError, match="not finite"):
        ConjugateGradients(1e-8).solve(lambda x: np.nan * x, B, Identity(N))
    with pytest.raises(ValueError, match="must be finite"):
        ConjugateGradients(1e-8).solve(matrix(0.1).__matmul__, np.nan * B, Identity(N))


def test_a_preconditioner_that_is_not_symmetric_takes_many_more_iterations():
    """Its twin with a skew part, which leaves z'r as it is, so that only the recursion can notice."""
    C, noise = matrix(1e-2), 1e-2
    P = preconditioned(noise, 60)
    inverse = P.solve(np.eye(N))
    skew = np.triu(np.random.default_rng(3).standard_normal((N, N)), 1)
    solver = ConjugateGradients(1e-6, cap=300)
    assert solver.solve(C.__matmul__, B, WithInverse(inverse)).iterations.max() < 30
    with pytest.raises((NotConvergedError, IndefiniteMatrixError)):
        solver.solve(C.__matmul__, B, WithInverse(inverse + 10.0 * (skew - skew.T)))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (partial(ConjugateGradients, 0.0), "tolerance must be positive, not 0.0"),
        (partial(ConjugateGradients, np.nan), "tolerance must be positive, not nan"),
        (partial(ConjugateGradients, cap=0), "cap must be a whole number of at least 1, not 0"),
    ],
)
def test_settings_out_of_range_are_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_a_vector_is_refused():
    with pytest.raises(ValueError, match=r"columns of an \(n, k\) array, not of shape \(200,\)"):
        ConjugateGradients().solve(matrix(0.1).__matmul__, B[:, 0], Identity(N))


def test_the_residual_can_be_watched():
    """In one block of code, until it is within the tolerance."""
    told, outer = [], []
    solve = partial(ConjugateGradients(1e-6).solve, matrix(1.0).__matmul__, B, preconditioned(1.0))
    with watched(outer.append):
        with watched(told.append):
            found = solve()
        solve(start=found.x)
    solve()
    assert outer == told
    assert [residual.iterations for residual in told] == list(range(1, found.iterations.max() + 1))
    assert told[-1].norm <= told[-1].tolerance == 1e-6 < told[-2].norm
    assert str(told[0]._replace(norm=0.123)) == "residual 0.12 (to 1e-06)"
