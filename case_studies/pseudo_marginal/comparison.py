"""The study's results in the shape of the article's Tables 1 to 3, beside its numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from case_studies.pseudo_marginal import results, study
from case_studies.pseudo_marginal.problems import KERNELS
from case_studies.pseudo_marginal.study import METHODS, OURS, OURS_LAPLACE, REPEATS, SIMULATED
from case_studies.tools.summary import printed, rhat_columns

__all__ = [
    "ARTICLE_DRAWS", "beside_article", "coverage", "estimator_table", "of_article", "operations", "operations_of",
    "real", "table",
]  # fmt: skip

ARTICLE_DRAWS = 10000
"""Effective sample sizes of shorter chains are given for this number of draws."""

DASH = "–"
PLACE = ["problem", "method", "kernel"]


def _with_problem(frame: pd.DataFrame) -> pd.DataFrame:
    names = [
        f"n = {n}, d = {d}" if data == SIMULATED else data
        for data, n, d in zip(frame.get("data", [SIMULATED] * len(frame)), frame["n"], frame["d"], strict=True)
    ]
    return frame.assign(problem=names)


def _rescaled(cells: pd.DataFrame) -> pd.DataFrame:
    """Effective sample sizes of 10,000 draws, acceptance in percent."""
    names = ["ess_mean", "ess_sd", "ess_ar_mean", "ess_ar_sd"]
    cells = cells.rename(columns={"acceptance": "acceptance_mean"})
    scaled = {name: cells[name] * ARTICLE_DRAWS / cells["draws"] for name in names}
    return cells.assign(**scaled, **{name: 100.0 * cells[name] for name in ("acceptance_mean", "acceptance_sd")})


def beside_article(cells: pd.DataFrame, number: int) -> pd.DataFrame:
    """Our cells of Table 1 or 3 with the article's numbers, indexed by problem, method and kernel.

    Parameters
    ----------
    cells : DataFrame
        As :func:`results.read` gives it.
    number : {1, 3}

    Returns
    -------
    DataFrame
        Effective sample sizes are those of 10,000 draws, acceptance is in percent; the article's columns begin with
        ``article_``. ``per_operation`` is the effective sample size over the operations of one update.
    """
    ours = _rescaled(_with_problem(cells[cells["experiment"] == f"table {number}"])).set_index(PLACE)
    repeats = REPEATS if number == 3 else 1
    ours["per_operation"] = ours["ess_ar_mean"] * repeats / ours["operations_mean"]
    return ours.join(of_article(number).add_prefix("article_"))


def of_article(number: int) -> pd.DataFrame:
    """Numbers of one of the article's tables, indexed by problem, method and kernel."""
    article = results.read("article")
    return _with_problem(article[article["table"] == number]).set_index(PLACE)


