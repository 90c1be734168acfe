"""Log-determinants by Lanczos quadrature against Cholesky factors, within the errors that they state."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pmgp.core.iterative.preconditioners import Identity, random_pivots
from pmgp.core.iterative.solvers import ConjugateGradients, IndefiniteMatrixError, log_determinant
from tests.iterative.dense_kernel import DenseKernel, squared_exponential

RNG = np.random.default_rng(0)
N, NOISE = 150, 0.05
KERNEL = DenseKernel(squared_exponential(RNG.standard_normal((N, 3)), 1.4))
C = KERNEL.K + NOISE * np.eye(N)
TRUTH = np.linalg.slogdet(C)[1]
PRECONDITIONERS = {"none": Identity(N), "random pivots": random_pivots(KERNEL, np.full(N, NOISE), 30, RNG)}


def estimated(preconditioner, probes, seed=1, tolerance=1e-6):
    w = preconditioner.sample(np.random.default_rng(seed), probes)
    solution = ConjugateGradients(tolerance).solve(C.__matmul__, w, preconditioner, units=np.linalg.norm(w, axis=0))
    return log_determinant(solution, preconditioner)


@pytest.mark.parametrize("preconditioner", PRECONDITIONERS.values(), ids=PRECONDITIONERS)
def test_the_estimate_is_within_its_error(preconditioner):
    found = estimated(preconditioner, 400)
    assert abs(found.value - TRUTH) < 3.0 * found.standard_error
    assert found.standard_error < 2.0


def test_probes_of_the_wrong_covariance_are_rejected():
    """The twin: standard normal probes with a preconditioner that is none."""
    preconditioner = PRECONDITIONERS["random pivots"]
    w = np.random.default_rng(1).standard_normal((N, 400))
    solution = ConjugateGradients(1e-6).solve(C.__matmul__, w, preconditioner, units=np.linalg.norm(w, axis=0))
    found = log_determinant(solution, preconditioner)
    assert abs(found.value - TRUTH) > 6.0 * found.standard_error


def test_the_stated_error_is_that_over_repetitions():
    found = [estimated(PRECONDITIONERS["random pivots"], 16, seed, 1e-3) for seed in range(60)]
    spread = np.std([one.value for one in found], ddof=1)
    assert 0.75 < spread / np.mean([one.standard_error for one in found]) < 1.3


def test_a_preconditioner_makes_the_error_smaller():
    plain, preconditioned = (estimated(one, 50).standard_error for one in PRECONDITIONERS.values())
    assert preconditioned < 0.5 * plain


def test_the_matrix_itself_as_preconditioner_leaves_no_error():
    exact = random_pivots(KERNEL, np.full(N, NOISE), N, np.random.default_rng(0))
    found = estimated(exact, 4)
    assert_allclose(found.value, TRUTH, atol=1e-4)
    assert found.standard_error < 1e-4


def test_a_single_probe_has_no_error():
    assert estimated(PRECONDITIONERS["none"], 1).standard_error == np.inf


def test_solutions_from_a_start_have_no_coefficients():
    preconditioner = PRECONDITIONERS["random pivots"]
    w = preconditioner.sample(np.random.default_rng(1), 2)
    solution = ConjugateGradients().solve(C.__matmul__, w, preconditioner, start=np.ones_like(w))
    with pytest.raises(ValueError, match="coefficients of the iterations are missing"):
        log_determinant(solution, preconditioner)


def test_an_indefinite_matrix_has_no_log_determinant():
    with pytest.raises(IndefiniteMatrixError):
        ConjugateGradients().solve((C - np.eye(N)).__matmul__, RNG.standard_normal((N, 2)), Identity(N))
