"""Figures of the study: scores over time and depth, treatments of the frequencies, functions, and calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from case_studies.deep.calibration import WAYS
from pmgp.plots.style import ACCENT, GRAY, WIDTH, style

__all__ = ["by_depth", "by_features", "calibrations", "digits", "functions", "progress", "treatments"]

RED, ORANGE, GREEN, PURPLE = "#d1495b", "#e0a458", "#66a182", "#7b4b94"
COLORS = {
    "RBF": ACCENT, "ARC": ORANGE, "prior-fixed": GREEN, "var-resampled": PURPLE, "as in the article": RED,
    "GP": "black", "trees": GRAY,
}  # fmt: skip
TREATMENTS = {"RBF": "var-fixed", "prior-fixed": "prior-fixed", "var-resampled": "var-resampled"}
"""Methods, and names of the treatments of their frequencies."""
DASHES = {1: "-", 2: "--"}
ARTICLE_ON_DIGITS = 0.0196
"""Error of one layer of features with the RBF kernel, on all of MNIST's test digits."""


def progress(curves: pd.DataFrame, lines: pd.DataFrame, methods: Sequence[str] = ("RBF", "ARC")) -> Figure:
    """Show error and negative log density over processor seconds, a column for each data set, with both rivals."""
    names = list(dict.fromkeys(curves["data"]))
    with style():
        figure, grid = plt.subplots(2, len(names), figsize=(WIDTH, 5.2), squeeze=False, sharex="col")
    for column, name in zip(grid.T, names, strict=True):
        chosen = curves[(curves["data"] == name) & curves["method"].isin(methods)]
        for axes, score in zip(column, ("error", "nll"), strict=True):
            _over_time(axes, chosen, score)
            _rivals(axes, lines[lines["data"] == name], score)
        column[0].set_title(name)
        column[1].set_xlabel("seconds")
    grid[0, 0].set_ylabel("error")
    grid[1, 0].set_ylabel("negative log density")
    _legend(figure, grid.ravel())
    return figure


def _over_time(axes: Axes, curves: pd.DataFrame, score: str) -> None:
    for (method, layers), group in curves.groupby(["method", "layers"], sort=False):
        label = f"{method}, {layers} layer{'s' * (layers > 1)}"
        axes.plot(group["seconds"], group[score], DASHES[layers], color=COLORS[method], label=label)


def _rivals(axes: Axes, lines: pd.DataFrame, score: str) -> None:
    for name in ("GP", "trees"):
        for value in lines.loc[lines["method"] == name, score]:
            axes.axhline(value, color=COLORS[name], linewidth=1, linestyle=":", label=name)


def digits(curves: pd.DataFrame) -> Figure:
    """Show error and negative log density of MNIST's test digits over processor minutes, and the article's error."""
    with style():
        figure, panels = plt.subplots(1, 2, figsize=(WIDTH, 2.8))
    scores = {"error": "error", "nll": "negative log density"}
    for axes, (score, label) in zip(panels, scores.items(), strict=True):
        for (layers, features), group in curves.groupby(["layers", "features"]):
            size = f"{layers} layer{'s' * (layers > 1)} of {features:,} features"
            color = ACCENT if features == curves["features"].min() else COLORS["ARC"]
            axes.plot(group["seconds"] / 60, group[score], DASHES[layers], marker=".", color=color, label=size)
        axes.set(xlabel="processor minutes", ylabel=label, xlim=(0, None), ylim=(0, None))
    panels[0].axhline(ARTICLE_ON_DIGITS, color=GRAY, linestyle=":")
    panels[0].annotate("the article", (0, ARTICLE_ON_DIGITS), (3, -3), textcoords="offset points", va="top", color=GRAY)
    _legend(figure, panels)
    return figure


def treatments(curves: pd.DataFrame, panels: Sequence[tuple[str, int]]) -> Figure:
    """Show the objective and the density of validation rows by step, a column for each data set and depth."""
    with style():
        figure, grid = plt.subplots(2, len(panels), figsize=(WIDTH, 5.2), sharex=True, squeeze=False)
    for column, (name, layers) in zip(grid.T, panels, strict=True):
        chosen = curves[(curves["data"] == name) & (curves["layers"] == layers) & (curves["features"] == 100)]
        for method, label in TREATMENTS.items():
            group = chosen[chosen["method"] == method]
            for axes, score in zip(column, ("bound", "heldout"), strict=True):
                axes.plot(group["step"], group[score], color=COLORS[method], label=label)
        column[0].set_title(f"{name}, {layers} layer{'s' * (layers > 1)}")
        column[1].set_xlabel("step")
    grid[0, 0].set_ylabel("objective (nats a row)")
    grid[1, 0].set_ylabel("validation (nats a row)")
    _legend(figure, grid.ravel())
    return figure


