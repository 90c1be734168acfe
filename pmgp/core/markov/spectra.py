"""Products of Matern kernels with cosines and periodic kernels, as sums of spectral lines.

A periodic kernel is a cosine series, exp(-sin(pi r / T)^2 / (2 l^2)) = sum_j q_j cos(2 pi j r / T) with
q_j = (2 - [j = 0]) I_j(a) exp(-a) and a = 1 / (4 l^2) (Solin and Sarkka 2014). A Matern kernel times a cosine is a
line: two copies of the Matern process, which rotate at the frequency of the cosine.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.special import ive

TOLERANCE = 1e-8
"""Largest error from the omitted cosines, in a periodic kernel of variance one."""
MOST_HARMONICS = 64
"""Largest number of cosines; periodic kernels that need more, with length-scales below 0.046, have no density."""


class Part(NamedTuple):
    """A Matern kernel, and the kernels by which it is multiplied.

    `order`: 1/2, 3/2 or 5/2; `factors`: ``"cosine"`` or ``"periodic"``.
    """

    order: float
    factors: tuple[str, ...] = ()


class Line(NamedTuple):
    """A Matern kernel times a cosine.

    `frequency`: radians per unit of time; zero for a Matern kernel without a cosine.
    """

    order: float
    lengthscale: float
    variance: float
    frequency: float = 0.0


Spectrum = list[tuple[float, float]]


def lines_of(
    parts: Sequence[Part],
    lengthscales: np.ndarray,
    variances: np.ndarray,
    periods: np.ndarray | Sequence[float] = (),
    widths: np.ndarray | Sequence[float] = (),
) -> list[Line]:
    """Return the lines whose sum is a kernel; a part with impossible parameters gives a line of variance NaN.

    - `lengthscales`, `variances` (k,): lengthscales and variances of the parts
    - `periods`, `widths` (p,): period and length-scale of each factor of each part, in order. The `widths` of cosines
      are not used
    """
    found, begin = [], 0
    for part, lengthscale, variance in zip(parts, lengthscales, variances, strict=True):
        spectrum: Spectrum = [(0.0, float(variance))]
        for place, kind in enumerate(part.factors, begin):
            spectrum = _multiplied(spectrum, _spectrum(kind, float(periods[place]), float(widths[place])))
        found += [Line(part.order, float(lengthscale), weight, frequency) for frequency, weight in spectrum]
        begin += len(part.factors)
    return found


def _spectrum(kind: str, period: float, width: float) -> Spectrum:
    """Return the frequencies and weights of a cosine or a periodic kernel."""
    weights = np.array([0.0, 1.0]) if kind == "cosine" else _harmonics(width)
    if weights is None or not (np.isfinite(period) and period > 0.0):
        return [(0.0, np.nan)]
    return [(2.0 * np.pi * j / period, float(weight)) for j, weight in enumerate(weights) if weight > 0.0]


def _harmonics(width: float) -> np.ndarray | None:
    """Return q_0, ..., q_J with the smallest J for which the rest, which bounds the kernel's error, is tolerable."""
    if not (np.isfinite(width) and width > 0.0):
        return None
    weights = 2.0 * ive(np.arange(MOST_HARMONICS + 1), 0.25 / width**2)
    weights[0] *= 0.5
    # The sum begins with the last term, because one minus the sum of the first terms would be rounded.
    left_out = np.cumsum(weights[::-1])[::-1]
    if not abs(left_out[0] - 1.0) < 0.5 * TOLERANCE:
        return None
    return weights[: max(1, int(np.count_nonzero(left_out >= 0.5 * TOLERANCE)))]


def _multiplied(one: Spectrum, other: Spectrum) -> Spectrum:
    """Return the spectrum of a product: cos a cos b = (cos(a + b) + cos(a - b)) / 2."""
    found: Spectrum = []
    for (a, weight), (b, factor) in product(one, other):
        if a == 0.0 or b == 0.0:
            found.append((a + b, weight * factor))
        else:
            found += [(a + b, 0.5 * weight * factor), (abs(a - b), 0.5 * weight * factor)]
    return found