def _rhats(rows: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    found = rows.reindex(columns=columns)
    return [" ".join(f"{value:.2f}" for value in row if not np.isnan(value)) or DASH for row in found.to_numpy()]


def _percent(rows: pd.DataFrame, name: str) -> list[str]:
    pairs = zip(rows[f"{name}_mean"], rows[f"{name}_sd"], strict=True)
    return [DASH if np.isnan(mean) else f"{mean:.1f} ({sd:.1f})" for mean, sd in pairs]


def table(cells: pd.DataFrame, number: int) -> pd.DataFrame:
    """Table 1 or 3: a row for each problem and method, ours and the article's for each kernel."""
    rows = beside_article(cells, number)
    columns = rhat_columns(cells)
    shown = {
        "ESS": printed(rows, "ess"),
        "ESS (AR)": printed(rows, "ess_ar"),
        "article's ESS": printed(rows, "article_ess"),
    }
    if number == 3:
        shown |= {
            "ESS (AR) / op.": _whole(rows["per_operation"]),
            "article's": _whole(rows["article_per_operation_mean"]),
        }
    else:
        shown |= {"acc. %": _percent(rows, "acceptance"), "article's acc.": _percent(rows, "article_acceptance")}
    shown |= {"R-hat": _rhats(rows, columns), "article's R-hat": _rhats(rows, [f"article_{name}" for name in columns])}
    return _wide(pd.DataFrame(shown, index=rows.index), METHODS[f"table {number}"])


def _whole(values: pd.Series) -> list[str]:
    return [DASH if np.isnan(value) else f"{value:.0f}" for value in values]


def _wide(shown: pd.DataFrame, methods: Sequence[str]) -> pd.DataFrame:
    """Kernels side by side."""
    kernels = [name for name in KERNELS if name in shown.index.get_level_values("kernel")]
    wide = shown.unstack("kernel").swaplevel(axis=1)[pd.MultiIndex.from_product([kernels, shown.columns])]
    problems = dict.fromkeys(shown.index.get_level_values("problem"))
    order = [(problem, method) for problem in problems for method in methods]
    return wide.loc[[place for place in order if place in wide.index]].fillna(DASH)


def operations_of(cells: pd.DataFrame) -> pd.DataFrame:
    """O(n^3) operations of an iteration, indexed as the article's; pseudo-marginal rows are means over N_imp."""
    ours = _with_problem(cells[cells["experiment"] == "table 1"])
    ours = ours.assign(method=ours["method"].str.replace(r" \(\d+\)", "", regex=True))
    return ours.groupby(PLACE, sort=False)[["cholesky", "inverse", "operations_mean"]].mean()


def operations(cells: pd.DataFrame) -> pd.DataFrame:
    """Table 2, ours beside the article's."""
    counted = operations_of(cells).round(1)
    theirs = of_article(2)["operations_mean"]
    counted = counted.set_axis(["#C", "#I", "all"], axis=1).join(theirs.rename("article"))
    return _wide(counted, ["PM LA", "PM EP", "AA", "SURR", OURS, OURS_LAPLACE])


def real(cells: pd.DataFrame) -> pd.DataFrame:
    """Numbers behind Figures 3 and 4; the article gives none."""
    rows = _rescaled(_with_problem(cells[cells["experiment"] == "real"])).set_index(["problem", "method"])
    scale = rows["draws"] / ARTICLE_DRAWS
    return pd.DataFrame(
        {
            "chains": rows["chains"],
            "draws": rows["draws"],
            "ESS of 10,000": printed(rows, "ess"),
            "ESS (AR) of 10,000": printed(rows, "ess_ar"),
            "ESS (AR) per second": (rows["ess_ar_mean"] * scale / rows["seconds"]).round(2),
            "acc. %": _percent(rows, "acceptance"),
            "R-hat": rows["rhat"].round(3),
            "operations": rows["operations_mean"].round(1),
        }
    )


def coverage(cells: pd.DataFrame) -> pd.DataFrame:
    """How many cells there are for each problem, how long their chains are, and what made them."""
    key = ["experiment", "problem"]
    whole = _with_problem(pd.DataFrame(study.cells()))
    there = _with_problem(cells).groupby(key)
    frame = pd.DataFrame({"cells": there.size(), "of": whole.groupby(key).size()})
    columns = ["chains", "tune", "draws", "version", "machine"]
    frame = frame.join(there[columns].agg(lambda values: "; ".join(sorted(set(map(str, values))))))
    frame[["cells", "of"]] = frame[["cells", "of"]].fillna(0).astype(int)
    return frame.fillna("").reindex(whole[key].drop_duplicates().apply(tuple, axis=1))


def estimator_table(spreads: pd.DataFrame) -> pd.DataFrame:
    """Standard deviation of log p^(y|tau), its square averaged over the posterior of tau, by n and N_imp."""
    best = spreads[(spreads["approximation"] == "EP") & (spreads["draws"] == spreads["draws"].max())]
    # The grid is equally spaced on the log scale.
    weights = best.assign(weight=best["mean"] * best["lengthscale"])
    joined = spreads.merge(weights[["n", "lengthscale", "weight"]], on=["n", "lengthscale"])
    joined = joined.assign(variance=joined["weight"] * np.square(joined["sd_log"]))
    sums = joined.groupby(["n", "draws", "approximation"])[["variance", "weight"]].sum()
    return np.sqrt(sums["variance"] / sums["weight"]).unstack("approximation")[["LA", "EP"]]
