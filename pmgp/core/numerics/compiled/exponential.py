"""The exponential of numbers that are not positive, without a branch, so that a caller's loop is vectorized."""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pmgp.core.numerics.compiled.declaration import inlined

SMALLEST = -700.0
"""The smallest argument: below it the result is not a normal number, and may be anything."""
# The result is 2^k times Taylor's series, with ln 2 in two parts. A number that is added to ROUND is rounded to an
# integer, which is then in the last bits of the sum.
ROUND = 1.5 * 2.0**52
LOG2_E, LN2_HIGH, LN2_LOW = 1.4426950408889634, 6.93147180369123816490e-01, 1.90821492927058770002e-10
SERIES = tuple(1.0 / math.factorial(k) for k in range(13))
BIAS, FRACTION_BITS = 1023, 52


@intrinsic
def _power_of_two(typing_context: Any, rounded: Any) -> Any:
    """Return 2^k, given k + ROUND, by putting k where a number has its exponent."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        integer = ir.IntType(64)
        shifted = builder.shl(builder.bitcast(values[0], integer), ir.Constant(integer, FRACTION_BITS))
        return builder.bitcast(builder.add(shifted, ir.Constant(integer, BIAS << FRACTION_BITS)), ir.DoubleType())

    return types.float64(types.float64), generate


@inlined
def exponential(x: float) -> float:
    """Return exp(x) to a relative error of some 1e-16, for x from `SMALLEST` to 0."""
    s = SERIES
    rounded = x * LOG2_E + ROUND
    k = rounded - ROUND
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    e = (((((s[12] * r + s[11]) * r + s[10]) * r + s[9]) * r + s[8]) * r + s[7]) * r + s[6]
    e = (((((e * r + s[5]) * r + s[4]) * r + s[3]) * r + s[2]) * r + s[1]) * r + s[0]
    return e * _power_of_two(rounded)
