"""Plots of chains: traces, ranks, autocorrelation, marginal densities, R-hat."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import arviz
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pmgp import diagnostics
from pmgp.plots.names import in_lines, plain
from pmgp.plots.style import GRAY, WIDTH, few_ticks, style

RHAT_LIMIT = 1.01
"""Chains agree well enough if R-hat is below this value (Vehtari et al. 2021)."""

LEAST_EXCESS = 1e-3
"""Values of R-hat - 1 below this one are noise, and are drawn at this height."""

PANEL_HEIGHT = 2.4
COLUMNS = 3
TITLE = 32
"""Letters in a line of a panel's title."""
CONFIDENCE = 0.9
"""Probability of the central intervals of posteriors."""
N_NAMED = 8
"""Number of curves with a color and a name of their own, the length of ArviZ's color cycle."""


def trace(
    idata: xr.DataTree, var_names: Sequence[str] | str | None = None, units: Mapping[str, str] | None = None
) -> Figure:
    """Plot the values of the hyper-parameters against the draw, with one line for each chain.

    Parameters
    ----------
    idata : DataTree
        With group ``posterior``.
    var_names : str or sequence of str, optional
        The hyper-parameters by default; see :func:`pmgp.diagnostics.hyperparameter_names`.
    units : mapping of str to str, optional
        Units of variables by name, such as ``{"lengthscale": "years"}``, for the axes.

    Examples
    --------
    >>> import arviz as az, numpy as np, pmgp
    >>> rng = np.random.default_rng(1)
    >>> idata = az.from_dict({"posterior": {"lengthscale": rng.gamma(2.0, 1.0, (4, 100))}})
    >>> figure = pmgp.plots.trace(idata)
    """
    visuals = {"trace": {"alpha": 0.75, "width": 0.7}}
    figure = _facets(arviz.plot_trace, idata, var_names, visuals=visuals)
    for axes, unit in zip(figure.axes, _units(idata, var_names, units), strict=False):
        axes.set_ylabel(plain(unit))
    return figure


def rank(idata: xr.DataTree, var_names: Sequence[str] | str | None = None) -> Figure:
    """Plot the difference of each chain's rank distribution from uniform, near zero for chains that agree.

    Parameters
    ----------
    idata, var_names
        See :func:`trace`.

    Raises
    ------
    ValueError
        If there is only one chain, as ranks compare several.

    Examples
    --------
    >>> import arviz as az, numpy as np, pmgp
    >>> rng = np.random.default_rng(1)
    >>> idata = az.from_dict({"posterior": {"lengthscale": rng.gamma(2.0, 1.0, (4, 100))}})
    >>> figure = pmgp.plots.rank(idata)
    """
    if idata["posterior"].sizes["chain"] < 2:
        raise ValueError("ranks compare chains, but there is only one")
    visuals = {"remove_axis": False}
    return _facets(arviz.plot_rank, idata, var_names, visuals=visuals, ylabel="Δ ECDF of ranks")


def autocorrelation(idata: xr.DataTree, var_names: Sequence[str] | str | None = None, max_lag: int = 100) -> Figure:
    """Plot the autocorrelation of the hyper-parameters against the lag in draws.

    Parameters
    ----------
    idata, var_names
        See :func:`trace`.
    max_lag : int
        Number of lags shown, at most as many as there are draws.

    Examples
    --------
    >>> import arviz as az, numpy as np, pmgp
    >>> rng = np.random.default_rng(1)
    >>> idata = az.from_dict({"posterior": {"lengthscale": rng.gamma(2.0, 1.0, (4, 100))}})
    >>> figure = pmgp.plots.autocorrelation(idata)
    """
    if max_lag < 1:
        raise ValueError(f"max_lag must be at least 1, not {max_lag}")
    lags = min(max_lag, idata["posterior"].sizes["draw"])
    # ArviZ's band is left out because its width is computed from the lags shown, not from the draws.
    visuals = {"credible_interval": False}
    return _facets(arviz.plot_autocorr, idata, var_names, visuals=visuals, ylabel="autocorrelation", max_lag=lags)


def posterior(
    idata: xr.DataTree, var_names: Sequence[str] | str | None = None, units: Mapping[str, str] | None = None
) -> Figure:
    """Plot marginal posterior densities with their means and central 90 % intervals.

    Parameters
    ----------
    idata, var_names, units
        See :func:`trace`.

    Examples
    --------
    >>> import arviz as az, numpy as np, pmgp
    >>> rng = np.random.default_rng(1)
    >>> idata = az.from_dict({"posterior": {"lengthscale": rng.gamma(2.0, 1.0, (4, 100))}})
    >>> figure = pmgp.plots.posterior(idata)
    """
    figure = _facets(arviz.plot_dist, idata, var_names, legend=False, ci_kind="eti", ci_prob=CONFIDENCE)
    with style():
        look: dict[str, Any] = {"color": GRAY, "marker": "o", "label": f"mean, and central {CONFIDENCE:.0%} interval"}
        figure.legend(handles=[Line2D([], [], **look)], loc="outside upper right")
    for axes, unit in zip(figure.axes, _units(idata, var_names, units), strict=False):
        axes.set_xlabel(plain(unit))
        few_ticks(axes.xaxis)
        for text in axes.texts:
            # ArviZ writes 5.7e11 with all its zeros.
            value, _, word = text.get_text().partition(" ")
            text.set_text(f"{float(f'{float(value):.2g}'):g} {word}")
    return figure


