"""Observed counts against their predictive distributions."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from pmgp.plots.names import in_lines
from pmgp.plots.style import ACCENT, GRAY, WIDTH, few_ticks, style

CONFIDENCE = 0.9
LARGE = 50
"""An axis may be logarithmic for counts above this one."""
DECADE = 10
"""Counts that differ by a larger factor have logarithmic axes."""
MOST_DIGITS = 4
"""With longer counts there is room for fewer numbers on an axis."""


class CountDistributions(Protocol):
    """The quantities of m predictive distributions that the plot shows."""

    @property
    def mean(self) -> NDArray[np.float64]:
        """The expected counts (m,)."""

    def quantile(self, probability: float) -> NDArray[Any]:
        """Return the smallest counts (m,) whose cumulative probability is at least `probability`."""

    def cumulative(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probabilities (m,) of counts up to and including y (m,)."""


class Interval(NamedTuple):
    """Lower and upper ends at each point, two vectors (m,)."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]


def counts(y: ArrayLike, predicted: CountDistributions, name: str = "count", bins: int = 10) -> Figure:
    """Plot observed counts against predicted means, beside the histogram of the probability integral transform.

    Parameters
    ----------
    y : array_like of shape (m,)
        Observed counts.
    predicted : pmgp.scores.counts.PredictedCounts
        Their predictive distributions, or another object with its ``mean``, ``quantile`` and ``cumulative``.
    name : str
        Name of the count, for labels.
    bins : int
        Number of bins of the histogram.

    Raises
    ------
    ValueError
        If a count or a predicted mean is masked or not finite.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> rng = np.random.default_rng(1)
    >>> predicted = pmgp.scores.counts.PredictedCounts.log_normal(rng.normal(size=50), np.full(50, 0.1))
    >>> y = rng.poisson(predicted.rates[0])
    >>> figure = pmgp.plots.counts(y, predicted)
    """
    y, mean = (np.ma.filled(np.ma.asarray(values, dtype=np.float64), np.nan) for values in (y, predicted.mean))
    if not (np.isfinite(y).all() and np.isfinite(mean).all()):
        raise ValueError("counts and what is predicted of them must be finite; leave out the missing counts")
    tail = (1 - CONFIDENCE) / 2
    interval = Interval(predicted.quantile(tail), predicted.quantile(1 - tail))
    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 4.6), width_ratios=(3, 2))
        draw_observed(left, y, mean, interval, "count")
        everything = np.concatenate([y, mean, *interval])
        _count_axes(left, float(everything.min()), float(everything.max()))
        left.set(xlabel=in_lines(f"predicted mean of {name}", 50), ylabel=in_lines(f"observed {name}", 45))
        transform = predicted.cumulative(y - 1), predicted.cumulative(y)
        draw_transform(right, transform, bins, "probability up to the observed count")
    return figure


def draw_transform(axes: Axes, transform: tuple[ArrayLike, ArrayLike], bins: int, label: str) -> None:
    """Draw the histogram of the probability integral transform, beside the level of 1."""
    axes.bar((np.arange(bins) + 0.5) / bins, transform_histogram(*transform, bins), width=0.94 / bins, color=ACCENT)
    axes.axhline(1, color=GRAY, linestyle="--", linewidth=1)
    axes.set(xlim=(0, 1), xlabel=label, ylabel="density of points")


def transform_histogram(below: ArrayLike, up_to: ArrayLike, bins: int = 10) -> NDArray[np.float64]:
    """Return the heights of the histogram of the probability integral transform of counts, which are 1 on average.

    Each count is spread over the interval between P(Y < y) and P(Y <= y). Apart from chance, the histogram is level if
    the predictive distributions are right (Czado, Gneiting and Held 2009).
    """
    below, up_to = np.asarray(below, dtype=np.float64)[:, None], np.asarray(up_to, dtype=np.float64)[:, None]
    edges = np.linspace(0, 1, bins + 1)
    # A count with predictive probability zero has an interval of length zero.
    width = np.maximum(up_to - below, np.finfo(float).tiny)
    shares: NDArray[np.float64] = np.clip((edges - below) / width, 0.0, 1.0)
    shares[:, -1] = 1.0
    return np.diff(shares, axis=1).mean(axis=0) * bins


def draw_observed(axes: Axes, y: NDArray[Any], mean: NDArray[np.float64], interval: Interval, what: str) -> None:
    """Draw observations against predicted means, with intervals; `what` is an observation, for the legend."""
    low, high = interval
    inside = (low <= y) & (y <= high)
    axes.vlines(mean, low, high, color="0.82", linewidth=3, label=f"{CONFIDENCE:.0%} predictive interval")
    everything = np.concatenate([y, mean, low, high])
    ends = [everything.min(), everything.max()]
    axes.plot(ends, ends, color=GRAY, linestyle="--", linewidth=1, label="observed = mean")
    share = f"{inside.sum()} of {inside.size}"
    axes.plot(mean[inside], y[inside], "o", color=ACCENT, markersize=5, label=f"{what} within its interval ({share})")
    if not inside.all():
        axes.plot(mean[~inside], y[~inside], "x", color="#c0392b", markersize=6, label=f"{what} outside")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)


def _count_axes(axes: Axes, smallest: float, largest: float) -> None:
    """Make the axes logarithmic if counts are large and differ by orders of magnitude, and otherwise linear."""
    if largest <= max(LARGE, DECADE * smallest):
        few_ticks(axes.xaxis, axes.yaxis, integer=True)
    elif smallest >= DECADE:
        axes.set(xscale="log", yscale="log")
    else:
        powers = range(len(str(int(largest))))
        step = 1 + len(powers) // (MOST_DIGITS + 2)
        within = (1, 3) if len(powers) <= MOST_DIGITS else (1,)
        ticks = [0, *[k * 10.0**power for power in powers[::step] for k in within]]
        axes.set_xscale("symlog", linthresh=1)
        axes.set_yscale("symlog", linthresh=1)
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        ends = (-0.2 if smallest < 1 else smallest / 1.3, 1.3 * largest)
        axes.set(xlim=ends, ylim=ends)
