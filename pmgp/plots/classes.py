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
from pmgp.plots.names import check_names
from pmgp.plots.style import ACCENT, GRAY, WIDTH, style
from pmgp.scores.validation import categories_and_probabilities

PALETTES = ("tab10", "tab20")
"""Color maps, of which the first with enough colors is used; for more classes, a continuous one is divided."""
FEW, LETTERS = 5, 40
"""The largest number of classes whose names are not rotated, and of the letters for which there is room."""


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
        figure, bars, matrix, rejects = _layout(len(names))
        own = probabilities[np.arange(len(y)), y]
        draw_bars(bars, y, probabilities, names, _colors(len(names)), own, "class")
        bars.tick_params(axis="x", rotation=_turn(names))
        _draw_counts(matrix, counts, names)
        _draw_rejects(rejects, scores.classes.abstention_curve(y, probabilities))
    return figure


def _layout(number: int) -> tuple[Figure, Axes, Axes, Axes]:
    """Return a figure with axes for bars, matrix and rejects; the last two are side by side for few classes."""
    if number <= 2 * FEW:
        mosaic, heights = "bb;mr", [3.6, 4.8]
    else:
        mosaic, heights = "b;m;r", [3.6, 0.36 * number, 3.6]
    figure, axes = plt.subplot_mosaic(mosaic, figsize=(WIDTH, sum(heights)), height_ratios=heights)
    return figure, axes["b"], axes["m"], axes["r"]


def _colors(number: int) -> NDArray[np.float64]:
    """Return colors (r, 4) that distinguish neighbors, as there is no order to show."""
    for name in PALETTES:
        palette = plt.get_cmap(name)
        if number <= palette.N:
            return palette(np.arange(number))
    return plt.get_cmap("hsv")(np.linspace(0, 1, number, endpoint=False))


def _turn(names: Sequence[str]) -> int:
    """Return the angle in degrees by which names are rotated, so that they do not overlap."""
    return 0 if len(names) <= FEW and len(names) * max(map(len, names)) <= LETTERS else 90


def _draw_counts(axes: Axes, counts: NDArray[np.int64], names: Sequence[str]) -> None:
    """Draw the confusion matrix; the darkness of a cell is its share of its row."""
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
    for (row, column), count in np.ndenumerate(counts):
        color = "white" if share[row, column] > 0.6 else "black" if count else GRAY
        axes.text(column, row, str(count), ha="center", va="center", color=color)
    places = np.arange(len(names))
    axes.set_xticks(places, names, rotation=_turn(names))
    axes.set_yticks(places, names)
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