def _facets(
    plot: Callable[..., Any],
    idata: xr.DataTree,
    var_names: Sequence[str] | str | None,
    ylabel: str = "",
    legend: bool = True,
    **options: Any,
) -> Figure:
    """Return one of ArviZ's faceted plots with three panels in a row and labeled axes."""
    names = diagnostics.chosen_names(idata, var_names)
    rows = math.ceil(len(_units(idata, names, None)) / COLUMNS)
    layout = {"figsize": (WIDTH, 0.4 + PANEL_HEIGHT * rows), "figsize_units": "inches", "sharex": False}
    options |= {"var_names": names, "col_wrap": COLUMNS, "figure_kwargs": layout}
    with style(), arviz.rc_context({"plot.max_subplots": None}):
        collection = plot(idata, backend="matplotlib", **options)
        figure: Figure = collection.viz["figure"].item()
        if legend and idata["posterior"].sizes["chain"] > 1:
            collection.add_legend("chain")
    for index, axes in enumerate(figure.axes):
        axes.set_ylabel(ylabel if index % COLUMNS == 0 else "")
        axes.set_title(in_lines(axes.get_title(), TITLE))
    return figure


def _units(idata: xr.DataTree, var_names: Sequence[str] | str | None, units: Mapping[str, str] | None) -> list[str]:
    """Return the unit of every panel, one for each scalar that the variables hold in a draw."""
    names = diagnostics.chosen_names(idata, var_names)
    draw = idata["posterior"].to_dataset().isel(chain=0, draw=0)
    return [(units or {}).get(name, "value") for name in names for _ in range(draw[name].size)]


def rhat(idata: xr.DataTree, var_names: Sequence[str] | str | None = None) -> Figure:
    """Plot R-hat of the first draws against their number, on a logarithmic scale of R-hat - 1.

    Parameters
    ----------
    idata, var_names
        See :func:`trace`. If there are many elements, those with the highest final R-hat are named.

    Raises
    ------
    ValueError
        As in :func:`pmgp.diagnostics.rhat_over_iterations`.

    Examples
    --------
    >>> import arviz as az, numpy as np, pmgp
    >>> rng = np.random.default_rng(1)
    >>> idata = az.from_dict({"posterior": {"lengthscale": rng.gamma(2.0, 1.0, (4, 100))}})
    >>> figure = pmgp.plots.rhat(idata)
    """
    curves = _curves(diagnostics.rhat_over_iterations(idata, var_names))
    draws = curves.pop("draws")
    with style():
        figure, axes = plt.subplots(figsize=(WIDTH, 4))
        for index, (name, values) in enumerate(curves.items()):
            look = {"label": in_lines(name, 40)} if index < N_NAMED else {"color": "0.7", "zorder": 1}
            if index == N_NAMED:
                look["label"] = _others(len(curves) - N_NAMED)
            axes.plot(draws, np.maximum(values - 1, LEAST_EXCESS), linewidth=1.5, **look)
        axes.axhline(RHAT_LIMIT - 1, color=GRAY, linestyle="--", linewidth=1)
        _scale_excess(axes)
        axes.set(xlabel="draws used of each chain", ylabel="R-hat", xlim=(0, draws[-1]))
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), title=f"dashed: {RHAT_LIMIT}")
    return figure


def _others(number: int) -> str:
    return f"{number} other{'' if number == 1 else 's'}, lower at the end"


def _curves(rhats: xr.Dataset) -> dict[str, np.ndarray]:
    """Return the draws, and the curve of every element by its label, in descending order of the final value.

    Constant elements, such as the diagonal of a correlation matrix, have no R-hat and no curve.
    """
    curves = {
        label: values.to_numpy()
        for name, variable in rhats.data_vars.items()
        for label, values in _labeled(str(name), variable)
        if not values.isnull().all()
    }
    highest_first = sorted(curves, key=lambda label: -np.nan_to_num(curves[label][-1], nan=np.inf))
    return {"draws": rhats["draws"].to_numpy()} | {label: curves[label] for label in highest_first}


def _labeled(name: str, variable: xr.DataArray) -> list[tuple[str, xr.DataArray]]:
    """Split a variable into its elements along all dimensions but ``draws``."""
    dims = [dim for dim in variable.dims if dim != "draws"]
    if not dims:
        return [(name, variable)]
    stacked = variable.stack(element=dims)
    labels = [", ".join(map(str, index)) for index in stacked.indexes["element"]]
    return [(f"{name}[{label}]", stacked[:, k]) for k, label in enumerate(labels)]


def _scale_excess(axes: Axes) -> None:
    """Show R-hat - 1 on a logarithmic axis, with ticks labeled with R-hat."""
    top = max(0.1, axes.dataLim.y1)
    axes.set(yscale="log", ylim=(LEAST_EXCESS * 0.9, 1.3 * top))
    ticks = [tick for tick in (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3) if tick <= 1.3 * top]
    axes.set_yticks(ticks, [f"{'≤ ' if tick == LEAST_EXCESS else ''}{1 + tick:g}" for tick in ticks])
    axes.minorticks_off()
