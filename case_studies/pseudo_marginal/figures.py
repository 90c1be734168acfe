"""Figures of the study."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from case_studies.pseudo_marginal.comparison import beside_article
from case_studies.pseudo_marginal.problems import KERNELS
from case_studies.pseudo_marginal.study import METHODS, OURS, OURS_LAPLACE, THINNING
from case_studies.tools.drawing import draw_spread
from pmgp.plots.style import ACCENT, GRAY, WIDTH, style

__all__ = ["against_article", "estimator", "real_data"]

RED = "#d1495b"
LARGEST_LAG = 40


def estimator(spreads: pd.DataFrame) -> Figure:
    """Figure 2: a row for each n, LA and EP with 1 and 64 importance samples side by side."""
    sizes, draws = spreads["n"].unique(), spreads["draws"].unique()
    places = [(name, count) for name in ("LA", "EP") for count in draws]
    with style():
        figure, grid = plt.subplots(
            len(sizes), len(places), figsize=(WIDTH, 2.6 * len(sizes) + 0.5), sharex=True, sharey="row", squeeze=False
        )
    for line, n in zip(grid, sizes, strict=True):
        for axes, (name, count) in zip(line, places, strict=True):
            chosen = (spreads["n"] == n) & (spreads["approximation"] == name) & (spreads["draws"] == count)
            _draw_spread_of_estimates(axes, spreads[chosen])
        line[0].set_ylabel(f"n = {n}\ndensity of τ")
        # An overestimate by one sample of Laplace's approximation may be far above; the mean is what to see.
        line[0].set_ylim(0.0, 2.0 * spreads.loc[(spreads["n"] == n) & (spreads["draws"] == draws.max()), "mean"].max())
    for axes, (name, count) in zip(grid[0], places, strict=True):
        axes.set_title(f"{name}, $N_{{imp}}$ = {count}")
    for axes in grid[-1]:
        axes.set_xlabel("length-scale τ")
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def _draw_spread_of_estimates(axes: Axes, rows: pd.DataFrame) -> None:
    tau = rows["lengthscale"]
    axes.plot(tau, rows["mean"], color="black", linewidth=1.2, label="mean of the estimates")
    axes.plot(tau, rows["lower"], color="black", linestyle="--", linewidth=0.8, label="2.5 and 97.5 % quantiles")
    axes.plot(tau, rows["upper"], color="black", linestyle="--", linewidth=0.8)
    axes.plot(tau, rows["prior"], color=RED, linewidth=1.2, label="prior")
    axes.set_xscale("log")


def against_article(cells: pd.DataFrame) -> Figure:
    """Table 1: effective sample size and acceptance of each method, ours beside the article's."""
    rows = beside_article(cells, 1)
    problems = list(dict.fromkeys(rows.index.get_level_values("problem")))
    places = [(kernel, what) for kernel in KERNELS for what in ("ess", "acceptance")]
    with style():
        figure, grid = plt.subplots(
            len(problems), 4, figsize=(WIDTH, 2.6 * len(problems) + 0.8), sharex="col", sharey=True, squeeze=False
        )
    for line, problem in zip(grid, problems, strict=True):
        for axes, (kernel, what) in zip(line, places, strict=True):
            index = pd.MultiIndex.from_product([[problem], METHODS["table 1"], [kernel]], names=rows.index.names)
            _draw_methods(axes, rows.reindex(index), what)
        line[0].set_ylabel(problem)
    for top, bottom, (kernel, what) in zip(grid[0], grid[-1], places, strict=True):
        top.set_title(kernel)
        bottom.set_xlabel("smallest ESS of θ" if what == "ess" else "acceptance, %")
    handles = dict(zip(*reversed(grid[0, 0].get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=3)
    return figure


def _draw_methods(axes: Axes, rows: pd.DataFrame, what: str) -> None:
    if what == "ess":
        draw_spread(axes, rows, "ess", -0.2, fmt="o", color=ACCENT, label="ours")
        draw_spread(axes, rows, "ess_ar", 0.0, fmt="s", color=ACCENT, markerfacecolor="white", label="ours, by AR")
        draw_spread(axes, rows, "article_ess", 0.2, fmt="D", color=GRAY, label="article")
        axes.set(xscale="log", xlim=(0.8, 1e4))
    else:
        draw_spread(axes, rows, "acceptance", -0.1, 0.0, fmt="o", color=ACCENT)
        draw_spread(axes, rows, "article_acceptance", 0.2, 0.0, fmt="D", color=GRAY)
        axes.set_xlim(0.0, 70.0)
    names = [f"{name} (ours)" if name in (OURS, OURS_LAPLACE) else name for name in METHODS["table 1"]]
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)


def real_data(traces: pd.DataFrame, convergence: pd.DataFrame, data: str) -> Figure:
    """Figures 3 and 4: trace, autocorrelation of the thinned trace and R-hat, a row for each method."""
    traces, convergence = traces[traces["data"] == data], convergence[convergence["data"] == data]
    methods = [name for name in METHODS["real"] if name in set(traces["method"])]
    with style():
        figure, grid = plt.subplots(
            len(methods), 3, figsize=(WIDTH, 1.6 * len(methods) + 0.6), sharex="col", sharey="col", squeeze=False
        )
    for line, method in zip(grid, methods, strict=True):
        one, other = traces[traces["method"] == method], convergence[convergence["method"] == method]
        line[0].plot(one["draws"], one["log_lengthscale"], color=ACCENT, linewidth=0.7)
        line[0].set_ylabel(f"{method} (ours)\nlog τ" if method == OURS else f"{method}\nlog τ")
        correlations = autocorrelations(one["log_lengthscale"].to_numpy(), LARGEST_LAG)
        line[1].vlines(THINNING * np.arange(LARGEST_LAG + 1), 0.0, correlations, color=ACCENT)
        line[1].axhline(0.0, color=GRAY, linewidth=0.8)
        line[2].plot(other["draws"], other["rhat"], color="black", label="R-hat")
        line[2].plot(other["draws"], other["upper"], color=RED, linestyle="--", label="97.5 % limit")
        line[2].set_ylim(0.95, 3.0)
    headings = {"one chain": "draw", "its autocorrelation": "lag in draws", "R-hat": "draws of each chain"}
    for top, bottom, (title, label) in zip(grid[0], grid[-1], headings.items(), strict=True):
        top.set_title(title)
        bottom.set_xlabel(label)
    grid[0, 2].legend()
    return figure


def autocorrelations(values: np.ndarray, largest: int) -> np.ndarray:
    """Autocorrelations at lags from zero: (largest + 1,); zero for lags beyond the chain, one if it never moved."""
    centered = values - values.mean()
    square = float(centered @ centered)
    if square == 0.0:
        return np.ones(largest + 1)
    lags = range(largest + 1)
    return (
        np.array([centered[lag:] @ centered[: len(values) - lag] if lag < len(values) else 0.0 for lag in lags])
        / square
    )
