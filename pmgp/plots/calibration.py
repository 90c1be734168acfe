"""Calibration, which shows whether events predicted with probability 0.3 happen three times in ten."""

from __future__ import annotations

from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binomtest

from pmgp.plots.names import check_names, in_lines
from pmgp.plots.style import ACCENT, GRAY, WIDTH, style
from pmgp.scores.validation import labels_and_probabilities

CONFIDENCE = 0.9
"""Coverage of the error bars."""
LONG = 24
"""Names with more letters than this have a line of the legend each."""


class Reliability(NamedTuple):
    """Predicted and observed frequencies in the bins of probability that hold points.

    These are vectors of the same length: mean predicted probability, observed frequency of label 1, its Wilson binomial
    interval from ``low`` to ``high``, and the number of points.
    """

    predicted: NDArray[np.float64]
    observed: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    size: NDArray[np.int64]


def reliability(y: ArrayLike, probability: ArrayLike, bins: int = 10) -> Reliability:
    """Compare predicted probabilities with observed frequencies in bins of equal width.

    Empty bins are left out.

    Raises
    ------
    ValueError
        If labels are not 0 and 1, probabilities are outside [0, 1] or NaN, shapes differ, or there is no bin.
    """
    if bins < 1:
        raise ValueError(f"bins must be at least 1, not {bins}")
    y, probability = labels_and_probabilities(y, probability)
    index = np.minimum((probability * bins).astype(int), bins - 1)
    used = np.unique(index)
    size = np.array([np.sum(index == k) for k in used])
    events = np.array([y[index == k].sum() for k in used])
    intervals = [
        binomtest(int(k), int(n)).proportion_ci(CONFIDENCE, method="wilson") for k, n in zip(events, size, strict=True)
    ]
    return Reliability(
        predicted=np.array([probability[index == k].mean() for k in used]),
        observed=events / size,
        low=np.array([interval.low for interval in intervals]),
        high=np.array([interval.high for interval in intervals]),
        size=size,
    )


def calibration(
    y: ArrayLike, probability: ArrayLike, classes: tuple[str, str] = ("class 0", "class 1"), bins: int = 10
) -> Figure:
    """Plot a reliability diagram with binomial error bars above a histogram of the predictions.

    Parameters
    ----------
    y, probability
        See :func:`reliability`.
    classes : tuple of two str
        Names of the classes with labels 0 and 1.
    bins : int
        See :func:`reliability`.

    Raises
    ------
    ValueError
        As in :func:`reliability`, or if there are not two names.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> rng = np.random.default_rng(1)
    >>> probability = rng.uniform(size=200)
    >>> y = (rng.uniform(size=200) < probability).astype(int)
    >>> figure = pmgp.plots.calibration(y, probability, classes=("healthy", "ill"))
    """
    names = check_names(classes, 2)
    y, probability = labels_and_probabilities(y, probability)
    with style():
        figure, (top, bottom) = plt.subplots(2, 1, figsize=(0.65 * WIDTH, 6.6), sharex=True, height_ratios=(3, 1))
        draw_reliability(top, reliability(y, probability, bins))
        # Above the axes, since error bars may occupy any corner within them.
        top.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
        top.set_ylabel(in_lines(f"observed frequency of {classes[1]}", 40))
        edges = np.linspace(0, 1, 2 * bins + 1)
        bottom.hist(
            [probability[y == 0], probability[y == 1]],
            bins=edges.tolist(),
            stacked=True,
            color=["0.75", ACCENT],
            label=[f"observed: {name}" for name in names],
        )
        bottom.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        bottom.set(xlabel=in_lines(f"predicted probability of {classes[1]}", 60), ylabel="test points")
        # Above the axes as well: bars may be high anywhere.
        long = max(map(len, names)) > LONG
        bottom.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=1 if long else 2)
    return figure


def draw_reliability(axes: Axes, table: Reliability) -> None:
    """Draw observed frequencies with their intervals beside the diagonal."""
    axes.plot([0, 1], [0, 1], color=GRAY, linestyle="--", linewidth=1, label="perfect calibration")
    bars = np.abs(np.stack([table.low, table.high]) - table.observed)
    axes.errorbar(
        table.predicted,
        table.observed,
        yerr=bars,
        fmt="o",
        color=ACCENT,
        capsize=3,
        label=f"observed, {CONFIDENCE:.0%} binomial interval",
    )
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
