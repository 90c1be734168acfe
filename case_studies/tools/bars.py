"""The little bars of the comparative evaluation: speed of convergence at a glance.

One bar per checkpoint, which is higher where R-hat is larger: below 1.1, below 1.3, below 2, and above (section 4.1).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

__all__ = ["BLOCKS", "LEVELS", "bars", "levels"]

LEVELS = (1.1, 1.3, 2.0)
"""Values of R-hat that separate the heights."""

BLOCKS = "▁▃▅█"
"""The bars, from the lowest on."""


def levels(rhats: Iterable[float]) -> np.ndarray:
    """Heights from 0, below 1.1, to 3, at least 2; a value that is not a number counts as not converged."""
    values = np.nan_to_num(np.asarray(list(rhats), dtype=float), nan=np.inf)
    return np.searchsorted(LEVELS, values, side="right")


def bars(rhats: Iterable[float]) -> str:
    """The bars as text, one character per checkpoint; a dash without any R-hat, which a single chain does not have."""
    values = np.asarray(list(rhats), dtype=float)
    return "–" if np.isnan(values).all() else "".join(BLOCKS[level] for level in levels(values))
