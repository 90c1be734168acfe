"""A standard normal between limits, compiled: its probability, and draws by inversion, far into both tails.

Like `compiled` it is imported when it is first used; `core.numerics.compiled.declaration` explains how kernels are
declared.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pmgp.core.numerics.compiled.declaration import NOTHING, VECTOR, WRITTEN_VECTOR, inlined, kernel

SQRT_HALF = math.sqrt(0.5)
LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
# Beyond this point probabilities are logarithms, from the asymptotic series of Mills' ratio.
FAR = 30.0
# If an interval's width times its distance from zero is smaller, a series is used, since a difference would cancel.
NARROW = 1e-2
TINY = 1e-300

# Wichura (1988), algorithm AS 241, PPND16: coefficients of the highest powers first.
CENTER = (
    (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608),
    (5226.495278852545925, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
     5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0),
)  # fmt: skip
MIDDLE = (
    (7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177, 1.27045825245236838258,
     3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966, 0.14810397642748007459,
     0.68976733498510000455, 1.6763848301838038494, 2.05319162663775882187, 1.0),
)  # fmt: skip
OUTER = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386, 0.026532189526576123093,
     0.29656057182850489123, 1.7848265399172913358, 5.4637849111641143699, 6.6579046435011037772),
    (2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5, 7.868691311456132591e-4,
     0.0148753612908506148525, 0.13692988092273580531, 0.59983220655588793769, 1.0),
)  # fmt: skip


@inlined
def _ratio(coefficients: Any, x: float) -> float:
    """Return a quotient of two polynomials of the seventh degree."""
    a, b = coefficients
    top = ((((((a[0] * x + a[1]) * x + a[2]) * x + a[3]) * x + a[4]) * x + a[5]) * x + a[6]) * x + a[7]
    bottom = ((((((b[0] * x + b[1]) * x + b[2]) * x + b[3]) * x + b[4]) * x + b[5]) * x + b[6]) * x + b[7]
    return top / bottom


@inlined
def _tail(x: float) -> float:
    """Return Q(x), the probability above x."""
    return 0.5 * math.erfc(SQRT_HALF * x)


@inlined
def _tail_quantile(p: float) -> float:
    """Return the x with Q(x) = p."""
    q = 0.5 - p
    if abs(q) <= 0.425:
        return q * _ratio(CENTER, 0.180625 - q * q)
    r = math.sqrt(-math.log(max(min(p, 1.0 - p), TINY)))
    x = _ratio(MIDDLE, r - 1.6) if r <= 5.0 else _ratio(OUTER, r - 5.0)
    return x if q > 0.0 else -x


@inlined
def _log_mills(x: float) -> float:
    """Return log(Q(x) / phi(x)) for x beyond FAR."""
    if x == math.inf:
        return -math.inf
    y = 1.0 / (x * x)
    return math.log1p(-y * (1.0 - y * (3.0 - y * (15.0 - y * (105.0 - y * 945.0))))) - math.log(x)


@inlined
def _mass(a: float, b: float) -> tuple[float, float, float]:
    """Return, for an interval with a + b >= 0, Q(a) or 1, the probability, and the offset of its logarithm.

    Beyond FAR the first two are relative to Q(a), whose logarithm is the third.
    """
    width = b - a
    middle = 0.5 * (a + b)
    narrow = width * max(1.0, middle) < NARROW
    if a > FAR:
        log_tail = _log_mills(a) - 0.5 * a * a - LOG_SQRT_2PI
        share = -math.expm1(_log_mills(b) - _log_mills(a) - width * middle) if b < math.inf else 1.0
        return 1.0, share, log_tail
    above = _tail(a)
    if narrow:
        square, width_square = middle * middle, width * width
        series = 1.0 + (square - 1.0) * width_square / 24.0
        series += (square * (square - 6.0) + 3.0) * width_square * width_square / 1920.0
        return above, width * math.exp(-0.5 * square - LOG_SQRT_2PI) * series, 0.0
    return above, above - (_tail(b) if b < math.inf else 0.0), 0.0


@inlined
def _quantile(a: float, b: float, above: float, mass: float, uniform: float) -> float:
    """Return the point below which the interval has the share `uniform` of its probability."""
    p = above - uniform * mass
    if a <= FAR:
        return min(max(_tail_quantile(max(p, TINY)), a), b)
    # Q(x) = p Q(a): x^2 = a^2 - 2 log p + 2 log (ratio of Mills' ratios), a contraction by 1 / x^2.
    square = a * a - 2.0 * math.log(max(p, TINY))
    x = math.sqrt(square)
    for _ in range(4):
        x = math.sqrt(max(square + 2.0 * (_log_mills(x) - _log_mills(a)), a * a))
    return min(max(x, a), b)


@inlined
def _share(a: float, above: float, mass: float, x: float) -> float:
    """Return the share of the interval's probability below x, the inverse of `_quantile`."""
    tail = _tail(x) if a <= FAR else math.exp(_log_mills(x) - _log_mills(a) - 0.5 * (x - a) * (x + a))
    return min(max((above - tail) / mass, 0.0), 1.0)


@inlined
def visit(alpha: float, beta: float, uniform: float, x: float, known: bool) -> tuple[float, float, float, float]:
    """Return a standard normal between two limits, its share, the probability, and a log-scale term.

    The share is the fraction of the probability below the draw. If the draw x is `known`, the share is computed from
    it; otherwise the draw is computed from the share `uniform`. The logarithm of the interval's probability is that of
    the third number plus the fourth.
    """
    if not alpha < beta:
        return min(max(x, alpha), beta), uniform, 0.0, 0.0
    # The interval is reflected into the upper half, where probabilities are the tail's.
    if alpha + beta < 0.0:
        above, mass, extra = _mass(-beta, -alpha)
        if mass <= 0.0:
            return 0.5 * (alpha + beta), uniform, 0.0, 0.0
        if known:
            return x, 1.0 - _share(-beta, above, mass, -x), mass, extra
        return -_quantile(-beta, -alpha, above, mass, 1.0 - uniform), uniform, mass, extra
    above, mass, extra = _mass(alpha, beta)
    if mass <= 0.0:
        return alpha, uniform, 0.0, 0.0
    if known:
        return x, _share(alpha, above, mass, x), mass, extra
    return _quantile(alpha, beta, above, mass, uniform), uniform, mass, extra


@kernel(NOTHING, VECTOR, VECTOR, VECTOR, WRITTEN_VECTOR, WRITTEN_VECTOR)
def truncated(
    alpha: np.ndarray, beta: np.ndarray, uniforms: np.ndarray, draws: np.ndarray, log_probabilities: np.ndarray
) -> None:
    """Draw standard normals between limits by inversion, and compute the intervals' log-probabilities: (k,) arrays."""
    for k in range(alpha.shape[0]):
        x, _, mass, extra = visit(alpha[k], beta[k], uniforms[k], 0.0, False)
        draws[k] = x
        log_probabilities[k] = math.log(mass) + extra if mass > 0.0 else -math.inf
