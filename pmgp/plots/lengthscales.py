"""Posterior of the length-scales beside their prior."""

from __future__ import annotations

from typing import Protocol

import arviz
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from pmgp.plots.names import in_lines, plain
from pmgp.plots.style import ACCENT, GRAY, WIDTH, style

PROBABILITIES = (0.5, 0.9)
"""Probabilities of the thick and the thin central interval."""


class Prior(Protocol):
    """The methods of a frozen distribution of ``scipy.stats`` that the plot uses."""

    def pdf(self, x: np.ndarray) -> np.ndarray:
        """Return the density at x."""

    def ppf(self, q: float) -> float:
        """Return the quantile of the probability q."""

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the ends of the central interval."""


def lengthscale(
    idata: xr.DataTree, prior: Prior | None = None, name: str = "lengthscale", unit: str | None = None
) -> Figure:
    """Plot the posterior of the length-scale as a density, or as an interval for each of several features.

    A short length-scale means that the latent function varies with the feature. If the posterior equals the prior, the
    data do not inform the length-scale.

    Parameters
    ----------
    idata : DataTree
        With group ``posterior``.
    prior : frozen scipy.stats distribution, optional
        Prior of each length-scale, drawn beside the posterior.
    name : str
        Name of the variable.
    unit : str, optional
        Unit of the inputs, for the label: ``"years"``.

    Raises
    ------
    ValueError
        If the posterior has no such variable.

    Examples
    --------
    >>> import arviz as az, numpy as np, pmgp
    >>> rng = np.random.default_rng(1)
    >>> idata = az.from_dict({"posterior": {"lengthscale": rng.gamma(2.0, 1.0, (4, 100))}})
    >>> from scipy.stats import gamma
    >>> figure = pmgp.plots.lengthscale(idata, prior=gamma(2.0))
    """
    posterior = idata["posterior"].to_dataset()
    if name not in posterior:
        raise ValueError(f"the posterior has no variable {name!r}")
    label = "length-scale" if unit is None else f"length-scale ({plain(unit)})"
    with style():
        if posterior[name].ndim == 2:
            return _density(posterior[name], prior, label)
        return _intervals(posterior[name], prior, label)


def _density(draws: xr.DataArray, prior: Prior | None, label: str) -> Figure:
    """Draw the marginal density of one length-scale."""
    figure, axes = plt.subplots(figsize=(WIDTH, 3.6))
    curve = arviz.kde(draws, dim=["chain", "draw"])
    x, density = curve.sel(plot_axis="x").to_numpy(), curve.sel(plot_axis="y").to_numpy()
    axes.fill_between(x, density, color=ACCENT, alpha=0.25)
    axes.plot(x, density, color=ACCENT, label="posterior")
    if prior is not None:
        right = max(x[-1], prior.ppf(0.75))
        grid = np.linspace(0, right, 200)
        axes.plot(grid, prior.pdf(grid), color=GRAY, linestyle="--", label="prior")
    axes.set(xlabel=label, ylabel="density")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend()
    return figure


def _intervals(draws: xr.DataArray, prior: Prior | None, label: str) -> Figure:
    """Draw median and central intervals of every length-scale, shortest on top."""
    others = [dim for dim in draws.dims if dim not in ("chain", "draw")]
    draws = draws.stack(element=others, sample=["chain", "draw"]).transpose("element", "sample")
    draws = draws.isel(element=np.argsort(-draws.median("sample").to_numpy()))
    labels = [in_lines(", ".join(map(str, index)), 40) for index in draws.indexes["element"]]
    rows = np.arange(len(labels))
    figure, axes = plt.subplots(figsize=(WIDTH, 1.2 + 0.34 * len(labels)))
    for probability, width in zip(PROBABILITIES, (5, 1.6), strict=True):
        low, high = _central(draws, probability)
        axes.hlines(rows, low, high, color=ACCENT, linewidth=width, label=f"central {probability:.0%} interval")
    axes.plot(draws.median("sample"), rows, "o", color="white", markeredgecolor=ACCENT, label="median")
    if prior is not None:
        left, right = prior.interval(PROBABILITIES[-1])
        axes.axvspan(left, right, color="0.93", zorder=0, label=f"prior, central {PROBABILITIES[-1]:.0%} interval")
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.set_yticks(rows, labels)
    axes.set(xlabel=f"{label}, logarithmic scale", ylim=(-0.7, rows[-1] + 0.7))
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _central(draws: xr.DataArray, probability: float) -> tuple[np.ndarray, np.ndarray]:
    tail = (1 - probability) / 2
    low, high = draws.quantile([tail, 1 - tail], "sample").to_numpy()
    return low, high
