"""Figures of the study."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator

from case_studies.calibrated_classification import comparison, data
from case_studies.calibrated_classification.classifiers import CLASSIFIERS, OURS, REFERENCE
from pmgp.plots.style import ACCENT, GRAY, WIDTH, style

__all__ = ["against_size", "difference", "pooled"]

LOOKS: dict[str, dict[str, Any]] = {
    "SVM": {"color": "#d1495b", "marker": "s"},
    "EP ML": {"color": "#c77d0a", "marker": "^"},
    "MCMC EP": {"color": "#4f9d69", "marker": "D"},
    REFERENCE: {"color": ACCENT, "marker": "o"},
    OURS: {"color": GRAY, "marker": "x", "linestyle": ":"},
}
LABELS = {
    "capacity_accuracy": "capacity accuracy",
    "capacity_auc": "capacity AUC",
    "accuracy": "accuracy",
    "auc": "AUC",
    "log_loss": "log loss (nats)",
    "brier_score": "Brier score",
}
# Apart from each other, as fractions of the number of training points.
SHIFT = 0.06


def against_size(
    cells: pd.DataFrame, shown: Sequence[str] = ("capacity_accuracy", "capacity_auc"), methods: Sequence[str] = ()
) -> Figure:
    """Figures 6 and 7 of the article: scores against the number of training points, with standard errors over splits.

    Parameters
    ----------
    cells : DataFrame
        As :func:`results.read` gives it.
    shown : sequence of str
        Scores, a row of panels each.
    methods : sequence of str
        All, by default.
    """
    figure = _panels(cells, shown, methods or list(CLASSIFIERS), "")
    figure.suptitle("Scores on the test points: mean and standard error over splits")
    return figure


def difference(cells: pd.DataFrame, shown: Sequence[str] = ("capacity_accuracy", "log_loss")) -> Figure:
    """Scores less those of the exact sampler on the same splits, with two standard errors."""
    figure = _panels(cells, shown, [name for name in CLASSIFIERS if name != REFERENCE], "_difference", errors=2.0)
    for axes in figure.axes:
        axes.axhline(0.0, color=LOOKS[REFERENCE]["color"], linewidth=1)
    figure.suptitle(f"Difference to {REFERENCE} on the same splits: mean and two standard errors")
    return figure


def _panels(
    cells: pd.DataFrame, shown: Sequence[str], methods: Sequence[str], suffix: str, errors: float = 1.0
) -> Figure:
    names = [name for name in data.NAMES if name in set(cells["data"])]
    with style():
        figure, grid = plt.subplots(
            len(shown), len(names), figsize=(WIDTH, 2.3 * len(shown) + 1.2), sharex=True, squeeze=False
        )
    for score, line in zip(shown, grid, strict=True):
        for name, axes in zip(names, line, strict=True):
            _draw_sizes(axes, cells[cells["data"] == name], f"{score}{suffix}", methods, errors)
        line[0].set_ylabel(LABELS[score])
    for name, top, bottom in zip(names, grid[0], grid[-1], strict=True):
        top.set_title(name)
        bottom.set_xlabel("training points")
    figure.legend(*_legend(grid[0][0]), loc="outside lower center", ncols=len(methods))
    return figure


def _draw_sizes(axes: Axes, rows: pd.DataFrame, column: str, methods: Sequence[str], errors: float) -> None:
    for place, method in enumerate(methods):
        one = rows[rows["method"] == method].sort_values("n")
        sizes = one["n"] * np.exp(SHIFT * (place - 0.5 * (len(methods) - 1)))
        axes.errorbar(sizes, one[column], yerr=errors * one[f"{column}_se"], label=method, **_thin(LOOKS[method]))
    axes.set_xscale("log")
    axes.set_xticks(data.SIZES, [str(n) for n in data.SIZES])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.tick_params(labelsize=8)


def _thin(look: dict[str, Any]) -> dict[str, Any]:
    return {"markersize": 3.5, "linewidth": 1.0, "elinewidth": 0.8, **look}


def _legend(axes: Axes) -> tuple[list, list[str]]:
    handles, labels = axes.get_legend_handles_labels()
    return handles, [f"{label} (ours)" if label == OURS else label for label in labels]


def pooled(histograms: pd.DataFrame, n: int) -> Figure:
    """Accuracy against the degree of abstention, and calibration, of predictions pooled over splits.

    A column of panels for each data set. In the lower row the area of a mark is proportional to the number of
    predictions.
    """
    names = [name for name in data.NAMES if name in set(histograms.loc[histograms["n"] == n, "data"])]
    with style():
        figure, grid = plt.subplots(2, len(names), figsize=(WIDTH, 5.4), squeeze=False)
    for name, above, below in zip(names, *grid, strict=True):
        for method, counts in _counts(histograms, name, n):
            color = LOOKS[method]["color"]
            above.plot(*comparison.curve(counts), color=color, linewidth=1.2, label=method)
            predicted, observed, size = comparison.reliability(counts)
            below.plot(predicted, observed, color=color, linewidth=1.0)
            below.scatter(predicted, observed, 120.0 * size / size.sum(), color=color)
        below.plot([0, 1], [0, 1], color=GRAY, linestyle="--", linewidth=0.8)
        above.set(title=name, xlabel="degree of abstention", xlim=(-0.02, 1.02), xticks=[0.0, 0.5, 1.0])
        below.set(xlabel="predicted probability", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xticks=[0.0, 0.5, 1.0])
        above.yaxis.set_major_locator(MaxNLocator(4))
        for axes in (above, below):
            axes.tick_params(labelsize=8)
    grid[0][0].set_ylabel("accuracy of the\npredictions made")
    grid[1][0].set_ylabel("observed frequency")
    figure.suptitle(f"{n} training points, predictions pooled over splits")
    figure.legend(*_legend(grid[0][0]), loc="outside lower center", ncols=len(CLASSIFIERS))
    return figure


def _counts(histograms: pd.DataFrame, name: str, n: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the histograms of the article's classifiers; ours has the same posterior as the exact one."""
    for method in CLASSIFIERS:
        if method != OURS:
            yield method, comparison.counts(histograms, name, n, method)
