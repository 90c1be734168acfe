"""Figures of the study."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from case_studies.latent_operators import results
from case_studies.latent_operators.comparison import GROUP, pooled
from case_studies.latent_operators.study import OPERATORS, OURS
from case_studies.tools import simulation
from case_studies.tools.bars import LEVELS
from case_studies.tools.drawing import bar_legend, draw_bars, draw_spread, hollow_mark
from case_studies.tools.summary import rhat_columns, thousands
from pmgp.plots.style import ACCENT, GRAY, WIDTH, style

__all__ = ["cost", "efficiency", "speed_of_convergence"]

NAMES = {"LRG": "LRG: logistic", "LCX": "LCX: Cox process", "VLT": "VLT: volatility", "ORD": "ORD: ordinal"}
MARKERS = {2: "o", 10: "s"}
COLORS = {2: ACCENT, 10: "#d1495b"}


def efficiency(cells: pd.DataFrame, n: int) -> Figure:
    """Smallest ESS of each operator, ours by both estimates and the article's: a row per d, a column per model."""
    summary, article = pooled(cells).loc[n], results.read("article").set_index(GROUP).sort_index().loc[n]
    figure, grid = _panels(summary)
    for (d, model), axes in grid.items():
        ours = _rows(summary, d, model)
        draw_spread(axes, ours, "ess", offset=-0.22, fmt="o", color=ACCENT, label="ours")
        draw_spread(
            axes, ours, "ess_ar", offset=0.0, fmt="s", color=ACCENT, markerfacecolor="white", label="ours, by AR"
        )
        theirs = _rows(article, d, model)
        draw_spread(axes, theirs, "ess", offset=0.22, fmt="D", color=GRAY, label="article")
        axes.set(xscale="log", xlim=(0.8, 2e4))
    _finish(figure, grid, "smallest ESS")
    return figure


def _rows(summary: pd.DataFrame, d: int, model: str) -> pd.DataFrame:
    """All operators in the article's order; not a number where a cell has not been run."""
    index = pd.MultiIndex.from_product([[d], [model], OPERATORS], names=GROUP[1:])
    return summary.reindex(index).droplevel(["d", "model"])


def speed_of_convergence(cells: pd.DataFrame, n: int) -> Figure:
    """The article's little bars: height and color say how large the median R-hat is at each checkpoint."""
    summary, columns = pooled(cells).loc[n], rhat_columns(cells)
    figure, grid = _panels(summary)
    for (d, model), axes in grid.items():
        for row, values in enumerate(_rows(summary, d, model)[columns].to_numpy()):
            draw_bars(axes, row, values)
        axes.set_xticks(range(len(columns)), [thousands(name) for name in columns], rotation=60)
    _finish(figure, grid, "draws of each chain", bar_legend())
    return figure


def cost(cells: pd.DataFrame, n: int) -> Figure:
    """Smallest ESS per second of sampling, and per O(n^3) operation with the preparation included.

    Hollow where the chains do not agree yet: such an effective sample size says little.
    """
    summary, converged = pooled(cells).loc[n], rhat_columns(cells)[-1]
    models, dimensions = list(simulation.MODELS), summary.index.unique("d")
    with style():
        figure, grid = plt.subplots(2, len(models), figsize=(WIDTH, 5.8), sharey=True, sharex="row")
    for row, name in zip(grid, ("per_second", "per_operation"), strict=True):
        for axes, model in zip(row, models, strict=True):
            for d in dimensions:
                values = _rows(summary, d, model)
                _cost_of_one(axes, values[name], values[converged] < LEVELS[0], d)
            axes.set(xscale="log", xlabel="ESS per second" if name == "per_second" else "ESS per O(n³) operation")
    _label({(row, model): grid[row, column] for row in range(2) for column, model in enumerate(models)})
    keys = [plt.Line2D([], [], marker=MARKERS[d], color=COLORS[d], linestyle="", label=f"d = {d}") for d in dimensions]
    figure.legend(handles=[*keys, hollow_mark()], loc="outside upper center", ncols=3)
    return figure


def _cost_of_one(axes: Axes, values: pd.Series, converged: pd.Series, d: int) -> None:
    heights = np.arange(len(values)) + (-0.12 if d == 2 else 0.12)
    for value, height, full in zip(values, heights, converged, strict=True):
        face = COLORS[d] if full else "white"
        axes.plot(value, height, MARKERS[d], color=COLORS[d], markerfacecolor=face, markersize=5)


def _panels(summary: pd.DataFrame) -> tuple[Figure, dict[tuple[int, str], Axes]]:
    """One panel for each d and model."""
    dimensions = list(summary.index.unique("d"))
    size = (WIDTH, 2.6 * len(dimensions) + 0.6)
    with style():
        figure, grid = plt.subplots(
            len(dimensions), len(simulation.MODELS), figsize=size, sharex=True, sharey=True, squeeze=False
        )
    return figure, {
        (d, model): grid[row, column]
        for row, d in enumerate(dimensions)
        for column, model in enumerate(simulation.MODELS)
    }


def _label(grid: dict[tuple[int, str], Axes]) -> None:
    """Operators down the side, models above the first row."""
    first = next(iter(grid))[0]
    for (row, model), axes in grid.items():
        axes.set_yticks(range(len(OPERATORS)), [f"{name} (ours)" if name == OURS else name for name in OPERATORS])
        axes.set_ylim(len(OPERATORS) - 0.4, -0.6)
        if row == first:
            axes.set_title(NAMES[model])


def _finish(
    figure: Figure, grid: dict[tuple[int, str], Axes], label: str, legend: tuple[list, list[str]] | None = None
) -> None:
    _label(grid)
    for (d, model), axes in grid.items():
        if model == next(iter(simulation.MODELS)):
            axes.set_ylabel(f"d = {d}")
        if d == list(grid)[-1][0]:
            axes.set_xlabel(label)
    handles, labels = legend or next(iter(grid.values())).get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4)
