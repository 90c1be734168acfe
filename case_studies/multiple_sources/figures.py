"""Figures of the study."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from case_studies.multiple_sources.comparison import pooled
from pmgp import scores
from pmgp.plots.style import ACCENT, GRAY, WIDTH, style

__all__ = ["convergence", "posteriors", "rejects", "simple_mkl"]

COLORS = (ACCENT, "#d1495b", "#c77d0a", "#4f9d69", "#7b5ea7", "#5c5c5c")
DASHES = ("-", "--", ":", "-.")


def rejects(predictions: pd.DataFrame, names: list[str], methods: tuple[str, ...]) -> Figure:
    """Accuracy of the predictions made, against the share of observations left undecided, all folds together.

    Results that have not been computed are left out.
    """
    with style():
        figure, grid = plt.subplots(1, len(names), figsize=(WIDTH, 3.2), sharey=True, squeeze=False)
        for axes, name in zip(grid[0], names, strict=True):
            run = set(predictions.loc[predictions["data"] == name, "method"])
            for color, dashes, method in zip(COLORS, DASHES, methods, strict=False):
                if method not in run:
                    continue
                curve = scores.classes.abstention_curve(*pooled(predictions, name, method))
                axes.step(curve.abstention, curve.score, where="post", color=color, linestyle=dashes, label=method)
            axes.set(title=name, xlabel="left undecided", xlim=(0, 1))
            axes.set_xticks([0.0, 0.5, 1.0], ["0", "0.5", "1"])
        grid[0, 0].set_ylabel("accuracy of the rest")
        grid[0, 0].legend(loc="lower right")
    return figure


def posteriors(weights: pd.DataFrame, name: str) -> Figure:
    """Weights of one data set, a panel per class: medians, halves and nine tenths of the posterior, a mark per fold."""
    chosen = weights[(weights["data"] == name) & (weights["method"] == "weighted")]
    classes, sources = list(dict.fromkeys(chosen["class"])), list(dict.fromkeys(chosen["source"]))
    columns = min(len(classes), 5)
    rows = -(-len(classes) // columns)
    with style():
        size = (WIDTH, rows * (0.9 + 0.32 * len(sources)))
        figure, grid = plt.subplots(rows, columns, figsize=size, sharex=True, sharey=True, squeeze=False)
        for axes, label in zip(grid.ravel(), classes, strict=False):
            _intervals(axes, chosen[chosen["class"] == label], sources)
            axes.set_title(label)
        for axes in grid.ravel()[len(classes) :]:
            axes.set_axis_off()
        for axes in grid[-1]:
            axes.set_xlabel("weight")
    return figure


def _intervals(axes: Axes, lines: pd.DataFrame, sources: list[str]) -> None:
    """One thin and one thick line for each fold, side by side."""
    number = lines["fold"].nunique()
    for _, line in lines.iterrows():
        height = sources.index(line["source"]) + 0.6 * ((line["fold"] + 0.5) / number - 0.5)
        axes.plot([line["q05"], line["q95"]], [height, height], color=ACCENT, linewidth=0.8)
        axes.plot([line["q25"], line["q75"]], [height, height], color=ACCENT, linewidth=2.5)
        axes.plot(line["q50"], height, "o", color="white", markersize=2.5, markeredgecolor=ACCENT)
    axes.set_yticks(range(len(sources)), sources)
    axes.set_ylim(len(sources) - 0.5, -0.5)


def simple_mkl(weights: pd.DataFrame, names: list[str]) -> Figure:
    """SimpleMKL's weights, which all classes share, by fold, for the data on which it was run."""
    names = [name for name in names if name in set(weights.loc[weights["method"] == "SimpleMKL", "data"])]
    with style():
        figure, grid = plt.subplots(1, len(names), figsize=(WIDTH, 3.4), sharey=True, squeeze=False)
        for axes, name in zip(grid[0], names, strict=True):
            chosen = weights[(weights["data"] == name) & (weights["method"] == "SimpleMKL")]
            chosen = chosen.drop_duplicates(["fold", "source"])
            sources = list(dict.fromkeys(chosen["source"]))
            for fold, lines in chosen.groupby("fold"):
                places = [sources.index(source) + 0.2 * (fold - 1.5) for source in lines["source"]]
                axes.bar(places, lines["mean"], width=0.2, color=COLORS[int(fold)], label=f"fold {fold + 1}")
            axes.set_xticks(range(len(sources)), sources, rotation=90 if len(sources) > 2 else 0)
            axes.set(title=name)
        grid[0, 0].set_ylabel("weight")
        grid[0, 0].legend()
    return figure


def convergence(rhat: pd.DataFrame) -> Figure:
    """R-hat of the weights over the iterations after tuning, the largest and the median weight; the article's below."""
    names = list(dict.fromkeys(rhat["data"]))
    of_article = rhat["sampler"].str.startswith("(")
    groups = [lines for lines in (rhat[~of_article], rhat[of_article]) if len(lines)]
    with style():
        size = (WIDTH, 3.2 * len(groups))
        figure, grid = plt.subplots(len(groups), len(names), figsize=size, sharex=True, sharey=True, squeeze=False)
        for row, group in zip(grid, groups, strict=True):
            colors = dict(zip(sorted(set(group["sampler"])), COLORS, strict=False))
            for axes, name in zip(row, names, strict=True):
                _convergence(axes, group[group["data"] == name], colors)
                axes.set_title(name)
            row[0].set_ylabel("|R-hat - 1| of the weights")
            row[-1].legend()
        for axes in grid[-1]:
            axes.set_xlabel("iterations after tuning")
    return figure


def _convergence(axes: Axes, rhat: pd.DataFrame, colors: dict[str, str]) -> None:
    """A solid and a dotted line for each sampler; every one has an entry in the legend."""
    for sampler, color in colors.items():
        lines = rhat[rhat["sampler"] == sampler]
        axes.plot(lines["iterations"], np.abs(lines["largest"] - 1.0), color=color, marker=".", label=sampler)
        axes.plot(lines["iterations"], np.abs(lines["median"] - 1.0), color=color, linestyle=":")
    axes.axhline(0.1, color=GRAY, linewidth=0.8)
    axes.set(xscale="log", yscale="log")
