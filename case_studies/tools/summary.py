"""Rows of results, summarized over data sets and printed as the articles print them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

__all__ = ["pooled", "printed", "rhat_columns", "thousands"]


def rhat_columns(cells: pd.DataFrame) -> list[str]:
    """Names of the columns with R-hat, in order of the checkpoints."""
    return sorted((name for name in cells if name.startswith("rhat_")), key=lambda name: int(name.split("_")[1]))


def thousands(name: str) -> str:
    """A checkpoint's number of draws from the column's name, short enough for an axis."""
    count = int(name.split("_")[1])
    return f"{count // 1000}k" if count >= 1000 else str(count)


def pooled(cells: pd.DataFrame, group: Sequence[str], averaged: Sequence[str]) -> pd.DataFrame:
    """Summaries over data sets.

    Parameters
    ----------
    cells : DataFrame
        One row per cell.
    group : sequence of str
        Columns that name a cell, but for the data set.
    averaged : sequence of str
        Columns whose mean is taken.

    Returns
    -------
    DataFrame
        Indexed by `group`: ``ess_mean`` and ``ess_sd`` (and the same of ``ess_ar``) over the chains of all data sets,
        medians over data sets of R-hat at the checkpoints, means of `averaged`, and the number of ``datasets``. Each
        data set has the same weight, however many chains it has.
    """
    groups = cells.groupby(list(group), sort=False)
    summary = groups[["ess_mean", "ess_ar_mean", *averaged]].mean()
    for name in ("ess", "ess_ar"):
        summary[f"{name}_sd"] = groups.apply(_spread_of_all_chains, name, include_groups=False)
    return summary.join(groups[rhat_columns(cells)].median()).assign(datasets=groups.size())


def _spread_of_all_chains(cells: pd.DataFrame, name: str) -> float:
    """Standard deviation over chains and data sets, from mean and standard deviation in each data set.

    Chains have weights, of the sum one, that are equal for those of a data set and sum to the same in each; the
    denominator makes the square unbiased for independent values with such weights. One chain alone has none.
    """
    chains, means = cells["chains"], cells[f"{name}_mean"]
    within = (chains - 1) / chains * np.square(cells[f"{name}_sd"].fillna(0.0))
    squares = within + np.square(means - means.mean())
    free = 1.0 - (1.0 / chains).mean() / len(cells)
    return float(np.sqrt(squares.mean() / free)) if free > 0.0 else float("nan")


def printed(rows: pd.DataFrame, name: str) -> list[str]:
    """Mean (standard deviation), as the articles print them; the mean alone of one chain, and a dash of none."""
    pairs = zip(rows[f"{name}_mean"], rows[f"{name}_sd"], strict=True)
    return [_printed(mean, sd) for mean, sd in pairs]


def _printed(mean: float, sd: float) -> str:
    if np.isnan(mean):
        return "–"
    return f"{mean:.0f}" if np.isnan(sd) else f"{mean:.0f} ({sd:.0f})"
