"""Predicted probabilities of classes without an order: bars, confusion matrix, reject curve."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from pmgp import scores
from pmgp.plots.categories import draw_bars
from pmgp.plots.names import LINE, SHORT, check_names, in_few_lines, in_lines, name_columns
from pmgp.plots.style import ACCENT, GRAY, WIDTH, style
from pmgp.scores.validation import categories_and_probabilities

PALETTES = ("tab10", "tab20")
"""Color maps, of which the first with enough colors is used; for more classes, a continuous one is divided."""
FEW = 10
"""The largest number of classes for which the confusion matrix is beside another panel."""
SIDE, CELL = 3.2, 0.3
"""Side in inches of the confusion matrix of few classes, and smallest one of a cell if no panel is beside it."""


def classes(y: ArrayLike, probabilities: ArrayLike, names: Sequence[str]) -> Figure:
    """Plot every point's probabilities as a divided bar, the confusion matrix, and accuracy against undecided points.

    Parameters
    ----------
    y : array_like of shape (m,)
        Observed classes 0, ..., r - 1.
    probabilities : array_like of shape (m, r)
        Predicted probabilities of the classes.
    names : sequence of str
        Names of the r classes.

    Raises
    ------
    ValueError
        As in `pmgp.scores.classes.confusion_matrix`, or if there is not a name for each class.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> rng = np.random.default_rng(1)
    >>> probabilities = rng.dirichlet([1.0, 1.0, 1.0], size=100)
    >>> y = np.array([rng.choice(3, p=row) for row in probabilities])
    >>> figure = pmgp.plots.classes(y, probabilities, names=["cat", "dog", "horse"])
    """
    y, probabilities = categories_and_probabilities(y, probabilities)
    names = check_names(names, probabilities.shape[1])
    counts = scores.classes.confusion_matrix(y, probabilities)
    with style():
        beside = _beside(names)
        figure, bars, matrix, rejects = _layout(len(names), beside)
        # The matrix first: the names of its rows narrow the bars above it.
        _draw_counts(matrix, counts, names, 72 * _cell(len(names), beside))
        own = probabilities[np.arange(len(y)), y]
        draw_bars(bars, y, probabilities, names, _colors(len(names)), own, "class")
        _draw_rejects(rejects, scores.classes.abstention_curve(y, probabilities))
    return figure


def _cell(number: int, beside: bool) -> float:
    """Return the side of a cell of the confusion matrix in inches."""
    return SIDE / number if beside else max(SIDE / number, CELL)


def _beside(names: Sequence[str]) -> bool:
    """Return whether names are so few and short that they leave room for a panel beside the confusion matrix."""
    lines = int(72 * _cell(len(names), True) / LINE)
    return len(names) <= FEW and all(len(in_lines(name, SHORT).splitlines()) <= lines for name in names)


def _layout(number: int, beside: bool) -> tuple[Figure, Axes, Axes, Axes]:
    """Return a figure with axes for bars, matrix and rejects; the last two are side by side, or below each other."""
    if beside:
        mosaic, heights = "bb;mr", [3.6, 4.8]
    else:
        mosaic, heights = "b;m;r", [3.6, 1.2 * number * _cell(number, beside), 3.6]
    figure, axes = plt.subplot_mosaic(mosaic, figsize=(WIDTH, sum(heights)), height_ratios=heights)
    return figure, axes["b"], axes["m"], axes["r"]


def _colors(number: int) -> NDArray[np.float64]:
    """Return colors (r, 4) that distinguish neighbors, as there is no order to show."""
    for name in PALETTES:
        palette = plt.get_cmap(name)
        if number <= palette.N:
            return palette(np.arange(number))
    return plt.get_cmap("hsv")(np.linspace(0, 1, number, endpoint=False))


def _draw_counts(axes: Axes, counts: NDArray[np.int64], names: Sequence[str], cell: float) -> None:
    """Draw the confusion matrix, with cells of so many points; the darkness of one is its share of its row."""
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
    for (row, column), count in np.ndenumerate(counts):
        color = "white" if share[row, column] > 0.6 else "black" if count else GRAY
        axes.text(column, row, str(count), ha="center", va="center", color=color)
    places = np.arange(len(names))
    name_columns(axes, places, names, cell * len(names))
    axes.set_yticks(places, [in_few_lines(name, int(cell / LINE)) for name in names])
    # Its left edge stays where the layout has left room for the names of the rows, however narrow it becomes.
    axes.set_anchor("W")
    axes.tick_params(length=0)
    axes.grid(False)
    axes.set(title="points by class", xlabel="most probable", ylabel="observed")


def _draw_rejects(axes: Axes, curve: scores.AbstentionCurve) -> None:
    """Draw accuracy against the fraction of points that are left undecided."""
    axes.plot(curve.abstention, curve.score, color=ACCENT, marker=".", markersize=4, drawstyle="steps-post")
    axes.set(
        title="accuracy and points left undecided",
        xlabel="fraction left undecided, least certain first",
        ylabel="accuracy of the predictions made",
        xlim=(-0.02, 1.02),
        ylim=(min(0.9, float(curve.score.min())) - 0.02, 1.02),
    )
