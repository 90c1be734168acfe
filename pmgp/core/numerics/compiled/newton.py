"""Newton's method for the mode of p(f|y, theta), as in `core.approximations.laplace`."""

from __future__ import annotations

import math

import numpy as np
from numba import types

from pmgp.core.numerics.compiled.declaration import (
    COUNT,
    FLAG,
    NUMBER,
    ROWS,
    VECTOR,
    WRITTEN_ROWS,
    WRITTEN_VECTOR,
    inlined,
    kernel,
)
from pmgp.core.numerics.compiled.moments import smallest_precision as floor
from pmgp.core.numerics.compiled.probit import derivatives, log_ratio
from pmgp.core.numerics.compiled.sites import condition

# Rows of the working memory: f and a = K^-1 (f - m) of the current point and of the point that was reached.
F, A, REACHED_F, REACHED_A = range(4)


@inlined
def _objective(sign: np.ndarray, prior_mean: np.ndarray, f: np.ndarray, a: np.ndarray) -> float:
    """Return the log of p(y|f) N(f|m, K) up to a constant."""
    product = 0.0
    for i in range(len(f)):
        product += a[i] * (f[i] - prior_mean[i])
    return log_ratio(sign, f[:0], f[:0], f, -math.inf) - 0.5 * product


@kernel(
    types.Tuple((COUNT, NUMBER, NUMBER)),
    *[VECTOR, ROWS, VECTOR],
    *[NUMBER] * 2,
    *[COUNT, COUNT, FLAG],
    *[WRITTEN_ROWS, WRITTEN_VECTOR, WRITTEN_ROWS],
)
def probit_newton(
    sign: np.ndarray,
    covariance: np.ndarray,
    prior_mean: np.ndarray,
    tolerance: float,
    smallest_precision: float,
    max_iterations: int,
    max_halvings: int,
    trusted: bool,
    sites: np.ndarray,
    mean: np.ndarray,
    factor: np.ndarray,
) -> tuple[int, float, float]:
    """Make Newton's steps from a start until they are short.

    - sign (n,)
    - covariance (n, n)
    - prior_mean (n,)
    - tolerance: mean squared change of f
    - smallest_precision: smallest precision of a site, times the prior variance
    - trusted: whether the start is the prior mean; another start is given up if it turns out to be worse than that
    - sites (2, n): b and w
    - mean (n,): the start, overwritten with the mode
    - factor (n, n): factor of B

    Returned: log_evidence, log_determinant: the latter of B, not finite where that is indefinite.
    """
    n = len(mean)
    linear, precision = sites[0], sites[1]
    work, scratch, log_evidence = np.empty((4, n)), np.empty((2, n)), math.nan
    f, a, reached_f, reached_a = work[F], work[A], work[REACHED_F], work[REACHED_A]
    origin = log_ratio(sign, f[:0], f[:0], prior_mean, -math.inf)
    current = origin
    for i in range(n):
        f[i], a[i] = mean[i], 0.0
    steps = 0
    while True:
        steps += 1
        derivatives(sign, f, sites)
        for i in range(n):
            precision[i] = max(precision[i], floor(smallest_precision, covariance[i, i]))
            linear[i] += precision[i] * f[i]
        log_determinant = condition(covariance, prior_mean, linear, precision, factor, mean, scratch)
        if not math.isfinite(log_determinant):
            return steps, log_evidence, log_determinant
        change = 0.0
        for i in range(n):
            reached_f[i], reached_a[i] = mean[i], linear[i] - precision[i] * mean[i]
            change += (mean[i] - f[i]) ** 2 / n
        reached = _objective(sign, prior_mean, reached_f, reached_a)
        log_evidence = reached - 0.5 * log_determinant
        if not trusted and not reached >= origin:
            for i in range(n):
                f[i], a[i] = prior_mean[i], 0.0
            trusted = True
            continue
        if change < tolerance or steps >= max_iterations:
            return steps, log_evidence, log_determinant
        # Halve the step until the objective does not fall; the path is linear in f and in a.
        halvings, step, lowest = 0, 1.0, current - 1e-9 * (1.0 + abs(current))
        while trusted and not reached >= lowest and halvings < max_halvings:
            halvings, step = halvings + 1, 0.5 * step
            for i in range(n):
                reached_f[i] = f[i] + step * (mean[i] - f[i])
                reached_a[i] = a[i] + step * (linear[i] - precision[i] * mean[i] - a[i])
            reached = _objective(sign, prior_mean, reached_f, reached_a)
        current, trusted = reached, True
        for i in range(n):
            f[i], a[i] = reached_f[i], reached_a[i]
