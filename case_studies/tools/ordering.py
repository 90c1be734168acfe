"""Which methods converge significantly faster: the last row of the tables in the comparative evaluation.

The methods are sorted by their median, and each is compared with the next one by a one-sided Mann-Whitney test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from scipy.stats import mannwhitneyu

__all__ = ["ordering"]

SIGNIFICANCE = 0.05
"""Level of each test; there is no correction for their number, as in the article."""


def ordering(samples: Mapping[int, Sequence[float]]) -> str:
    """Order methods from the smallest values to the largest.

    Parameters
    ----------
    samples : mapping of int to sequence of float
        Values of each method, for example its R-hat on each data set; smaller is better.

    Returns
    -------
    str
        "6|5,4": method 6 is significantly better than 5, which is not significantly better than 4.
    """
    ranked = sorted(samples, key=lambda method: (float(np.median(samples[method])), method))
    parts = [str(method) for method in ranked[:1]]
    for better, worse in pairwise(ranked):
        separator = "|" if _is_smaller(samples[better], samples[worse]) else ","
        parts.append(f"{separator}{worse}")
    return "".join(parts)


def _is_smaller(a: Sequence[float], b: Sequence[float]) -> bool:
    return bool(mannwhitneyu(a, b, alternative="less").pvalue < SIGNIFICANCE)
