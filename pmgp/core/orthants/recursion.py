"""Sequential draws between limits, and the weights that make them exact.

Without sites these are the draws of Geweke, Hajivassiliou and Keane. In general each limit i has a Gaussian site
exp(c_i v_i - u_i v_i^2 / 2), and q(v), the Gaussian times the sites, approximates the truncated one. At step i the
variable is drawn from q(v_i|v_<i) without its own site, between its limits. This density takes later limits into
account, so its normalizer, the weight, hardly varies if the sites are good. The result is exact with any sites.

With L the Cholesky factor of the covariance, and W W' = I + L' diag(u) L for an upper triangular W, q's factor is
G = L W^-T. For d = L_ii, w = W_ii, and kappa the mean of q(v_i|v_<i), the variable without its site has the precision
p / d^2, with p = w^2 - u d^2 at least one, and the mean (w^2 kappa - c d^2) / p. All of this stays finite if d is zero,
and the variable is a function of those before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pmgp.core.numerics import linalg
from pmgp.core.orthants.ordering import Ordered

BLOCK = 32


class Paths(NamedTuple):
    """Draws of all variables.

    `values` (n, draws): in the order of the recursion; `log_weights` (draws,): the mean of their exponentials is an
    unbiased estimate of the probability; `uniforms` (n, draws): the uniform numbers from which they were made.
    """

    values: np.ndarray
    log_weights: np.ndarray
    uniforms: np.ndarray


@dataclass(frozen=True, eq=False)
class Recursion:
    """A recursion that draws each variable given those before it.

    - `factor` (n, n): lower triangular, C order: the coefficients of earlier variables' innovations in kappa
    - `mean` (n,): the part of kappa that does not depend on innovations
    - `coefficients` (n, 11): for a standard normal x between limits: lower and upper limit; slope, offset and scale of
      v = slope kappa + offset + scale x; constant, slope and scale of the innovation in kappa and x; the coefficients
      of kappa, kappa^2 and x in the log-weight, to which the log-probability of the limits is added
    - `log_constant`: a constant that is added to all log-weights
    """

    problem: Ordered
    factor: np.ndarray
    mean: np.ndarray
    coefficients: np.ndarray
    log_constant: float

    def draw(self, uniforms: np.ndarray) -> Paths:
        """Return draws made from uniform numbers: (n, draws)."""
        return self._run(np.array(uniforms, order="C"), np.empty(uniforms.shape), known=False)

    def replayed(self, values: np.ndarray) -> Paths:
        """Return the weights of paths, and the uniform numbers that would give these paths: (n, draws)."""
        return self._run(np.zeros(values.shape), np.array(values, order="C"), known=True)

    def _run(self, uniforms: np.ndarray, values: np.ndarray, known: bool) -> Paths:
        from pmgp.core.orthants.compiled import draw_block

        n, draws = values.shape
        noise = np.empty((n, draws))
        log_weights = np.full(draws, self.log_constant)
        for start in range(0, n, BLOCK):
            rows = slice(start, min(start + BLOCK, n))
            shift = self.factor[rows, :start] @ noise[:start]
            shift += self.mean[rows, None]
            draw_block(start, self.factor, self.coefficients, shift, uniforms[rows], noise, values, log_weights, known)
        return Paths(values, np.where(np.isnan(log_weights), -np.inf, log_weights), uniforms)


def twisted(problem: Ordered, linear: np.ndarray, precision: np.ndarray) -> Recursion:
    """Return the recursion that draws from q and removes one site after another; with zero sites, the plain one.

    `linear`, `precision` (n,): sites c and u >= 0, in the variables' own order.
    """
    c, u = linear[problem.order], precision[problem.order]
    factor, w = _with_sites(problem.factor, u)
    d = problem.factor.diagonal()
    p = np.maximum(np.square(w) - u * np.square(d), 1.0)
    mean = factor @ (factor.T @ c)
    slope, site = np.square(w) / p, c * np.square(d) / p
    coefficients = [problem.lower, problem.upper, slope, -site, d / np.sqrt(p)]
    coefficients += [-w * d * c / p, w * d * u / p, w / np.sqrt(p), -slope * c, 0.5 * slope * u, np.zeros_like(c)]
    log_constant = 0.5 * float(c @ mean + c @ site - np.log(p).sum())
    return Recursion(problem, factor, mean, np.stack(coefficients, axis=1), log_constant)


def _with_sites(factor: np.ndarray, precision: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return q's factor G = L W^-T, and the diagonal of W."""
    if not precision.any():
        return factor, np.ones(len(factor))
    scaled = np.sqrt(precision)[:, None] * factor
    information = scaled.T @ scaled
    np.einsum("ii->i", information)[:] += 1.0
    # The lower factor of the reversed matrix is the reversed upper factor of the matrix.
    reversed_factor = linalg.cholesky(np.asfortranarray(information[::-1, ::-1]), overwrite=True)
    solved = linalg.triangular_solve(reversed_factor, np.asfortranarray(factor.T[::-1]))
    return np.tril(np.ascontiguousarray(solved[::-1].T)), reversed_factor.diagonal()[::-1].copy()


def tilted(problem: Ordered, shift: np.ndarray) -> Recursion:
    """Return the recursion of exponential tilting (Botev 2017): standard normals plus a shift, between limits.

    It draws z + shift with z standard normal, for v = L (z + shift).

    `shift` (n,): in the order of the problem; zero for a variable that is a function of those before it.
    """
    d = problem.factor.diagonal()
    zero, one = np.zeros_like(d), np.ones_like(d)
    coefficients = [problem.lower, problem.upper, one, d * shift, d, shift, zero, one, zero, zero, -shift]
    log_constant = -0.5 * float(shift @ shift)
    return Recursion(problem, problem.factor, zero, np.stack(coefficients, axis=1), log_constant)
