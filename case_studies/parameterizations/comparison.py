"""The study's results in the shape of the article's Tables 3 to 6, and beside its numbers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from case_studies.parameterizations import results, study
from case_studies.parameterizations.problems import REAL
from case_studies.parameterizations.study import OPERATORS, OURS, SCHEMES, SIMULATED, Cell, Scale
from case_studies.tools import simulation, summary
from case_studies.tools.bars import bars
from case_studies.tools.ordering import ordering
from case_studies.tools.rows import COUNTS
from case_studies.tools.summary import printed, rhat_columns

__all__ = [
    "as_in_article", "available", "beside_article", "blocks", "coverage", "methods", "of_article", "operations",
    "ordering_table", "orderings", "pooled", "proposals", "table",
]  # fmt: skip

GROUP = ["table", "data", "n", "d", "model", "method", "proposal"]

DASH = "–"


def available(cells: pd.DataFrame) -> list[int]:
    """Numbers of the article's tables that there are cells of."""
    return sorted(set(cells["table"]))


def methods(table: int) -> list[str]:
    """Rows of one of the article's tables, and ours after them."""
    return list(OPERATORS) if table in (3, 4) else list(SCHEMES)


def block(data: str, n: int, d: int) -> str:
    """Heading of the columns of one problem."""
    return f"n = {n}, d = {d}" if data == SIMULATED else data


def blocks(frame: pd.DataFrame) -> list[str]:
    """The headings that there are, in the article's order."""
    names = [block(SIMULATED, n, d) for n in (100, 400) for d in (2, 10)] + list(REAL)
    return [name for name in names if name in set(frame.index.get_level_values("block"))]


def as_in_article(cells: pd.DataFrame) -> pd.DataFrame:
    """Without proposals that learn a covariance, which the article does not have."""
    return cells[cells["proposal"] != "learned"]


def pooled(cells: pd.DataFrame, table: int) -> pd.DataFrame:
    """One of the tables, summarized over data sets.

    Parameters
    ----------
    cells : DataFrame
        As :func:`results.read` gives it.
    table : int
        Number in the article.

    Returns
    -------
    DataFrame
        Indexed by model, method, proposal and block: what :func:`case_studies.tools.summary.pooled` gives, and means of
        ESS per second of sampling and per O(n^3) operation, of acceptance, time and operations.
    """
    cells = cells[cells["table"] == table]
    cells = cells.assign(
        per_second=cells["ess_mean"] / cells["seconds"],
        per_operation=cells["ess_mean"] / (cells[list(COUNTS)].sum(axis=1) * cells["draws"]),
    )
    means = ["per_second", "per_operation", "acceptance", "latent_acceptance", "seconds", *COUNTS]
    return _by_block(summary.pooled(cells, GROUP, means).reset_index())


def _with_block(frame: pd.DataFrame) -> pd.DataFrame:
    """Add the heading that data, n and d have in the tables."""
    names = [block(*place) for place in frame[["data", "n", "d"]].itertuples(index=False, name=None)]
    return frame.assign(block=names)


