"""Traces with C^-1, C = K + diag(noise), from probes w ~ N(0, P), with P itself as a control variate.

With u = P^-1 w and c = C^-1 w, E u c' = C^-1, since E w w' = P. The same average with P in place of C has the known
expectation P^-1 = E u u'. It is subtracted and its expectation added (Wenger et al. 2021): the closer P is to C, the
smaller the remaining noise.

P is Nystrom's approximation with fixed points, so its derivatives are those of columns of K: with A = K_UU^-1 K_UX,
E the columns of the identity that belong to U, and a symmetric G,
<G, dP> = 2 <G A', dK E> - <A G A', dK_UU> + diag(G)' dnoise.
With K_UU = L L' and P = F F' + diag(noise), A' = F L^-1. For G = P^-1 - mean u u', G F = P^-1 F - mean u (F'u)', and
F'P^-1 F = I - M^-1 with M = I + F'diag(noise)^-1 F, so A G A' takes operations on m by m matrices alone.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from pmgp.core.iterative.bars import CovarianceBar
from pmgp.core.iterative.preconditioners import Kernel
from pmgp.core.iterative.preconditioners.low_rank import Diagonal, LowRank, stable_cholesky
from pmgp.core.iterative.solvers import columnwise


class Probes:
    """The preconditioner P, and estimates of traces from draws from N(0, P) and their products with C^-1.

    `points` (m,) of int: U, all different.
    """

    def __init__(self, kernel: Kernel, points: np.ndarray) -> None:
        self._points = points
        columns = kernel.columns(points)
        self._lower = stable_cholesky(columns[points])
        self._factor = solve_triangular(self._lower, columns.T, lower=True).T

    def preconditioner(self, noise: np.ndarray) -> LowRank:
        """Return P for noise of shape (n,)."""
        return LowRank(self._factor, Diagonal(noise))

    def inverse(self, preconditioner: LowRank, w: np.ndarray, solutions: np.ndarray) -> CovarianceBar:
        """Return a bar whose expectation gives tr(C^-1 dC) for any change dC.

        `preconditioner`: P; `w` (n, k): draws from N(0, P); `solutions` (n, k): C^-1 w.
        """
        u = preconditioner.solve(w)
        number = w.shape[1]
        inverse = solve_triangular(self._lower, np.eye(len(self._points)), lower=True)
        # G = P^-1 - mean u u' has the expectation zero.
        on_factor = self._factor.T @ u
        weights = 2.0 * (preconditioner.solved_factor(inverse) - u @ (on_factor.T @ inverse) / number)
        both_sides = preconditioner.explained() - on_factor @ on_factor.T / number
        weights[self._points] -= inverse.T @ both_sides @ inverse
        noise = columnwise(u.T, solutions.T) / number + _excess(preconditioner, u)
        return CovarianceBar(u / number, solutions, self._points, weights, noise)

    @staticmethod
    def inverse_diagonal(preconditioner: LowRank, w: np.ndarray, solutions: np.ndarray) -> np.ndarray:
        """Return an array whose expectation is the diagonal of C^-1: (n,)."""
        u = preconditioner.solve(w)
        return columnwise(u.T, solutions.T) / w.shape[1] + _excess(preconditioner, u)


def _excess(preconditioner: LowRank, u: np.ndarray) -> np.ndarray:
    """Return the diagonal of P^-1 - mean u u', whose expectation is zero."""
    return preconditioner.inverse_diagonal() - np.square(u).mean(axis=1)
