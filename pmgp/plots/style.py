"""The look that all figures share: ArviZ's style at a size that is legible in a report."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import arviz  # noqa: F401  registers its styles with matplotlib
import matplotlib
import matplotlib.pyplot as plt
from matplotlib.axis import Axis
from matplotlib.ticker import MaxNLocator

WIDTH = 10.0
"""Width of every figure in inches; pages show it at nine tenths of its size, and letters of ten points at nine."""

ACCENT = "#1b7ea3"
GRAY = "0.45"

_SETTINGS: dict[str, Any] = {
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.labelsize": 11,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "legend.fontsize": 10,
    "legend.title_fontsize": 10,
    "figure.constrained_layout.use": True,
}


def style() -> AbstractContextManager[None]:
    """Return a context in which new figures have the shared look; settings outside it do not change.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, pmgp
    >>> with pmgp.plots.style.style():
    ...     figure, axes = plt.subplots()
    >>> axes.xaxis.label.get_size()
    11.0
    """
    # Both resolve the backend now, its name and its module. If the first figure did that, leaving the context would
    # undo a notebook's interactive mode, and no later figure would be shown.
    matplotlib.get_backend()
    plt.draw_if_interactive()
    return plt.style.context(["arviz-variat", _SETTINGS])


def few_ticks(*chosen: Axis, integer: bool = False) -> None:
    """Give axes so few ticks that long numbers beside them do not overlap."""
    for axis in chosen:
        axis.set_major_locator(MaxNLocator(5, integer=integer))
