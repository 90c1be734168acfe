"""Predicted probabilities of ordered categories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from pmgp.plots.calibration import draw_reliability, reliability
from pmgp.plots.names import check_names, in_few_lines, in_lines, name_columns
from pmgp.plots.style import WIDTH, style
from pmgp.scores.validation import categories_and_probabilities

COLUMNS = 3
"""The number of panels in a row."""
BINS = 5
GAP = 0.02
"""Gap between the points of two categories, as a fraction of the plot's width."""
TITLE = 22
"""Letters in a line of a panel's title."""
LEGEND = 16
"""Lines of a legend, for which there is room beside the bars."""
BESIDE = 0.6
"""Width in inches of the vertical axis and its label, and of the gap between bars and legend."""


def categories(y: ArrayLike, probabilities: ArrayLike, classes: Sequence[str]) -> Figure:
    """Plot the probabilities of every point as a divided bar, and a reliability diagram for each cut point.

    Parameters
    ----------
    y : array_like of shape (m,)
        Observed categories 0, ..., r - 1.
    probabilities : array_like of shape (m, r)
        Predicted probabilities of the categories.
    classes : sequence of str
        Names of the r categories, lowest first.

    Raises
    ------
    ValueError
        As in `pmgp.scores.ordinal.summarize`, or if there is not a name for each category.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> rng = np.random.default_rng(1)
    >>> probabilities = rng.dirichlet([1.0, 1.0, 1.0], size=100)
    >>> y = np.array([rng.choice(3, p=row) for row in probabilities])
    >>> figure = pmgp.plots.categories(y, probabilities, classes=["low", "middle", "high"])
    """
    y, probabilities = categories_and_probabilities(y, probabilities)
    classes = check_names(classes, probabilities.shape[1])
    rows = -(-(len(classes) - 1) // COLUMNS)
    with style():
        figure = plt.figure(figsize=(WIDTH, 3.6 + 3.4 * rows))
        grid = figure.add_gridspec(rows + 1, COLUMNS)
        colors = plt.get_cmap("viridis")(np.linspace(0.05, 0.95, len(classes)))
        expected = probabilities @ np.arange(len(classes))
        draw_bars(figure.add_subplot(grid[0, :]), y, probabilities, classes, colors, expected)
        above = 1 - probabilities.cumsum(axis=1)
        for k in range(1, len(classes)):
            axes = figure.add_subplot(grid[1 + (k - 1) // COLUMNS, (k - 1) % COLUMNS])
            draw_reliability(axes, reliability(y >= k, np.clip(above[:, k - 1], 0, 1), BINS))
            event = classes[k] + (" or above" if k < len(classes) - 1 else "")
            axes.set(title=in_lines(event, TITLE), xlabel="predicted probability", ylabel="observed frequency")
    return figure


def draw_bars(
    axes: Axes,
    y: NDArray[np.int64],
    probabilities: NDArray[np.float64],
    classes: Sequence[str],
    colors: NDArray[np.float64],
    rank: NDArray[Any],
    what: str = "category",
) -> None:
    """Draw one bar for each point, grouped by observed category and sorted by rank within it."""
    order = np.lexsort((rank, y))
    groups = np.unique(y)
    gap = max(1.0, GAP * len(y))
    positions = np.arange(len(y)) + gap * np.searchsorted(groups, y[order])
    bottom = np.zeros(len(y))
    for k, name in enumerate(classes):
        heights = probabilities[order, k]
        label = in_few_lines(name, LEGEND // len(classes))
        axes.bar(positions, heights, bottom=bottom, width=1.0, color=colors[k], label=label, linewidth=0)
        bottom += heights
    axes.set(xlim=(-1, positions[-1] + 1), ylim=(0, 1), ylabel="predicted probability", xlabel="observed (points)")
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), title=what, reverse=True)
    centers = np.array([positions[y[order] == group].mean() for group in groups])
    _name_groups(axes, centers, [f"{classes[group]} ({(y == group).sum()})" for group in groups])


def _name_groups(axes: Axes, centers: NDArray[np.float64], names: Sequence[str]) -> None:
    """Write the names of groups below their bars, with the room that the legend and other panels' labels leave."""
    legend = axes.get_legend()
    assert legend is not None
    labels = [label for panel in axes.figure.axes for label in panel.get_yticklabels()]
    taken = legend.get_window_extent().width + max(label.get_window_extent().width for label in labels)
    name_columns(axes, centers, names, 72 * (WIDTH - BESIDE - taken / axes.figure.dpi))
