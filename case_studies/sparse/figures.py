"""Figures of the study, in the order of the article's."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from case_studies.sparse import data
from case_studies.sparse.chains import SLOWEST
from case_studies.sparse.pictures import REACH, SIDE
from pmgp.plots.style import ACCENT, GRAY, WIDTH, style

__all__ = ["classes", "convergence", "image_scores", "maps", "moved", "rates"]

RED, ORANGE = "#d1495b", "#e0a458"
FIRST_YEAR = 1851.2
"""Year of the first disaster."""
COLORS = (ACCENT, RED, ORANGE)
METHODS = {"HMC": ACCENT, "Gibbs": RED, "tempered": ORANGE}
Picture = dict[str, np.ndarray]


def rates(sparse: Picture, exact: Picture) -> Figure:
    """Figure 2: the rate of disasters with bands, and draws of theta."""
    seen = data.coal(0)
    years = seen.X[:, 0] + FIRST_YEAR
    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 3.8), width_ratios=(3, 2))
    left.bar(years, seen.y / seen.width, seen.width, color="0.85", label="seen")
    for picture, color, label in ((exact, RED, "exact"), (sparse, ACCENT, "30 inducing inputs")):
        left.fill_between(years, picture["low"], picture["high"], color=color, alpha=0.2, linewidth=0)
        left.plot(years, picture["mean"], color=color, label=label)
        right.plot(picture["lengthscale"], picture["variance"], ".", color=color, markersize=3, alpha=0.7, label=label)
    left.set(xlabel="year", ylabel="disasters a year", title="rates, mean and 90 % bands", ylim=(0, None))
    right.set(xlabel="length-scale, years", ylabel="variance", title="draws of θ", xscale="log", yscale="log")
    left.legend()
    return figure


def maps(pictures: dict[str, Picture]) -> Figure:
    """Figure 3: trees per square meter, means in the middle row, and the ends of 90 % bands about them."""
    names = ("low", "mean", "high")
    with style():
        figure, grid = plt.subplots(3, len(pictures), figsize=(WIDTH, 9.2), sharex=True, sharey=True)
    highest = max(float(picture["high"].max()) for picture in pictures.values())
    lowest = min(float(np.quantile(picture["low"], 0.01)) for picture in pictures.values())
    norm = LogNorm(lowest, highest)
    for column, (title, picture) in zip(grid.T, pictures.items(), strict=True):
        side = round(np.sqrt(len(picture["mean"])))
        for axes, name in zip(column, names, strict=True):
            values = np.maximum(picture[name].reshape(side, side).T, norm.vmin)
            shown = axes.imshow(values, origin="lower", extent=(0, 10, 0, 10), norm=norm, cmap="viridis")
            axes.grid(False)
        column[0].set_title(title)
        column[-1].set_xlabel("m")
    for axes, label in zip(grid[:, 0], ("5 % quantile", "mean", "95 % quantile"), strict=True):
        axes.set_ylabel(f"{label}\nm")
    figure.colorbar(shown, ax=grid, label="trees in a square meter", shrink=0.6)
    return figure


def classes(picture: Picture) -> Figure:
    """Figure 4: contours of the probabilities of three classes with inducing inputs, and a scatter of v."""
    line = np.linspace(-REACH, REACH, SIDE)
    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 4.8))
    for label, color in enumerate(COLORS):
        points = picture["X"][picture["y"] == label]
        left.plot(*points.T, ".", color=color, markersize=3, alpha=0.5)
        probability = picture["probabilities"][label].reshape(SIDE, SIDE).T
        left.contour(line, line, probability, (0.3, 0.95, 0.99), colors=color, linewidths=(0.8, 1.4, 2.2))
    left.plot(*np.stack([picture["first"], picture["Z"]]).transpose(2, 0, 1), color="black", linewidth=0.6)
    left.plot(*picture["Z"].T, "o", color="black", markersize=4, label="inducing inputs, from k-means")
    place = picture["Z"][int(picture["place"])]
    left.plot(*place, "o", color="black", markerfacecolor="white", markersize=8, label="that of the right")
    left.set(title="probabilities 0.3, 0.95, 0.99", xlabel="first input", ylabel="second input")
    left.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH))
    left.legend(loc="lower left")
    scatter = picture["scatter"]
    for first, second, color in ((0, 1, ACCENT), (0, 2, RED), (1, 2, ORANGE)):
        label = f"classes {first + 1} and {second + 1}"
        right.plot(scatter[:, first], scatter[:, second], ".", color=color, markersize=4, alpha=0.6, label=label)
    right.set(title="draws of v there", xlabel="of one class", ylabel="of the other")
    right.legend()
    return figure


def moved(picture: Picture) -> Figure:
    """Figure 5: inducing inputs among scans of digits, as k-means has them, optimized, and the difference."""
    first, last = picture["first"], picture["Z"]
    with style():
        figure, grid = plt.subplots(3, len(first), figsize=(WIDTH, 7.2), squeeze=False)
    for row, scans, title in zip(
        grid, (first, last, last - first), ("k-means", "optimized", "difference"), strict=True
    ):
        reach = max(float(np.abs(scans).max()), 1.0)
        for axes, scan in zip(row, scans, strict=True):
            axes.imshow(scan.reshape(28, 28), cmap="gray" if title != "difference" else "RdBu", vmin=-reach, vmax=reach)
            axes.set(xticks=[], yticks=[])
        row[0].set_ylabel(title)
    return figure


def image_scores(fits: pd.DataFrame) -> Figure:
    """Figures 1 and 6: held-out log-likelihood against M, a point per split."""
    cells = fits[fits["problem"] == "image"]
    numbers = sorted(set(cells["points"]))
    kernels = sorted(set(cells["kernel"]), reverse=True)
    with style():
        figure, grid = plt.subplots(1, len(kernels), figsize=(0.6 * WIDTH * len(kernels) ** 0.7, 3.8), sharey=True)
    grid = np.atleast_1d(grid)
    for axes, kernel in zip(grid, kernels, strict=True):
        chosen = cells[cells["kernel"] == kernel]
        ways = chosen[["inducing", "method"]].drop_duplicates().itertuples(index=False, name=None)
        for index, (inducing, method) in enumerate(sorted(ways)):
            mine = chosen[(chosen["inducing"] == inducing) & (chosen["method"] == method)]
            color = {"kmeans": ACCENT, "optimized": RED}[inducing]
            marker = "s--" if method == "Gaussian" else "o-"
            shift = 0.03 * (index - 1.5)
            places = np.array([numbers.index(points) + shift for points in mine["points"]])
            axes.plot(places, mine["score"], marker[0], color=color, markersize=4, alpha=0.5)
            means = mine.groupby("points")["score"].mean()
            label = f"{inducing}, {'Gaussian' if method == 'Gaussian' else 'chains'}"
            axes.plot([numbers.index(n) + shift for n in means.index], means, marker[1:], color=color, label=label)
        axes.set_xticks(range(len(numbers)), [str(number) for number in numbers])
        axes.set(title=kernel, xlabel="inducing inputs M")
    grid[0].set_ylabel("held-out log-likelihood of a label")
    figure.legend(*grid[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return figure


def convergence(lines: pd.DataFrame) -> Figure:
    """Figures 7 to 9: R-hat of ten chains, of the variables with the smallest effective sizes."""
    cells = sorted(set(lines[["problem", "kernel"]].itertuples(index=False, name=None)))
    size = min(WIDTH, 2.5 + 3.0 * len(cells))
    highest = max(float(lines[f"rhat_{rank}"].max()) for rank in range(SLOWEST))
    with style():
        figure, grid = plt.subplots(1, len(cells), figsize=(size, 3.6), sharey=True, squeeze=False)
    for axes, (problem, kernel) in zip(grid[0], cells, strict=True):
        for method, color in METHODS.items():
            mask = (lines["problem"] == problem) & (lines["kernel"] == kernel) & (lines["method"] == method)
            _slowest(axes, lines[mask].sort_values("checkpoint"), color)
        axes.axhline(1.1, color=GRAY, linewidth=0.8, linestyle=":")
        axes.set(title=f"{problem}, {kernel}", xlabel="draws", yscale="log")
        axes.set_yticks([1.0, 1.1, 1.3, 2.0, 5.0], ["1", "1.1", "1.3", "2", "5"])
        axes.minorticks_off()
        axes.set_ylim(0.98, 1.05 * max(highest, 1.3))
    grid[0, 0].set_ylabel("R-hat of ten chains")
    drawn = [
        Line2D([], [], color=color, label=method) for method, color in METHODS.items() if method in set(lines["method"])
    ]
    figure.legend(handles=drawn, loc="outside upper center", ncols=len(drawn))
    return figure


def _slowest(axes: Axes, lines: pd.DataFrame, color: str) -> None:
    for rank in range(SLOWEST):
        axes.plot(lines["checkpoint"], lines[f"rhat_{rank}"], color=color, alpha=0.4, linewidth=1)
