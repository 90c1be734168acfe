"""How far each method is from the exact chain, and how well the two signs show that."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

__all__ = ["errors", "groups", "rank_correlation", "table"]

KEY = ["posterior", "method"]


def errors(lines: pd.DataFrame, moments: pd.DataFrame) -> pd.DataFrame:
    """Return a line for each cell but the exact ones, with the error of its worst hyper-parameter.

    Parameters
    ----------
    lines, moments : DataFrame
        The tables of cells and of hyper-parameters.

    Returns
    -------
    DataFrame
        The lines, with four columns more. ``mean_error`` is the distance of the means of log theta from the exact
        chain's in its deviations, ``sd_error`` that of the logarithms of the deviations; ``mean_noise`` and
        ``sd_noise`` are their Monte Carlo errors. ``predicted_error`` is the ``mean_error`` that the weights predict,
        in the deviations of the approximation; it is infinite where an approximation has no deviation.
    """
    exact = moments[moments["method"] == "exact"].set_index(["posterior", "parameter"])
    others = moments[moments["method"] != "exact"]
    truth = exact.loc[pd.MultiIndex.from_frame(others[["posterior", "parameter"]])].reset_index()
    own = others.reset_index(drop=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = pd.DataFrame(
            {
                "mean_error": (own["mean"] - truth["mean"]).abs() / truth["sd"],
                "mean_noise": np.hypot(own["mean_error"], truth["mean_error"]) / truth["sd"],
                "sd_error": np.abs(np.log(own["sd"] / truth["sd"])),
                "sd_noise": np.hypot(own["sd_error"] / own["sd"], truth["sd_error"] / truth["sd"]),
                "predicted_error": own["shift"].abs() / own["sd"],
            }
        )
    keyed = pd.concat([own[KEY], each], axis=1)
    found = pd.DataFrame([_worst(group) for _, group in keyed.groupby(KEY, sort=False)])
    return lines[lines["method"] != "exact"].merge(found, on=KEY, how="left")


def _worst(group: pd.DataFrame) -> dict[str, float | str]:
    """Return each error of the hyper-parameter for which it is largest, with its noise."""
    found = {name: group[name].iloc[0] for name in KEY}
    for kind in ("mean", "sd"):
        worst = group.loc[group[f"{kind}_error"].idxmax()]
        found |= {f"{kind}_error": worst[f"{kind}_error"], f"{kind}_noise": worst[f"{kind}_noise"]}
    return found | {"predicted_error": group["predicted_error"].max()}


def rank_correlation(
    found: pd.DataFrame, sign: str, error: str, repeats: int = 2000, seed: int = 1
) -> tuple[float, float, float, int]:
    """Return Spearman's correlation of a sign with an error, 90 % of its bootstrap, and the number of cells.

    Whole posteriors are drawn again, because the approximations of one posterior are not independent.
    """
    rows = found[np.isfinite(found[sign]) & np.isfinite(found[error])]
    by_posterior = [group[[sign, error]].to_numpy() for _, group in rows.groupby("posterior")]
    rng = np.random.default_rng(seed)
    drawn = []
    for _ in range(repeats):
        places = rng.integers(len(by_posterior), size=len(by_posterior))
        drawn.append(spearmanr(np.concatenate([by_posterior[i] for i in places])).statistic)
    low, high = np.nanquantile(drawn, [0.05, 0.95])
    return float(spearmanr(rows[sign], rows[error]).statistic), float(low), float(high), len(rows)


def groups(found: pd.DataFrame, sign: str, edges: Sequence[float], error: str) -> pd.DataFrame:
    """Return, for each interval of a sign, the number of cells and of posteriors, and quantiles of an error."""
    rows = found[np.isfinite(found[error]) & found[sign].notna()]
    intervals = pd.cut(rows[sign], [-np.inf, *edges, np.inf])
    grouped = rows.groupby(intervals, observed=True)
    return pd.DataFrame(
        {
            "cells": grouped.size(),
            "posteriors": grouped["posterior"].nunique(),
            "median": grouped[error].median(),
            "largest": grouped[error].max(),
        }
    )


def table(found: pd.DataFrame, column: str, methods: Sequence[str]) -> pd.DataFrame:
    """Return one column as a table with a line for each posterior and a column for each method."""
    wide = found.pivot_table(index=["kind", "posterior", "n"], columns="method", values=column, sort=False)
    return wide.reindex(columns=[name for name in methods if name in wide]).sort_index()
