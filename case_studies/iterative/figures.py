"""Figures of the study: iterations by preconditioner, errors over time, and solvers that stop at random."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from scipy.stats import gaussian_kde

from case_studies.iterative.langevin import NAMES
from case_studies.iterative.study import EXPONENTS, PRECONDITIONERS, ROWS
from pmgp.plots.style import ACCENT, GRAY, WIDTH, style

__all__ = ["chains", "conditions", "errors_over_time", "figure_1", "save", "stopped_solvers"]

COLORS = {
    "CHOL": "black", "PCG": ACCENT, "CG": "#d1495b", "find_map": "#7b4b94", "FITC": "#66a182", "PITC": "#e0a458",
    "VAR": GRAY, "GPyTorch": "#8d6a4f",
}  # fmt: skip
SCORES = {"error": "error", "nll": "negative log density"}


def figure_1(table: pd.DataFrame) -> Figure:
    """Iterations by length-scale: a panel for each data set, number of rows and variance of the noise.

    `table`: lines of the study, with the authors' iterations as a column, if they are to be shown.
    """
    panels = [
        (f"{name}, {size:,} rows, noise variance 1e{log_noise}", own)
        for name in ROWS
        for (size, log_noise), own in sorted(table[table["data"] == name].groupby(["n", "log_noise"]), reverse=True)
    ]
    rows, columns = -(-len(panels) // 3), min(len(panels), 3)
    size = (1.8 + 3.4 * columns, 3.1 * rows)
    figure, grid = plt.subplots(rows, columns, figsize=size, squeeze=False, sharey=True, layout="constrained")
    for ax in grid.ravel()[len(panels) :]:
        ax.axis("off")
    for ax, (title, own) in zip(grid.ravel(), panels, strict=False):
        _by_preconditioner(ax, own)
        ax.set(yscale="log", xlabel="log10 length-scale", xticks=EXPONENTS)
        ax.set_title(title, fontsize=9)
    for axes in grid:
        axes[0].set_ylabel("products with K")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", fontsize=8, title="x: the authors'")
    return figure


def _by_preconditioner(ax: Axes, own: pd.DataFrame) -> None:
    colors = plt.get_cmap("tab20")(range(len(PRECONDITIONERS)))
    for name, color in zip(PRECONDITIONERS, colors, strict=True):
        # A line has a gap where a cell has not been run.
        line = own[own["preconditioner"] == name].set_index("log_lengthscale").reindex(EXPONENTS)
        ours = name in ("none", "random pivots")
        ax.plot(line.index, line["iterations"], ".-", color=color, lw=2.5 if ours else 1.2, ms=4, label=name)
        if "authors" in line:
            ax.plot(line.index, line["authors"] + 1.0, "x", color=color, ms=5)


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
    axes.xaxis.set_minor_formatter(NullFormatter())


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


def conditions(table: pd.DataFrame) -> Figure:
    """Show condition numbers under priors, and products with K and errors of four solvers by the condition number."""
    with style():
        figure, (numbers, *others) = plt.subplots(1, 3, figsize=(WIDTH, 3.6))
    draws = table[table["solver"] == "factorization"]
    for (shape, rate), own in draws.groupby(["shape", "rate"]):
        values = np.sort(own["condition"])
        share = np.arange(1, len(values) + 1) / len(values)
        numbers.step(values, share, where="post", label=f"shape {shape:g}, rate {rate:g}")
    numbers.set(xscale="log", xlabel="condition number", ylabel="share of draws")
    numbers.legend(fontsize=7)
    solved = table[table["solver"] != "factorization"]
    markers, labels = ("o", "s", "^", "x"), {"products": "products with K", "error": "relative error"}
    for axes, (name, label) in zip(others, labels.items(), strict=True):
        for marker, (solver, own) in zip(markers, solved.groupby("solver", sort=False), strict=True):
            axes.plot(own["condition"], own[name], marker, markersize=4, fillstyle="none", label=solver)
        axes.set(xscale="log", yscale="log", xlabel="condition number", ylabel=label)
    figure.legend(*others[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return figure


def chains(table: pd.DataFrame) -> Figure:
    """Show densities of hyper-parameters by Langevin dynamics beside those of an exact chain, and chains."""
    methods = list(dict.fromkeys(table["method"]))
    colors = dict(zip(methods, ["black", *plt.get_cmap("tab10")(np.arange(len(methods) - 1))], strict=True))
    with style():
        figure, (above, below) = plt.subplots(2, len(NAMES), figsize=(WIDTH, 5.4))
    for density, trace, name in zip(above, below, NAMES, strict=True):
        grid = np.linspace(*np.log([0.9 * table[name].min(), 1.1 * table[name].max()]), 300)
        for method, own in table.groupby("method", sort=False):
            shown = gaussian_kde(np.log(own[name]))(grid)
            density.plot(np.exp(grid), shown, color=colors[method], label=method)
            for _, chain in own.groupby("chain"):
                trace.plot(chain["draw"], chain[name], color=colors[method], linewidth=0.7)
        density.set(xscale="log", xlabel=name, yticks=[])
        density.xaxis.set_minor_formatter(NullFormatter())
        trace.set(yscale="log", xlabel="iteration", ylabel=name)
    above[0].set_ylabel("density of the log")
    figure.legend(*above[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def save(table: pd.DataFrame, path: Path) -> None:
    """Draw the figure into a file."""
    figure = figure_1(table)
    figure.savefig(path, bbox_inches="tight", dpi=130)
    plt.close(figure)
