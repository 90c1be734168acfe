"""Figures of the study."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from case_studies.annealing import paths
from case_studies.annealing.comparison import beside_article
from case_studies.annealing.problems import KERNELS, REAL
from case_studies.annealing.study import SPREADS
from case_studies.tools.drawing import draw_spread
from pmgp.core.gaussians import SiteApproximation
from pmgp.plots.style import ACCENT, GRAY, WIDTH, style

__all__ = ["acceptance", "annealing_paths", "spread_of_estimates"]

PARTICLES = ("#d1495b", "#c77d0a", "#4f9d69")
AXIS = np.linspace(-10.0, 12.0, 150)
# Parts of the highest density at which contours are drawn.
LEVELS = np.array([0.05, 0.2, 0.5, 0.8])
BOXES = {
    ("Laplace", "IS"): "#8fc1d4",
    ("prior", "AIS"): "0.75",
    ("Laplace", "AIS"): ACCENT,
    ("EP", "IS"): "#f0b67f",
    ("EP", "AIS"): "#d1495b",
}


def annealing_paths(rng: np.random.Generator) -> Figure:
    """Figure 1: densities from the prior (above) and Laplace's q (below) to the posterior, with three particles."""
    example = paths.example()
    references: dict[str, paths.Reference] = {
        "from the prior": example.prior,
        "from Laplace's q": example.approximation,
    }
    columns = len(paths.BETAS) + 1
    with style():
        figure, grid = plt.subplots(2, columns, figsize=(WIDTH, 3.6), sharex=True, sharey=True)
    for line, (name, reference) in zip(grid, references.items(), strict=True):
        _ingredients(line[0], example, reference)
        _stages(line[1:], example, reference, rng)
        line[0].set_ylabel(f"{name}\n$f_2$")
    for axes, beta in zip(grid[0, 1:], paths.BETAS, strict=True):
        axes.set_title(f"β = {beta:.2g}")
    for axes in grid.ravel():
        axes.set(aspect="equal", xticks=(-5, 0, 5, 10), yticks=(-5, 0, 5, 10))
    for axes in grid[1]:
        axes.set_xlabel("$f_1$")
    handles = [
        plt.Line2D([], [], color=GRAY, label="prior"),
        plt.Line2D([], [], color="black", label="posterior, and densities between"),
        plt.Line2D([], [], color="#d1495b", linestyle="--", label="Laplace's q"),
        plt.Line2D([], [], color=PARTICLES[1], marker="o", markersize=4, label="a particle's last move"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=4)
    return figure


def _contours(axes: Axes, example: paths.Example, reference: paths.Reference, beta: float, **look: Any) -> None:
    f = np.stack(np.meshgrid(AXIS, AXIS), axis=-1)
    values = paths.log_density(example, reference, beta, f)
    axes.contour(AXIS, AXIS, np.exp(values - values.max()), LEVELS, **{"linewidths": 0.8, **look})


def _ingredients(axes: Axes, example: paths.Example, reference: paths.Reference) -> None:
    """Prior, posterior and, in the second row, Laplace's q."""
    _contours(axes, example, example.prior, 0.0, colors=[GRAY])
    _contours(axes, example, example.prior, 1.0, colors=["black"])
    if isinstance(reference, SiteApproximation):
        _contours(axes, example, reference, 0.0, colors=["#d1495b"], linestyles=["--"], linewidths=1.3)


def _stages(line: np.ndarray, example: paths.Example, reference: paths.Reference, rng: np.random.Generator) -> None:
    """Each density with the particles that have just moved at it; at the last one they stay where they are weighted."""
    stops = paths.anneal(rng, reference, example.likelihood, paths.BETAS, len(PARTICLES)).particles
    before, after = [stops[0], *stops], [*stops, stops[-1]]
    for axes, beta, start, end in zip(line, paths.BETAS, before, after, strict=False):
        _contours(axes, example, reference, beta, colors=["black"])
        for color, one, other in zip(PARTICLES, start, end, strict=True):
            axes.plot(*np.stack([one, other]).T, color=color, linewidth=1.2)
            axes.plot(*other, "o", color=color, markersize=4)


def spread_of_estimates(blocks: pd.DataFrame) -> Figure:
    """Figure 2: r of each method, a box for each n over the posterior draws of theta."""
    sizes = sorted(set(blocks["n"]))
    with style():
        figure, axes = plt.subplots(figsize=(WIDTH, 4.4))
    for place, (start, estimator) in enumerate(SPREADS):
        rows = blocks[(blocks["start"] == start) & (blocks["estimator"] == estimator)]
        values = [rows.loc[rows["n"] == n, "r"].to_numpy() for n in sizes]
        there = [index for index, value in enumerate(values) if value.size]
        axes.boxplot(
            [values[index] for index in there],
            positions=[index + 0.16 * (place - 2) for index in there],
            widths=0.13,
            patch_artist=True,
            boxprops={"facecolor": BOXES[start, estimator], "linewidth": 0.6},
            medianprops={"color": "black"},
            flierprops={"markersize": 2.5},
        )
    axes.set_xticks(range(len(sizes)), [str(n) for n in sizes])
    axes.set(yscale="log", xlabel="n", ylabel="r: sd of log₁₀ of the estimate of p(y|θ)")
    figure.legend(handles=_box_handles(), loc="outside upper center", ncols=5)
    return figure


def _box_handles() -> list[plt.Rectangle]:
    labels = {
        ("Laplace", "IS"): "IS from Laplace's q",
        ("prior", "AIS"): "AIS from the prior",
        ("Laplace", "AIS"): "AIS from Laplace's q",
        ("EP", "IS"): "IS from EP's q (ours)",
        ("EP", "AIS"): "AIS from EP's q (ours)",
    }
    return [plt.Rectangle((0, 0), 1, 1, facecolor=color, label=labels[key]) for key, color in BOXES.items()]


def acceptance(chains: pd.DataFrame) -> Figure:
    """Table I as a picture: our acceptance rates and the article's, a panel for each kernel and data set."""
    rows = beside_article(chains)
    names = list(REAL)
    methods = [(draws, method) for draws in (1, 10) for method in ("IS", "AIS")]
    with style():
        figure, grid = plt.subplots(
            len(KERNELS), len(names), figsize=(WIDTH, 4.2), sharex=True, sharey=True, squeeze=False
        )
    for kernel, line in zip(KERNELS, grid, strict=True):
        for name, axes in zip(names, line, strict=True):
            index = pd.MultiIndex.from_tuples(
                [(kernel, draws, name, method) for draws, method in methods], names=rows.index.names
            )
            values = rows.reindex(index)
            draw_spread(axes, values.fillna({"acceptance_sd": 0.0}), "acceptance", -0.13, 0.0, fmt="o", color=ACCENT)
            draw_spread(axes, values, "article", 0.13, 0.0, fmt="D", color=GRAY)
            axes.axvline(values["preliminary"].mean(), color=ACCENT, linestyle=":", linewidth=1.0)
        line[0].set_ylabel(kernel)
    for name, axes in zip(names, grid[0], strict=True):
        axes.set_title(name)
    grid[0, 0].set_yticks(range(len(methods)), [f"{method}, {draws}" for draws, method in methods])
    grid[0, 0].set(ylim=(len(methods) - 0.5, -0.5))
    grid[0, 0].set_xlim(left=-1.0)
    for axes in grid[-1]:
        axes.set_xlabel("acceptance, %")
    handles = [
        plt.Line2D([], [], color=ACCENT, marker="o", linestyle="", label="ours"),
        plt.Line2D([], [], color=GRAY, marker="D", linestyle="", label="article"),
        plt.Line2D([], [], color=ACCENT, linestyle=":", label="ours with Laplace's evidence (preliminary run)"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3)
    return figure