def by_features(lines: pd.DataFrame) -> Figure:
    """Show error and negative log density by the number of features, for each treatment of the frequencies."""
    with style():
        figure, row = plt.subplots(1, 2, figsize=(WIDTH, 3.4))
    for axes, score in zip(row, ("error", "nll"), strict=True):
        for method, label in TREATMENTS.items():
            group = lines[lines["method"] == method].sort_values("features")
            axes.plot(group["features"], group[score], "o-", color=COLORS[method], label=label, markersize=4)
        axes.set(xscale="log", xlabel="features")
    row[0].set_ylabel("error rate")
    row[1].set_ylabel("negative log density")
    _legend(figure, row)
    return figure


def by_depth(curves: pd.DataFrame) -> Figure:
    """Show error and negative log density over processor seconds, a line for each number of layers."""
    depths = sorted(map(int, curves["layers"].unique()))
    shades = plt.get_cmap("viridis")(np.linspace(0.0, 0.9, len(depths)))
    with style():
        figure, row = plt.subplots(1, 2, figsize=(WIDTH, 3.4), sharex=True)
    for axes, score in zip(row, ("error", "nll"), strict=True):
        for layers, shade in zip(depths, shades, strict=True):
            group = curves[curves["layers"] == layers]
            axes.plot(group["seconds"], group[score], color=shade, label=f"{layers} layer{'s' * (layers > 1)}")
        axes.set_xlabel("processor seconds")
    row[0].set_ylabel("error rate")
    row[1].set_ylabel("negative log density")
    _legend(figure, row)
    return figure


def functions(panels: Mapping[str, Mapping[str, np.ndarray]], x: np.ndarray, y: np.ndarray, truth: Any) -> Figure:
    """Show draws of f by name of the panel, with the observations and the function behind them."""
    with style():
        figure, row = plt.subplots(1, len(panels), figsize=(WIDTH, 3.4), sharex=True, sharey=True)
    for axes, (title, found) in zip(row, panels.items(), strict=True):
        axes.plot(found["x"], found["f"].T, color=ACCENT, alpha=0.25, linewidth=0.7)
        axes.plot(found["x"], truth, color="black", linewidth=1.2, linestyle="--")
        axes.plot(x, y, ".", color=RED, markersize=4)
        axes.set(title=title, xlabel="x", ylim=(-3, 3))
    row[0].set_ylabel("f")
    return figure


def calibrations(bins: pd.DataFrame) -> Figure:
    """Show observed frequencies by predicted probability: a row for each data set, a column for each way."""
    names = list(dict.fromkeys(bins["data"]))
    with style():
        figure, grid = plt.subplots(
            len(names), len(WAYS), figsize=(WIDTH, 3.1 * len(names)), sharex=True, sharey=True, squeeze=False
        )
    for row, name in zip(grid, names, strict=True):
        for axes, way in zip(row, WAYS, strict=True):
            _reliability(axes, bins[(bins["data"] == name) & (bins["way"] == way)])
            axes.set_title(f"{name}: {way}")
        row[0].set_ylabel("observed frequency")
    for axes in grid[-1]:
        axes.set_xlabel("predicted probability")
    return figure


def _reliability(axes: Axes, table: pd.DataFrame) -> None:
    axes.plot([0, 1], [0, 1], color=GRAY, linestyle="--", linewidth=1)
    bars = np.abs(np.stack([table["low"], table["high"]]) - table["observed"].to_numpy())
    axes.errorbar(table["predicted"], table["observed"], yerr=bars, fmt="o", color=ACCENT, capsize=2, markersize=4)
    axes.text(0.05, 0.9, f"NLL {table['nll'].iloc[0]:.3f}", transform=axes.transAxes)


def _legend(figure: Figure, panels: Sequence[Axes] | np.ndarray) -> None:
    handles = {label: line for axes in panels for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(list(handles.values()), list(handles), loc="outside upper center", ncols=min(4, len(handles)))
