"""Figures of the study."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from case_studies.orthants import results
from case_studies.orthants.comparison import IN_TABLES, summarized
from case_studies.orthants.study import COUNTS, ONE_FEATURE, OURS
from pmgp.plots.style import ACCENT, GRAY, WIDTH, style

__all__ = ["bias", "errors_against_seconds", "extinction", "floors"]

LOOK: dict[str, dict[str, Any]] = {
    COUNTS[0]: {"color": "#d1495b", "marker": "o"},
    COUNTS[1]: {"color": "#f0b67f", "marker": "o"},
    ONE_FEATURE: {"color": "#d1495b", "marker": "o", "markerfacecolor": "white", "linestyle": "--"},
    "SMC": {"color": "#8d6b94", "marker": "v"},
    "GHK": {"color": "#4f9d69", "marker": "s"},
    "GHK random": {"color": "#4f9d69", "marker": "s", "markerfacecolor": "white", "linestyle": "--"},
    "Botev": {"color": "#2f6b4f", "marker": "D"},
    OURS: {"color": ACCENT, "marker": "o", "linewidth": 2.4},
    "EP": {"color": "black", "marker": "*", "markersize": 11, "linestyle": ""},
    "EP importance": {"color": "#8fc1d4", "marker": "s"},
    "AIS": {"color": "#b08d57", "marker": "^"},
    "ESS": {"color": GRAY, "marker": "^"},
    "HMC": {"color": GRAY, "marker": "s", "linestyle": "--"},
    "SciPy": {"color": "black", "marker": "x", "linestyle": ":"},
}
# Log of the mean absolute percentage error, and seconds, that the text of the article gives for problem 3.
QUOTED = {"article: new method": (-4.52, 525.0, "P"), "article: ESS": (-4.70, 5350.0, "X")}


def errors_against_seconds(runs: pd.DataFrame, which: int) -> Figure:
    """Figures 1 and 2: errors of probabilities, and of log p(y|theta), against processor seconds of one run."""
    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 4.8))
    for axes, measure in ((left, "probability"), (right, "percent")):
        cells = summarized(runs, measure).loc["linear"].loc[which]
        for name, look in LOOK.items():
            if name in cells.index.get_level_values("method"):
                line = cells.loc[name].sort_index()
                axes.plot(line["seconds"], line["mean"], **({"markersize": 5, "linewidth": 1.4} | look))
        axes.set(xscale="log", yscale="log", xlabel="processor seconds a run")
    if which == 3:
        for log_error, seconds, marker in QUOTED.values():
            right.plot(seconds, np.exp(log_error), marker, color=GRAY, markersize=8)
    left.set(title="probabilities (Figure 1)", ylabel="mean absolute error")
    right.set(title="log p(y|θ) (Figure 2)", ylabel="mean absolute error, percent")
    handles = [plt.Line2D([], [], label=name, **look) for name, look in LOOK.items()]
    if which == 3:
        quoted = {name: marker for name, (_, _, marker) in QUOTED.items()}
        handles += [plt.Line2D([], [], color=GRAY, marker=m, linestyle="", label=name) for name, m in quoted.items()]
    figure.legend(handles=handles, loc="outside upper center", ncols=5)
    return figure


def bias(lines: pd.DataFrame) -> Figure:
    """The mean of estimate / truth of equicorrelated orthants, with two standard errors."""
    sizes = sorted(set(lines["n"]))
    with style():
        figure, grid = plt.subplots(1, len(sizes), figsize=(WIDTH, 3.8), sharey=True)
    for axes, n in zip(np.atleast_1d(grid), sizes, strict=True):
        axes.axhline(1.0, color=GRAY, linewidth=1)
        for name in (*COUNTS, "SMC", OURS):
            line = lines[(lines["n"] == n) & (lines["method"] == name)].sort_values("draws")
            axes.errorbar(line["draws"], line["ratio"], 2.0 * line["error"], capsize=2, **LOOK[name], label=name)
        axes.set(xscale="log", title=f"{n} variables", xlabel="draws or particles M")
        axes.set_xticks(sorted(set(lines["draws"])), [str(draws) for draws in sorted(set(lines["draws"]))])
        axes.minorticks_off()
    np.atleast_1d(grid)[0].set_ylabel("mean of estimate / truth")
    figure.legend(*np.atleast_1d(grid)[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return figure


def extinction(lines: pd.DataFrame) -> Figure:
    """Shares of runs in which no particle is left, and the error of the others, against the variance of f."""
    numbers = sorted(set(lines["draws"]))
    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 3.8))
    for number, shade in zip(numbers, np.linspace(0.35, 1.0, len(numbers)), strict=True):
        for name, mark in zip(COUNTS, ("-", "--"), strict=True):
            line = lines[(lines["draws"] == number) & (lines["method"] == name)].sort_values("variance")
            look = LOOK[name] | {"alpha": shade, "linestyle": mark, "label": f"{name}, M = {number:,}"}
            left.plot(line["variance"], 100.0 * line["extinct"] / line["runs"], **look)
            right.plot(line["variance"], line["median_error"], **look)
    right.axhline(0.0, color=GRAY, linewidth=1)
    left.set(title="no particle left", ylabel="percent of the runs")
    right.set(title="the other runs", ylabel="median error of log p(y|θ), nats")
    for axes in (left, right):
        axes.set(xscale="log", xlabel="variance of f")
        axes.set_xticks(sorted(set(lines["variance"])), [f"{value:g}" for value in sorted(set(lines["variance"]))])
        axes.minorticks_off()
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def floors(runs: pd.DataFrame) -> Figure:
    """Table 1 as a picture: errors that fall as M grows, and the article's that do not."""
    sizes = (50, 200, 500)
    published = results.read("article")
    published = published[published["part"] == "factor"]
    cells = summarized(runs, "percent").loc["factor"]
    with style():
        figure, grid = plt.subplots(1, len(sizes), figsize=(WIDTH, 3.8), sharey=True)
    for axes, n in zip(grid, sizes, strict=True):
        line = published[published["which"] == n].sort_values("draws")
        axes.errorbar(line["draws"], line["mean"], line["error"], color="black", marker="P", capsize=2, label="article")
        expected = line["mean"].iloc[0] * np.sqrt(line["draws"].iloc[0] / line["draws"])
        axes.plot(line["draws"], expected, color=GRAY, linestyle=":", label="as 1/√M from its first")
        for name in IN_TABLES:
            _errors(axes, cells.loc[n].loc[name] if n in cells.index.get_level_values(0) else None, name)
        axes.set(xscale="log", yscale="log", title=f"N = {n}", xlabel="draws or particles M")
    grid[0].set_ylabel("error of log I, percent")
    figure.legend(*grid[0].get_legend_handles_labels(), loc="outside upper center", ncols=5)
    return figure


def _errors(axes: Axes, line: pd.DataFrame | None, name: str) -> None:
    if line is not None:
        line = line.sort_index()
        axes.errorbar(line.index, line["mean"], line["error"], capsize=2, **LOOK[name], label=name)
