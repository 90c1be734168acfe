"""Figures of the study of pine saplings: the posterior of the length-scale, and maps of the intensity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from scipy.stats import gaussian_kde

from case_studies.tools.saplings import SIDE, middles
from pmgp.plots.style import ACCENT, GRAY, WIDTH, style

__all__ = ["intensities", "lengthscales"]

RED, ORANGE = "#d1495b", "#e0a458"
LOOKS: dict[str, dict[str, Any]] = {
    "exact": {"color": ACCENT},
    "Laplace alone": {"color": RED},
    "dense, exact": {"color": GRAY, "linestyle": "--"},
    "225 inducing inputs": {"color": ORANGE},
}
LONGEST = 1.5
"""Meters that the axis shows."""


def lengthscales(panels: Mapping[str, Mapping[str, np.ndarray]]) -> Figure:
    """Show posterior densities of the length-scale: a panel for each grid, a line for each of :data:`LOOKS`."""
    with style():
        figure, row = plt.subplots(1, len(panels), figsize=(WIDTH, 3.6), sharex=True, sharey=True)
    for axes, (title, samples) in zip(row, panels.items(), strict=True):
        _densities(axes, samples)
        axes.set(title=title, xlabel="length-scale (m)", xlim=(0.0, LONGEST), xticks=[0.0, 0.5, 1.0, 1.5])
    row[0].set(ylabel="posterior density", ylim=(0.0, None))
    handles = {label: line for axes in row for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(list(handles.values()), list(handles), loc="outside upper center", ncols=len(handles))
    return figure


def _densities(axes: Axes, samples: Mapping[str, np.ndarray]) -> None:
    grid = np.linspace(0.01, LONGEST, 300)
    for name, sample in samples.items():
        axes.plot(grid, gaussian_kde(sample)(grid), label=name, **LOOKS[name])


def intensities(panels: Mapping[str, np.ndarray], counts: np.ndarray) -> Figure:
    """Show mean intensities on one logarithmic scale, and a dot in each square that has saplings."""
    values = np.concatenate(list(panels.values()))
    lowest = float(np.quantile(values, 0.005))
    norm = LogNorm(lowest, values.max())
    side = round(np.sqrt(len(counts)))
    places = middles(side)[counts > 0]
    with style():
        figure, row = plt.subplots(1, len(panels), figsize=(WIDTH, 3.9), sharex=True, sharey=True)
    for axes, (title, intensity) in zip(row, panels.items(), strict=True):
        image = np.maximum(intensity, lowest).reshape(side, side).T
        shown = axes.imshow(image, origin="lower", extent=(0.0, SIDE, 0.0, SIDE), norm=norm, cmap="viridis")
        axes.plot(*places.T, ".", color="white", markersize=1.5, alpha=0.6)
        axes.set(title=title, xlabel="m")
        axes.grid(False)
    row[0].set(ylabel="m")
    figure.colorbar(shown, ax=row, label="saplings on a square meter", shrink=0.7)
    return figure
