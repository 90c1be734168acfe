"""The study's results in the shape of the article's Table 2, and beside its numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd

from case_studies.latent_operators import results
from case_studies.latent_operators.study import OPERATORS, OURS
from case_studies.tools import simulation, summary
from case_studies.tools.bars import bars
from case_studies.tools.ordering import ordering
from case_studies.tools.summary import printed, rhat_columns

__all__ = ["coverage", "operations", "ordering_table", "orderings", "pooled", "table"]

GROUP = ["n", "d", "model", "operator"]

OPERATION_COLUMNS = [
    f"{phase}_{kind}" for phase in ("preparation", "sampling") for kind in ("cholesky", "inverse", "matmul")
]


def pooled(cells: pd.DataFrame) -> pd.DataFrame:
    """Summaries over data sets.

    Parameters
    ----------
    cells : DataFrame
        As :func:`results.read` gives it.

    Returns
    -------
    DataFrame
        Indexed by n, d, model and operator: ``ess_mean`` and ``ess_sd`` (and the same of ``ess_ar``) over all chains of
        all data sets, medians over data sets of R-hat at the checkpoints, and means of ESS per second of sampling and
        per O(n^3) operation, of acceptance and of evaluations.
    """
    cells = cells.assign(
        per_second=cells["ess_mean"] / cells["seconds"],
        per_operation=cells["ess_mean"] / cells[OPERATION_COLUMNS].sum(axis=1),
    )
    averaged = ["per_second", "per_operation", "acceptance", "evaluations", "seconds"]
    return summary.pooled(cells, GROUP, averaged).sort_index()


def orderings(cells: pd.DataFrame) -> pd.Series:
    """Who converges significantly faster, by the largest R-hat of each data set at the last checkpoint.

    The operators have the article's numbers: 1 MH v1, 2 MH v2, 3 SMMALA, 4 ELL-SS, 5 HMC v1, 6 HMC v2. Indexed by n, d
    and model.
    """
    last, numbers = rhat_columns(cells)[-1], {name: index for index, name in enumerate(OPERATORS, start=1)}
    cells = cells[cells["operator"] != OURS]

    def of_group(group: pd.DataFrame) -> str:
        return ordering(
            {numbers[name]: one[last].dropna().tolist() for name, one in group.groupby("operator", sort=False)}
        )

    return cells.groupby(["n", "d", "model"], sort=False).apply(of_group, include_groups=False)


def table(cells: pd.DataFrame, n: int) -> pd.DataFrame:
    """Table 2 for one n: for each d our ESS by both estimates, the article's, and our R-hat as little bars."""
    pools, article = pooled(cells).loc[n], results.read("article").set_index(GROUP).sort_index().loc[n]
    rhats = rhat_columns(cells)
    blocks = {}
    for d, ours in pools.groupby("d", sort=False):
        rows = ours.droplevel("d")
        theirs = article.loc[d].reindex(rows.index)
        blocks[f"d = {d}"] = pd.DataFrame(
            {
                "ESS": printed(rows, "ess"),
                "ESS (AR)": printed(rows, "ess_ar"),
                "article": printed(theirs, "ess"),
                "R-hat": [bars(values) for values in rows[rhats].to_numpy()],
            },
            index=rows.index,
        )
    return _in_order(pd.concat(blocks, axis=1)).fillna("–")


def _in_order(frame: pd.DataFrame) -> pd.DataFrame:
    present = [(m, o) for m in simulation.MODELS for o in OPERATORS if (m, o) in frame.index]
    return frame.loc[present]


def ordering_table(cells: pd.DataFrame, n: int) -> pd.DataFrame:
    """The last rows of Table 2 for one n, ours and the article's; what the conversion broke is left as it is found."""
    article = results.read("article_ordering").set_index(["n", "d", "model"]).loc[n]
    theirs = article["ordering"].where(article["legible"] == "yes", "(" + article["ordering"] + ")?")
    both = pd.DataFrame({"ours": orderings(cells).loc[n], "article": theirs}).dropna(subset="ours")
    wide = both.unstack("d").swaplevel(axis=1).sort_index(axis=1, level=0, sort_remaining=False)
    return wide.rename(columns=lambda d: f"d = {d}", level=0).reindex([m for m in simulation.MODELS if m in wide.index])


def operations(cells: pd.DataFrame) -> pd.DataFrame:
    """O(n^3) operations before the first draw and for each draw: one number, or the range over models and data sets.

    The columns are the article's: #C Cholesky factorizations, #I inversions, #M products of n x n matrices.
    """
    counts = cells[OPERATION_COLUMNS].copy()
    counts[OPERATION_COLUMNS[3:]] = counts[OPERATION_COLUMNS[3:]].div(cells["draws"], axis=0)
    groups = counts.groupby(cells["operator"], sort=False)
    text = groups.agg(lambda values: f"{values.min():g}" + (f" to {values.max():g}" if np.ptp(values) else ""))
    phases = pd.MultiIndex.from_product([["before", "each draw"], ["#C", "#I", "#M"]])
    return text.set_axis(phases, axis=1).reindex([name for name in OPERATORS if name in text.index])


def coverage(cells: pd.DataFrame) -> pd.DataFrame:
    """Which data sets there are for each n and d, and under which scale."""
    groups = cells.groupby(["n", "d"])
    return pd.DataFrame(
        {
            "data sets": groups["dataset"].nunique(),
            "cells": groups.size(),
            "scale": groups["scale"].agg(lambda names: ", ".join(sorted(set(names)))),
            "chains": groups["chains"].agg(lambda numbers: " or ".join(map(str, sorted(set(numbers))))),
            "draws": groups["draws"].first(),
            "version": groups["version"].agg(lambda names: ", ".join(sorted(set(map(str, names))))),
            "machine": groups["machine"].agg(lambda names: "; ".join(sorted(set(names)))),
        }
    )
