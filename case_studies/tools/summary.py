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
        Indexed by `group`: ``ess_mean`` and ``ess_sd`` (and the same of ``ess_ar``) over all chains of all data sets,
        medians over data sets of R-hat at the checkpoints, means of `averaged`, and the number of ``datasets``.
    """
    groups = cells.groupby(list(group), sort=False)
    summary = groups[list(averaged)].mean()
    for name in ("ess", "ess_ar"):
        summary[f"{name}_mean"] = groups.apply(_mean_of_all_chains, name, include_groups=False)
        summary[f"{name}_sd"] = groups.apply(_spread_of_all_chains, name, include_groups=False)
    return summary.join(groups[rhat_columns(cells)].median()).assign(datasets=groups.size())


def _mean_of_all_chains(cells: pd.DataFrame, name: str) -> float:
    return float(np.average(cells[f"{name}_mean"], weights=cells["chains"]))


def _spread_of_all_chains(cells: pd.DataFrame, name: str) -> float:
    """Standard deviation over chains and data sets, from mean and standard deviation in each data set."""
    chains, distances = cells["chains"], cells[f"{name}_mean"] - _mean_of_all_chains(cells, name)
    squares = (chains - 1) * np.square(cells[f"{name}_sd"]) + chains * np.square(distances)
    return float(np.sqrt(squares.sum() / (chains.sum() - 1)))


def printed(rows: pd.DataFrame, name: str) -> list[str]:
    """Mean (standard deviation), as the articles print them; a dash where there is none."""
    pairs = zip(rows[f"{name}_mean"], rows[f"{name}_sd"], strict=True)
    return ["–" if np.isnan(mean) else f"{mean:.0f} ({sd:.0f})" for mean, sd in pairs]
