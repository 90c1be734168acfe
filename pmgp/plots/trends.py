"""An expected observation over time, with the observations and a forecast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from pmgp.plots.names import in_lines, plain
from pmgp.plots.style import ACCENT, GRAY, WIDTH, style

if TYPE_CHECKING:
    import pandas as pd

FORECAST = "#c0392b"
FEW = 400
"""Largest number of observations that are shown as circles rather than points."""


def trend(
    table: pd.DataFrame,
    observations: tuple[ArrayLike, ArrayLike],
    left_out: tuple[ArrayLike, ArrayLike],
    axis: str = "time",
    name: str = "expected observation",
    categories: Sequence[str] = (),
) -> Figure:
    """Plot bands over time, observations, and the forecast in a color of its own.

    Parameters
    ----------
    table : DataFrame
        A row for each time, in any order, with columns ``time``, ``low``, ``median``, ``high`` and ``forecast`` (bool).
        Optional columns are ``count_low`` and ``count_high``, the interval of an observation itself.
    observations : two array_like of shape (n,)
        Times and observed values.
    left_out : two array_like of shape (m,)
        Times and observed values of the points that were kept for testing.
    axis, name : str
        Labels of the axes.
    categories : sequence of str, optional
        Names of ordered categories, whose places 0, 1, ... are the values.

    Raises
    ------
    ValueError
        If the table has no row.

    Examples
    --------
    >>> import numpy as np, pandas as pd, pmgp
    >>> time = np.arange(12.0)
    >>> table = pd.DataFrame({"time": time, "low": 1.0, "median": 2.0, "high": 3.0, "forecast": time > 9.0})
    >>> figure = pmgp.plots.trend(table, (time[:10], np.arange(10) % 4), (time[10:], [2, 1]), axis="week")
    """
    if table.empty:
        raise ValueError("the table of the trend has no rows; it needs at least one time")
    with style():
        figure, axes = plt.subplots(figsize=(WIDTH, 4.4))
        table = table.sort_values("time")
        for rows, forecast, first in _parts(table):
            color, word = (FORECAST, "forecast") if forecast else (ACCENT, "trend")
            if "count_low" in table:
                ends = rows["count_low"], rows["count_high"]
                of_counts = "counts: interval of 90 %" if first and not forecast else None
                axes.fill_between(rows["time"], *ends, color=color, alpha=0.13, linewidth=0, label=of_counts)
            axes.fill_between(rows["time"], rows["low"], rows["high"], color=color, alpha=0.35, linewidth=0)
            label = f"{word}: median, and its interval of 90 %" if first else None
            axes.plot(rows["time"], rows["median"], color=color, label=label)
        many = len(np.asarray(observations[0])) > FEW
        settings: dict[str, Any] = {"color": GRAY, "linestyle": "none", "marker": "o", "zorder": 1}
        axes.plot(*observations, markersize=1.5 if many else 3.5, label="observed", **settings)
        if len(np.asarray(left_out[0])):
            axes.plot(
                *left_out, markersize=3.5, label="observed, kept for testing", **settings | {"markerfacecolor": "white"}
            )
        axes.set(xlabel=in_lines(axis, 80), ylabel=in_lines(name, 45))
        if categories:
            axes.set_yticks(range(len(categories)), list(map(plain, categories)))
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    return figure


def _parts(table: pd.DataFrame) -> Iterator[tuple[pd.DataFrame, bool, bool]]:
    """Yield the rows of each uninterrupted trend and forecast, which it is, and whether it is the first of its kind.

    A forecast begins and ends at the trend's rows beside it, so that there is no gap between them.
    """
    forecast = table["forecast"].to_numpy(dtype=bool)
    ends = [0, *(np.flatnonzero(forecast[1:] != forecast[:-1]) + 1), len(table)]
    seen: set[bool] = set()
    for start, end in pairwise(ends):
        is_forecast = bool(forecast[start])
        beside = int(is_forecast)
        yield table.iloc[max(start - beside, 0) : end + beside], is_forecast, is_forecast not in seen
        seen.add(is_forecast)
