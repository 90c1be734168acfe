"""Flexible conjugate gradients against Cholesky factors, where plain ones fail, and at the cap."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import cho_factor, cho_solve

from case_studies.iterative.flexible import FlexibleConjugateGradients
from case_studies.iterative.preconditioners import Regularized
from pmgp.core.iterative.preconditioners import Identity
from pmgp.core.iterative.solvers import ConjugateGradients, IndefiniteMatrixError, NotConvergedError
from tests.iterative.test_conjugate_gradients import KERNEL, N, matrix, preconditioned
from tests.iterative.test_conjugate_gradients import B as MANY

B = MANY[:, :1]


def regularized(noise):
    """The article's, with an inner tolerance so large that no two iterations have the same preconditioner."""
    return Regularized(KERNEL, np.full(N, noise), 100.0 * noise, ConjugateGradients(0.3, cap=5000))


@pytest.mark.parametrize(("noise", "tolerance"), [(1.0, 1e-9), (1e-3, 1e-9), (2e-6, 1e-6)])
def test_solutions_are_those_by_cholesky_factors(noise, tolerance):
    """Condition numbers up to 1e8; an error in x is at most a residual over the smallest eigenvalue."""
    C = matrix(noise)
    solution = FlexibleConjugateGradients(tolerance).solve(C.__matmul__, B, preconditioned(noise))
    assert_allclose(solution.x, cho_solve(cho_factor(C), B), atol=1.5 * tolerance / noise)
    assert np.linalg.norm(B - C @ solution.x) <= tolerance


def test_the_matrix_itself_as_preconditioner_takes_one_iteration():
    C = matrix(0.1)
    solution = FlexibleConjugateGradients(1e-6).solve(C.__matmul__, B, preconditioned(0.1, N))
    assert solution.iterations.tolist() == [1]


def test_a_preconditioner_that_iterates_needs_the_flexible_kind():
    """With it, the twin by plain conjugate gradients takes more iterations, or does not end."""
    noise = 1e-2
    C = matrix(noise)
    flexible = FlexibleConjugateGradients(1e-6).solve(C.__matmul__, B, regularized(noise))
    assert_allclose(C @ flexible.x, B, atol=1e-6)
    with pytest.raises((NotConvergedError, IndefiniteMatrixError)):
        ConjugateGradients(1e-6, cap=3 * int(flexible.iterations[0])).solve(C.__matmul__, B, regularized(noise))


def test_the_cap_gives_no_value_but_the_residual():
    with pytest.raises(NotConvergedError, match=r"after 5 iterations the residual is .*, and the tolerance is 1e-08"):
        FlexibleConjugateGradients(1e-8, cap=5).solve(matrix(1e-4).__matmul__, B, Identity(N))


def test_rounding_that_stops_the_solution_is_an_error():
    with pytest.raises(NotConvergedError, match="flexible conjugate gradients have not converged"):
        FlexibleConjugateGradients(1e-14, cap=5000).solve(matrix(1e-6).__matmul__, B, preconditioned(1e-6))
