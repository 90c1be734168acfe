"""Log-determinants by stochastic Lanczos quadrature, from the coefficients of conjugate gradients.

For w ~ N(0, P), u = P^-1/2 w is standard normal and E u'log(P^-1/2 C P^-1/2) u = log|C| - log|P|. Conjugate gradients
on C x = w with the preconditioner P give the matrix T of Lanczos' recursion from u, and u'log(.)u is |u|^2 e1'log(T) e1
up to the quadrature's error (Ubaru, Chen and Saad 2017; Wenger et al. 2021, with preconditioning).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh_tridiagonal

from pmgp.core.iterative.solvers.base import IndefiniteMatrixError, Preconditioner
from pmgp.core.iterative.solvers.conjugate_gradients import Solution


class Estimated(NamedTuple):
    """An estimate and its error.

    `standard_error`: the standard deviation over repetitions with other probes; infinite for a single probe.
    """

    value: float
    standard_error: float


def log_determinant(solution: Solution, preconditioner: Preconditioner) -> Estimated:
    """Return an estimate of log|C| from the solution of C x = w for draws w from the preconditioner's N(0, P).

    `solution`: a solution of `ConjugateGradients` from zero with the same preconditioner, with a draw for each column.
    """
    if np.isnan(solution.ratios).all(axis=0).any():
        raise ValueError("coefficients of the iterations are missing: solve without a start")
    size = len(solution.x)
    # |u|^2 is independent of u's direction; replacing it with its expectation n keeps the mean and reduces the noise.
    terms = size * np.array([_first_log(*_coefficients(solution, k)) for k in range(solution.x.shape[1])])
    error = np.std(terms, ddof=1) / np.sqrt(len(terms)) if len(terms) > 1 else np.inf
    return Estimated(preconditioner.log_determinant + float(terms.mean()), float(error))


def _coefficients(solution: Solution, column: int) -> tuple[np.ndarray, np.ndarray]:
    steps, ratios = solution.steps[:, column], solution.ratios[:, column]
    made = ~np.isnan(steps)
    return steps[made], ratios[made]


def _first_log(steps: np.ndarray, ratios: np.ndarray) -> float:
    """Return e1'log(T) e1 for the tridiagonal T of the coefficients (Golub and Van Loan, section 10.2.6)."""
    diagonal = 1.0 / steps
    diagonal[1:] += ratios[1:] / steps[:-1]
    values, vectors = eigh_tridiagonal(diagonal, np.sqrt(ratios[1:]) / steps[:-1])
    if values[0] <= 0.0:
        raise IndefiniteMatrixError(
            f"the matrix is not positive definite: Lanczos' recursion finds the eigenvalue {values[0]:.3g}"
        )
    return float(np.square(vectors[0]) @ np.log(values))
