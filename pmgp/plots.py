"""Pictures of a sampled Gaussian process classifier.

ArviZ draws everything it has a plot for; the R-hat over iterations, the length-scales beside their
prior and the calibration diagram are ours. Every function returns a new matplotlib figure and shows
nothing, so that it works without a display.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import arviz
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from pmgp import diagnostics

if TYPE_CHECKING:
    from scipy.stats.distributions import rv_frozen

__all__ = ["autocorrelation", "calibration", "lengthscale", "posterior", "rank", "rhat", "trace"]

LENGTHSCALE_UNIT = "standard deviations of the feature"
RHAT_LIMIT = 1.01
"""Draws are usable below it (Vehtari et al. 2021)."""

WIDTH = 10.0
PANEL_HEIGHT = 2.6
COLUMNS = 3
STYLE: dict[str, Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.labelsize": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 150,
}


@contextmanager
def _style() -> Iterator[None]:
    with plt.style.context(["arviz-variat", STYLE]):
        yield


def trace(idata: xr.DataTree, var_names: Sequence[str] | None = None) -> Figure:
    """Values of the hyper-parameters against the draw, one line a chain.

    Parameters
    ----------
    idata : DataTree
        With group ``posterior``.
    var_names : sequence of str, optional
        By default the hyper-parameters, see :func:`pmgp.diagnostics.hyperparameter_names`.
    """
    visuals = {"trace": {"alpha": 0.75, "width": 0.7}}
    return _arviz_figure(arviz.plot_trace, idata, var_names, visuals, ylabel="value")


def rank(idata: xr.DataTree, var_names: Sequence[str] | None = None) -> Figure:
    """Difference of each chain's rank distribution from uniform; chains that agree stay near zero.

    Parameters
    ----------
    idata, var_names
        As for :func:`trace`.
    """
    visuals = {"remove_axis": False}
    return _arviz_figure(arviz.plot_rank, idata, var_names, visuals, ylabel="Δ ECDF of ranks")


def autocorrelation(
    idata: xr.DataTree, var_names: Sequence[str] | None = None, max_lag: int = 100
) -> Figure:
    """Autocorrelation of the hyper-parameters against the lag in draws.

    Parameters
    ----------
    idata, var_names
        As for :func:`trace`.
    max_lag : int
        Largest lag shown, at most one fewer than there are draws.
    """
    lags = min(max_lag, idata["posterior"].sizes["draw"] - 1)
    # ArviZ computes the width of its band from the lags shown, not from the draws: leave it out.
    visuals = {"credible_interval": False}
    return _arviz_figure(
        arviz.plot_autocorr, idata, var_names, visuals, ylabel="autocorrelation", max_lag=lags
    )


def posterior(idata: xr.DataTree, var_names: Sequence[str] | None = None) -> Figure:
    """Marginal posterior densities with mean and credible interval.

    Parameters
    ----------
    idata, var_names
        As for :func:`trace`.
    """
    return _arviz_figure(arviz.plot_dist, idata, var_names, {}, ylabel="", legend=False)


def _arviz_figure(
    plot: Callable[..., Any],
    idata: xr.DataTree,
    var_names: Sequence[str] | None,
    visuals: dict[str, Any],
    ylabel: str,
    legend: bool = True,
    **options: Any,
) -> Figure:
    """Lay out one of ArviZ's faceted plots and label its axes."""
    names = diagnostics.hyperparameter_names(idata) if var_names is None else list(var_names)
    rows = math.ceil(_n_elements(idata, names) / COLUMNS)
    with _style(), arviz.rc_context({"plot.max_subplots": None}):
        collection = plot(
            idata,
            var_names=names,
            backend="matplotlib",
            visuals=visuals,
            col_wrap=COLUMNS,
            figure_kwargs={"figsize": (WIDTH, 0.3 + PANEL_HEIGHT * rows), "figsize_units": "inches"},
            **options,
        )
        figure: Figure = collection.viz["figure"].item()
        if legend and idata["posterior"].sizes["chain"] > 1:
            collection.add_legend("chain")
    for index, axes in enumerate(figure.axes):
        axes.set_ylabel(ylabel if index % COLUMNS == 0 else "")
    return figure


def _n_elements(idata: xr.DataTree, names: Sequence[str]) -> int:
    """Count the scalars that the variables ``names`` hold in one draw."""
    variables = idata["posterior"].to_dataset()[names].isel(chain=0, draw=0)
    return sum(variable.size for variable in variables.data_vars.values())


def rhat(idata: xr.DataTree, var_names: Sequence[str] | None = None) -> Figure:
    """R-hat of the first draws against their number, on a logarithmic scale of R-hat - 1.

    Parameters
    ----------
    idata, var_names
        As for :func:`trace`.

    Raises
    ------
    ValueError
        As :func:`pmgp.diagnostics.rhat_over_iterations`.
    """
    curves = diagnostics.rhat_over_iterations(idata, var_names)
    with _style():
        figure, axes = plt.subplots(figsize=(WIDTH, 4))
        for name, curve in _elements(curves):
            # Estimates below 1 are noise about 1; clip them to the foot of the axis.
            excess = np.maximum(curve.to_numpy() - 1, 1e-4)
            axes.plot(curves["draws"], 1 + excess, marker=".", label=name)
        axes.axhline(RHAT_LIMIT, color="0.4", linestyle="--", linewidth=1)
        axes.annotate(f"{RHAT_LIMIT}", (1, RHAT_LIMIT), (4, 0), xycoords=("axes fraction", "data"),
                      textcoords="offset points", va="center", color="0.4")
        axes.set(xlabel="draws used of each chain", ylabel="R-hat", title="Convergence of the chains")
        _outside_legend(axes, len(axes.lines) - 1)
    return figure
