"""Whether iterations from independent draws of a joint distribution keep its means (Gandy and Scott 2020)."""

from __future__ import annotations

import numpy as np

__all__ = ["largest_change"]


def largest_change(before: np.ndarray, after: np.ndarray, expected: np.ndarray | None = None) -> float:
    """Return the largest mean change of a statistic, in standard errors: about 3 at most where nothing is wrong.

    Where their means are known, the statistics of the draws are control variates: what is left after a regression on
    them varies less than changes do.

    Parameters
    ----------
    before, after : (draws, k) arrays
        Statistics of the draws, and after some iterations from each of them.
    expected : (k,) array, optional
        Their means.
    """
    rest = after - before
    if expected is not None:
        known = before - expected
        coefficients = np.linalg.lstsq(known - known.mean(axis=0), after - after.mean(axis=0))[0]
        rest = after - expected - known @ coefficients
    errors = rest.std(axis=0, ddof=1) / np.sqrt(len(rest))
    # What no iteration changes is left without any variance.
    return float(np.max(np.abs(rest.mean(axis=0)) / np.maximum(errors, 1e-12)))
