"""Figures of the study."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from case_studies.parameterizations.comparison import beside_article, blocks, methods
from case_studies.parameterizations.picture import Picture
from case_studies.parameterizations.study import OURS
from case_studies.tools import simulation
from case_studies.tools.bars import LEVELS
from case_studies.tools.drawing import bar_legend, draw_bars, draw_spread, hollow_mark
from case_studies.tools.summary import rhat_columns, thousands
from pmgp.plots.style import ACCENT, GRAY, WIDTH, style

__all__ = ["cost", "efficiency", "free_to_move", "speed_of_convergence"]

COLORS = {"SA": "#d1495b", "AA": "#c77d0a", "SURR": "#4f9d69"}
GIVEN = {"SA": "SA: given f", "AA": "AA: given ν", "SURR": "SURR: given g, η"}


def free_to_move(picture: Picture) -> Figure:
    """Figure 1 of the pseudo-marginal article: one draw's densities together, and those of many draws apart."""
    with style():
        figure, grid = plt.subplot_mosaic(
            [["all", name] for name in picture.given], figsize=(WIDTH, 4.8), width_ratios=[1.3, 1.0]
        )
    typical = int(np.argmin(np.abs(picture.theta - np.median(picture.theta))))
    for name, densities in picture.given.items():
        grid["all"].plot(picture.grid, densities[typical], color=COLORS[name], label=GIVEN[name])
        _many(grid[name], picture, name)
    grid["all"].plot(picture.grid, picture.marginal, color="black", label="PM: given y alone")
    grid["all"].set(xlabel="log length-scale", ylabel="density", title="Of one draw", xlim=_range(picture))
    grid["all"].legend(loc="upper left")
    last = list(picture.given)[-1]
    grid[last].set_xlabel("log length-scale")
    return figure


def _many(axes: Axes, picture: Picture, name: str) -> None:
    axes.fill_between(picture.grid, picture.marginal / picture.marginal.max(), color="0.85")
    for density in picture.given[name]:
        axes.plot(picture.grid, density / density.max(), color=COLORS[name], linewidth=0.7, alpha=0.8)
    axes.set(title=f"{GIVEN[name]}, of {len(picture.theta)} draws", xlim=_range(picture), yticks=[])
    axes.set_title(axes.get_title(), color=COLORS[name])


def _range(picture: Picture) -> tuple[float, float]:
    """Where the marginal density is not negligible."""
    there = picture.grid[picture.marginal > 1e-3 * picture.marginal.max()]
    return float(there[0]), float(there[-1])


def efficiency(cells: pd.DataFrame, table: int) -> Figure:
    """Smallest ESS of each method, ours by both estimates and the article's: a column for each problem."""
    rows = beside_article(cells, table)
    figure, panels = _panels(rows, table)
    for axes, values in _filled(panels, rows, table):
        draw_spread(axes, values, "ess", -0.22, fmt="o", color=ACCENT, label="ours")
        draw_spread(axes, values, "ess_ar", 0.0, fmt="s", color=ACCENT, markerfacecolor="white", label="ours, by AR")
        draw_spread(axes, values, "article", 0.22, fmt="D", color=GRAY, label="article")
        axes.set(xscale="log", xlim=(0.8, 2.5e4))
    _finish(figure, panels, table, "smallest ESS of θ")
    return figure


def speed_of_convergence(cells: pd.DataFrame, table: int) -> Figure:
    """The article's little bars: height and color say how large the median R-hat is at each checkpoint.

    Problems on which all methods have one chain are left out.
    """
    columns = rhat_columns(cells)
    rows = beside_article(cells, table).dropna(subset=columns, how="all")
    figure, panels = _panels(rows, table)
    for axes, values in _filled(panels, rows, table):
        for row, rhats in enumerate(values[columns].to_numpy()):
            draw_bars(axes, row, rhats)
        axes.set_xticks(range(len(columns)), [thousands(name) for name in columns], rotation=60)
    _finish(figure, panels, table, "draws of each chain", bar_legend())
    return figure


def cost(cells: pd.DataFrame, table: int) -> Figure:
    """Smallest ESS per second of sampling, and per O(n^3) operation; hollow where chains may not agree."""
    rows, last = beside_article(cells, table), rhat_columns(cells)[-1]
    names = blocks(rows)
    labels = {"per_second": "ESS per second", "per_operation": "ESS per O(n³) operation"}
    with style():
        figure, grid = plt.subplots(2, len(names), figsize=(WIDTH, 5.2), sharex="row", sharey=True, squeeze=False)
    for line, (name, label) in zip(grid, labels.items(), strict=True):
        panels = dict(zip([("LRG", one) for one in names], line, strict=True))
        for axes, values in _filled(panels, rows, table):
            _marks(axes, values[name], values[last] < LEVELS[0])
            axes.set(xscale="log", xlabel=label)
        _label(panels, table, titles=name == "per_second")
    figure.legend(handles=[hollow_mark("R-hat ≥ 1.1, or one chain alone")], loc="outside upper center")
    return figure


def _marks(axes: Axes, values: pd.Series, converged: pd.Series) -> None:
    for height, (value, full) in enumerate(zip(values, converged, strict=True)):
        axes.plot(value, height, "o", color=ACCENT, markerfacecolor=ACCENT if full else "white", markersize=6)


def _panels(rows: pd.DataFrame, table: int) -> tuple[Figure, dict[tuple[str, str], Axes]]:
    """One panel for each model and problem."""
    models = [name for name in simulation.MODELS if name in rows.index.get_level_values("model")]
    names = blocks(rows)
    height = 0.34 * len(models) * len(methods(table)) + 0.45 * len(models) + 1.0
    with style():
        figure, grid = plt.subplots(
            len(models), len(names), figsize=(WIDTH, height), sharex=True, sharey=True, squeeze=False
        )
    keys = [(model, name) for model in models for name in names]
    return figure, dict(zip(keys, grid.ravel(), strict=True))


def _filled(panels: dict[tuple[str, str], Axes], rows: pd.DataFrame, table: int) -> Iterator[tuple[Axes, pd.DataFrame]]:
    """Each panel with its rows in the article's order; not a number where a cell has not been run."""
    for (model, name), axes in panels.items():
        index = pd.MultiIndex.from_product([[model], methods(table), [name]], names=rows.index.names)
        yield axes, rows.reindex(index)


def _label(panels: dict[tuple[str, str], Axes], table: int, titles: bool = True) -> None:
    """Methods down the side, problems above the first row."""
    names = [f"{name} (ours)" if name == OURS else name for name in methods(table)]
    first_model, first_block = next(iter(panels))
    for (model, name), axes in panels.items():
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.4, -0.6)
        if titles and model == first_model:
            axes.set_title(name)
        if table == 4 and name == first_block:
            axes.set_ylabel(model)


def _finish(
    figure: Figure,
    panels: dict[tuple[str, str], Axes],
    table: int,
    label: str,
    legend: tuple[Sequence, Sequence[str]] | None = None,
) -> None:
    _label(panels, table)
    last = list(panels)[-1][0]
    for (model, _), axes in panels.items():
        if model == last:
            axes.set_xlabel(label)
    handles, labels = legend or next(iter(panels.values())).get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4)
