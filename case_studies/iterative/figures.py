"""Figures of the study: iterations by preconditioner, errors over time, and solvers that stop at random."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from case_studies.iterative.study import PRECONDITIONERS
from pmgp.plots.style import ACCENT, GRAY, WIDTH, style

__all__ = ["errors_over_time", "figure_1", "save", "stopped_solvers"]

COLORS = {
    "CHOL": "black", "PCG": ACCENT, "CG": "#d1495b", "find_map": "#7b4b94", "FITC": "#66a182", "PITC": "#e0a458",
    "VAR": GRAY,
}  # fmt: skip
SCORES = {"error": "error", "nll": "negative log density"}


def figure_1(table: pd.DataFrame) -> Figure:
    """Iterations by length-scale, a panel for each variance of the noise and a line for each preconditioner."""
    noises = sorted(table["log_noise"].unique(), reverse=True)
    figure, axes = plt.subplots(1, len(noises), figsize=(1.5 + 4.5 * len(noises), 4.0), squeeze=False, sharey=True)
    colors = plt.get_cmap("tab10")(np.linspace(0.0, 1.0, len(PRECONDITIONERS)))
    for ax, log_noise in zip(axes[0], noises, strict=True):
        for name, color in zip(PRECONDITIONERS, colors, strict=True):
            own = table[(table["preconditioner"] == name) & (table["log_noise"] == log_noise)]
            ours = name in ("none", "random pivots")
            ax.plot(own["log_lengthscale"], own["iterations"], color=color, lw=2.5 if ours else 1.2, label=name)
            if "authors" in own:
                ax.plot(own["log_lengthscale"], own["authors"] + 1.0, "x", color=color, ms=5)
        ax.set(yscale="log", xlabel="log10 length-scale", title=f"noise variance 1e{log_noise}")
    axes[0, 0].set_ylabel("products with K")
    axes[0, -1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize=8, title="x: the authors'")
    return figure


def errors_over_time(curves: pd.DataFrame, names: Sequence[str], authors: pd.DataFrame) -> Figure:
    """Show both scores over processor seconds, a column for each data set, with the ends of the authors' curves.

    These are short lines at the right, since the authors' seconds are those of another machine and of more rows.
    """
    with style():
        figure, grid = plt.subplots(2, len(names), figsize=(WIDTH, 5.6), squeeze=False, sharex="col")
    for column, name in zip(grid.T, names, strict=True):
        for axes, score in zip(column, SCORES, strict=True):
            _over_time(axes, curves[curves["data"] == name], score)
            for row in authors[authors["data"] == name].itertuples():
                axes.axhline(getattr(row, score), 0.93, 1.0, color=COLORS[row.method], linewidth=2)
        column[0].set_title(name)
        column[1].set_xlabel("processor seconds")
    for axes, label in zip(grid[:, 0], SCORES.values(), strict=True):
        axes.set_ylabel(label)
    handles = {
        label: line for axes in grid.ravel() for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(list(handles.values()), list(handles), loc="outside upper center", ncols=len(handles))
    return figure


def _over_time(axes: Axes, curves: pd.DataFrame, score: str) -> None:
    for (method, fold), group in curves.groupby(["method", "fold"], sort=False):
        # The start has no place on a logarithmic axis, and is the same for all that predict alike.
        later = group[group["seconds"] > 0.0]
        single = len(later) == 1
        axes.plot(later["seconds"], later[score], "o" if single else "-", color=COLORS[method], markersize=5,
                  label=method if fold == 0 else None)  # fmt: skip
    axes.set_xscale("log")


def stopped_solvers(table: pd.DataFrame) -> Figure:
    """Show iterations, and errors of solutions and of gradients, by the condition number, a line for each solver."""
    solvers = list(dict.fromkeys(table["solver"]))
    panels = {
        "iterations": "iterations",
        "error": "relative error of C⁻¹r",
        "gradient_error": "log10 error of the gradient",
    }
    with style():
        figure, row = plt.subplots(1, len(panels), figsize=(WIDTH, 3.6))
    colors = ["black", *plt.get_cmap("tab10")(np.arange(len(solvers) - 1))]
    for axes, (name, label) in zip(row, panels.items(), strict=True):
        for solver, color in zip(solvers, colors, strict=True):
            group = table[table["solver"] == solver].sort_values("condition")
            exact = solver == "CG" and name == "error"
            if not exact:
                axes.plot(group["condition"], group[name], "o-", color=color, markersize=3, linewidth=1, label=solver)
        axes.set(xscale="log", yscale="linear" if name == "gradient_error" else "log", xlabel="condition number")
        axes.set_ylabel(label)
    figure.legend(*row[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def save(table: pd.DataFrame, path: Path) -> None:
    """Draw the figure into a file."""
    figure = figure_1(table)
    figure.savefig(path, bbox_inches="tight", dpi=130)
    plt.close(figure)
