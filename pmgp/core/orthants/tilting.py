"""The best exponential tilting of sequential draws: Botev (2017), section 3.

The weights are bounded by the saddle point of psi(x, s) = sum_i [s_i^2 / 2 - x_i s_i + log P(l_i <= z + s_i <= u_i)],
whose limits depend on x_<i. Both gradients vanish there: x = s + e and s = L~' e, where e holds the means of truncated
normals and L~ is the strict lower triangle of the factor with its rows divided by the diagonal.
"""

from __future__ import annotations

import numpy as np

from pmgp.core.likelihoods.normal_interval import NormalInterval
from pmgp.core.orthants.ordering import Ordered


def saddle_point(problem: Ordered) -> np.ndarray:
    """Return the shifts s of the draws: (n,), zero for variables that are functions of those before them.

    If the equations are not solved, the shifts of the last iteration are returned: the draws are exact with any shifts.
    """
    pivots = problem.factor.diagonal()
    bound = (pivots > 0.0) & (np.isfinite(problem.lower) | np.isfinite(problem.upper))
    divisor = np.where(bound, pivots, 1.0)
    strict = np.where(bound[:, None], np.tril(problem.factor, -1) / divisor[:, None], 0.0)
    equations = _Equations(strict, problem.lower / divisor, problem.upper / divisor, bound)
    n = problem.size
    # Importing `scipy.optimize` takes half a second, and few estimates need it.
    from scipy.optimize import root

    found = root(equations.value_and_jacobian, np.zeros(2 * n), jac=True, method="hybr")
    shift = np.where(pivots > 0.0, found.x[n:], 0.0)
    return np.where(np.isfinite(shift), shift, 0.0)


class _Equations:
    """Both gradients of psi, and their Jacobian."""

    def __init__(self, strict: np.ndarray, lower: np.ndarray, upper: np.ndarray, bound: np.ndarray) -> None:
        self.strict, self.lower, self.upper, self.bound = strict, lower, upper, bound

    def value_and_jacobian(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, shift = np.split(point, 2)
        mean, deficit = self._moments(self.strict @ x + shift)
        value = np.concatenate([x - shift - mean, shift - self.strict.T @ mean])
        # The derivative of a truncated normal's mean in a shift of its limits is its variance minus one.
        change = -deficit[:, None]
        by_x, identity = change * self.strict, np.eye(len(x))
        jacobian = np.block(
            [
                [identity - by_x, -identity - np.diag(change[:, 0])],
                [-self.strict.T @ by_x, identity - self.strict.T * change[:, 0]],
            ]
        )
        return value, jacobian

    def _moments(self, moved: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return means of normals between the shifted limits, and one minus their variances."""
        mean, deficit = np.zeros(len(moved)), np.zeros(len(moved))
        b = self.bound
        interval = NormalInterval((self.lower - moved)[b], (self.upper - moved)[b], (self.upper - self.lower)[b])
        mean[b], deficit[b] = interval.mean(), interval.variance_deficit()
        return mean, deficit
