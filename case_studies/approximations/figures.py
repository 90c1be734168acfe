"""One figure: how far the approximations are from the exact chain, and the two signs beside that."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from pmgp.plots.style import ACCENT, GRAY, WIDTH, style

__all__ = ["LOOKS", "errors_and_signs"]

LOOKS: dict[str, dict[str, Any]] = {
    "Laplace": {"color": "#d1495b", "marker": "o"},
    "EP": {"color": ACCENT, "marker": "s"},
    "inducing": {"color": "#e0a458", "marker": "^"},
    "GPflow": {"color": "#66a182", "marker": "D"},
    "mean field": {"color": "#7b4b94", "marker": "v"},
    "NUTS": {"color": "black", "marker": "x"},
}
"""By method."""

SMALLEST = 0.01
"""Errors below it are shown there."""


def errors_and_signs(found: pd.DataFrame) -> Figure:
    """Show the errors of the means of theta by posterior and method, and, by the signs, those of approximations.

    Parameters
    ----------
    found : DataFrame
        From :func:`case_studies.approximations.comparison.errors`.
    """
    with style():
        rows = [["all", name] for name in ("predicted", "k", "spread")]
        figure, panels = plt.subplot_mosaic(rows, figsize=(WIDTH, 7.6), width_ratios=(5, 4))
    _by_posterior(panels["all"], found)
    signed = found[found["method"].isin(["Laplace", "EP"])]
    _by_sign(panels["predicted"], signed, "predicted_error", "mean_error")
    panels["predicted"].axline((SMALLEST, SMALLEST), (1.0, 1.0), color=GRAY, linestyle="--", linewidth=1)
    panels["predicted"].set(xscale="log", xlabel="error that the weights predict", ylabel="error of the worst mean")
    _by_sign(panels["k"], signed, "pareto_k", "mean_error")
    panels["k"].axvline(signed["k_limit"].min(), color=GRAY, linestyle="--")
    panels["k"].set(xlabel="Pareto k of the weights", ylabel="error of the worst mean")
    _by_sign(panels["spread"], signed, "spread", "response_rms")
    panels["spread"].set(xscale="log", xlabel="spread of log-evidence estimates", ylabel="error of predictions")
    handles, labels = panels["all"].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return figure


def _by_posterior(axes: Axes, found: pd.DataFrame) -> None:
    ordered = found[["kind", "posterior", "n"]].drop_duplicates().sort_values(["kind", "n"])
    heights = {name: i for i, name in enumerate(ordered["posterior"])}
    for method, look in LOOKS.items():
        rows = found[(found["method"] == method) & found["mean_error"].notna()]
        if rows.empty:
            continue
        shown = rows["mean_error"].clip(lower=SMALLEST)
        axes.plot(shown, rows["posterior"].map(heights), linestyle="", markersize=5, alpha=0.85, label=method, **look)
    noise = found.loc[found["method"].isin(["Laplace", "EP"]), "mean_noise"].median()
    axes.axvspan(SMALLEST, 2 * noise, color=GRAY, alpha=0.15, linewidth=0)
    labels = [f"{one.posterior}, {one.kind}, {one.n}" for one in ordered.itertuples()]
    axes.set_yticks(list(heights.values()), labels)
    axes.set(xscale="log", xlabel="error of the worst mean of theta\n(deviations of the exact posterior)")
    axes.invert_yaxis()


def _by_sign(axes: Axes, found: pd.DataFrame, sign: str, error: str) -> None:
    for method, look in LOOKS.items():
        rows = found[(found["method"] == method) & np.isfinite(found[sign])]
        at, shown = rows[sign], rows[error].clip(lower=SMALLEST)
        if sign == "predicted_error":
            at = at.clip(lower=SMALLEST)
        axes.plot(at, shown, linestyle="", markersize=5, alpha=0.85, **look)
    axes.set(yscale="log")
    axes.yaxis.set_minor_formatter(NullFormatter())