def _by_block(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of one table by model, method and proposal, as far as they have these, and heading."""
    index = [name for name in ("model", "method", "proposal", "block") if name in frame or name == "block"]
    return _with_block(frame).drop(columns=["table", "data", "n", "d"]).set_index(index)


def of_article(table: int) -> pd.DataFrame:
    """Numbers of one of the article's tables, indexed by model, method and block."""
    article = results.read("article")
    return _by_block(article[article["table"] == table])


def beside_article(cells: pd.DataFrame, table: int) -> pd.DataFrame:
    """Ours, indexed by model, method and block, with the article's as ``article_mean`` and ``article_sd``."""
    ours = pooled(as_in_article(cells), table).droplevel("proposal")
    theirs = of_article(table).rename(columns=lambda name: name.replace("ess", "article"))
    return ours.join(theirs)


def table(cells: pd.DataFrame, number: int) -> pd.DataFrame:
    """One of the article's tables: our ESS by both estimates, the article's, and our R-hat as little bars."""
    rows = beside_article(cells, number)
    rhats = rows[rhat_columns(cells)].to_numpy()
    shown = pd.DataFrame(
        {
            "ESS": printed(rows, "ess"),
            "ESS (AR)": printed(rows, "ess_ar"),
            "article": printed(rows, "article"),
            "R-hat": [bars(values) for values in rhats],
        },
        index=rows.index,
    )
    return _wide(shown, number)


def _wide(shown: pd.DataFrame, number: int) -> pd.DataFrame:
    """A row for each model and method, columns for each block."""
    columns = pd.MultiIndex.from_product([blocks(shown), shown.columns])
    wide = shown.unstack("block").swaplevel(axis=1)[columns]
    rows = [(m, o) for m in simulation.MODELS for o in methods(number) if (m, o) in wide.index]
    wide = wide.loc[rows].fillna(DASH)
    return wide if number == 4 else wide.droplevel("model")


def orderings(cells: pd.DataFrame, table: int) -> pd.Series:
    """Who converges significantly faster, by the largest R-hat of each data set at the last checkpoint.

    The methods have the numbers of the article's rows. Indexed by model and block; only problems with several data sets
    of every method, that is, with R-hat of several chains of each.
    """
    cells, last = as_in_article(cells[cells["table"] == table]), rhat_columns(cells)[-1]
    rows = [name for name in methods(table) if name != OURS]
    found = {}
    for (data, n, d, model), group in cells.groupby(["data", "n", "d", "model"], sort=False):
        last_of = {name: group.loc[group["method"] == name, last].dropna() for name in rows}
        samples = {number: values.tolist() for number, values in enumerate(last_of.values(), start=1)}
        if min(map(len, samples.values())) > 1:
            found[model, block(data, n, d)] = ordering(samples)
    index = pd.MultiIndex.from_tuples(found, names=["model", "block"]) if found else _no_orderings()
    return pd.Series(found.values(), index=index, dtype=object)


def _no_orderings() -> pd.MultiIndex:
    return pd.MultiIndex.from_arrays([[], []], names=["model", "block"])


def ordering_table(cells: pd.DataFrame) -> pd.DataFrame:
    """The last rows of the tables, ours and the article's; what the conversion broke is left as it is found."""
    article = results.read("article_ordering").fillna("")
    article["ordering"] = article["ordering"].where(article["legible"] == "yes", "(" + article["ordering"] + ")?")
    article["ordering"] = article["ordering"].replace("()?", DASH)
    parts = {}
    for number in (3, 4, 5):
        theirs = article[article["table"] == number].assign(data=SIMULATED)
        both = pd.DataFrame({"ours": orderings(cells, number), "article": _by_block(theirs)["ordering"]})
        parts[number] = both.dropna(subset="ours")
    wide = pd.concat(parts, names=["table"]).unstack("block").swaplevel(axis=1)
    wide = wide.reindex(columns=pd.MultiIndex.from_product([blocks(wide.T), ["ours", "article"]]))
    return wide.reindex([(t, m) for t in (3, 4, 5) for m in simulation.MODELS if (t, m) in wide.index]).fillna(DASH)


def proposals(cells: pd.DataFrame) -> pd.DataFrame:
    """ESS (AR) and R-hat with a learned covariance of theta's proposals, and without one."""
    last = rhat_columns(cells)[-1]
    both = _with_both_proposals(cells)
    columns = pd.MultiIndex.from_product([["identity", "learned"], ["ess_ar_mean", last]])
    parts = {number: pooled(both, number)[["ess_ar_mean", last]] for number in available(both)}
    if not parts:
        return pd.DataFrame(columns=columns)
    frame = pd.concat(parts, names=["table"]).unstack("proposal").swaplevel(axis=1)[columns]
    frame["gain", "ess_ar_mean"] = frame["learned", "ess_ar_mean"] / frame["identity", "ess_ar_mean"]
    return _in_order(frame.rename(columns={"ess_ar_mean": "ESS (AR)", last: "R-hat"}, level=1))


def _with_both_proposals(cells: pd.DataFrame) -> pd.DataFrame:
    cells = cells[cells["proposal"] != "own"]
    others = [name for name in Cell._fields if name != "proposal"]
    return cells[cells.groupby(others)["proposal"].transform("count") == 2]


def _in_order(frame: pd.DataFrame) -> pd.DataFrame:
    names = [*simulation.MODELS, *methods(3), *methods(5), *blocks(frame)]
    order = {name: rank for rank, name in enumerate(names)}
    return frame.sort_index(level=["table", "block", "model", "method"], key=lambda level: level.map(_rank(order)))


def _rank(order: dict[str, int]) -> dict:
    return order | {number: number for number in (3, 4, 5, 6)}


def operations(cells: pd.DataFrame) -> pd.DataFrame:
    """O(n^3) operations per iteration: one number, or the range over models, n and data sets.

    The columns are the article's: #C Cholesky factorizations, #I inversions, #M products of n x n matrices.
    """
    dimensions = "d = " + cells["d"].astype(str)
    counts = as_in_article(cells.assign(problem=dimensions.where(cells["data"] == SIMULATED, cells["data"])))
    text = counts.groupby(["table", "problem", "method"])[list(COUNTS)].agg(_range)
    problems = counts[["table", "problem"]].drop_duplicates().sort_values("table", kind="stable")
    keys = [(*key, name) for key in problems.itertuples(index=False, name=None) for name in methods(key[0])]
    return text.set_axis(["#C", "#I", "#M"], axis=1).loc[[key for key in keys if key in text.index]]


def _range(values: Iterable[float]) -> str:
    low, high = np.min(values), np.max(values)
    return f"{low:.3g}" + (f" to {high:.3g}" if high > 1.02 * low else "")


def coverage(cells: pd.DataFrame, scale: Scale) -> pd.DataFrame:
    """How many cells of the scale there are for each problem, and what made them."""
    key = ["table", "block"]
    whole = _with_block(pd.DataFrame(study.cells(scale)))
    there = _with_block(cells).groupby(key)
    frame = pd.DataFrame(
        {
            "cells": there.size(),
            "of": whole.groupby(key).size(),
            "data sets": there["dataset"].nunique(),
            "of ": whole.groupby(key)["dataset"].nunique(),
            "version": there["version"].agg(lambda names: ", ".join(sorted(set(map(str, names))))),
            "machine": there["machine"].agg(lambda names: "; ".join(sorted(set(names)))),
        }
    )
    counts = ["cells", "of", "data sets", "of "]
    frame[counts] = frame[counts].fillna(0).astype(int)
    return frame.fillna("").reindex(
        whole[key].drop_duplicates().sort_values("table", kind="stable").apply(tuple, axis=1)
    )
