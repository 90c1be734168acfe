"""Elements of figures with a row for each method: effective sizes with their spread, R-hat as little bars."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from case_studies.tools.bars import levels
from pmgp.plots.style import GRAY

__all__ = ["bar_legend", "draw_bars", "draw_spread", "hollow_mark"]

BAR_COLORS = ("#1b7ea3", "#8fc1d4", "#f0b67f", "#d1495b")
BAR_LABELS = ("< 1.1", "1.1 to 1.3", "1.3 to 2", "≥ 2")


def draw_spread(
    axes: Axes, rows: pd.DataFrame, name: str, offset: float, smallest: float = 0.8, **look: object
) -> None:
    """Means and standard deviations, one per row; bars that would reach below `smallest` are cut off there."""
    mean, sd = rows[f"{name}_mean"], rows[f"{name}_sd"]
    lower = np.minimum(sd, np.maximum(mean - smallest, 0.0))
    heights = np.arange(len(rows)) + offset
    axes.errorbar(mean, heights, xerr=[lower, sd], markersize=4, linewidth=1, elinewidth=0.8, **look)


def draw_bars(axes: Axes, row: int, rhats: np.ndarray) -> None:
    """The article's bars, one per checkpoint; nothing where a cell has not been run."""
    if np.isnan(rhats).any():
        return
    for column, level in enumerate(levels(rhats)):
        axes.bar(column, -0.2 * (level + 1), width=0.8, bottom=row + 0.4, color=BAR_COLORS[level])


def bar_legend() -> tuple[list[plt.Rectangle], list[str]]:
    """Handles and labels of the bars' colors."""
    handles = [plt.Rectangle((0, 0), 1, 1, color=color) for color in BAR_COLORS]
    return handles, [f"R-hat {label}" for label in BAR_LABELS]


def hollow_mark(label: str = "R-hat ≥ 1.1") -> plt.Line2D:
    """The legend's entry for chains that have not converged."""
    return plt.Line2D([], [], marker="o", color=GRAY, linestyle="", markerfacecolor="white", label=label)
