"""The record of section 4 of the pseudo-marginal article."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from case_studies.pseudo_marginal import results, study
from case_studies.pseudo_marginal.comparison import beside_article, estimator_table, of_article, operations_of
from case_studies.pseudo_marginal.sensitivity import WITHIN, WITHIN_N
from case_studies.pseudo_marginal.study import ESTIMATORS, OURS, OURS_LAPLACE
from case_studies.tools.articles import PSEUDO_MARGINAL
from case_studies.tools.record import DEVIATIONS, Entry, Finding, Numbers, Remark, Share, made_by

__all__ = ["entries"]

STUDY = "/case_studies/pseudo_marginal"
FOLDER = "pseudo_marginal/results"
METHODS = "methods on a data set"


def entries() -> list[Entry]:
    """Entries of Tables 1 to 3 and of Figures 2 to 4."""
    cells = results.read("paper")
    cells = cells[~cells["method"].isin([OURS, OURS_LAPLACE])]
    effective, operations = _effective_sizes(cells, 1), _operations(cells)
    return [effective, operations, _effective_sizes(cells, 3), _estimator(), *_real(cells)]


def _share(cells: pd.DataFrame) -> Share:
    """Return the rows that belong to the given experiments and data sets."""
    every = pd.DataFrame(study.cells())
    every = every[~every["method"].isin([OURS, OURS_LAPLACE])]
    alike = every["experiment"].isin(cells["experiment"]) & every["data"].isin(cells["data"])
    return Share.counted(cells, every[alike], METHODS)


def _effective_sizes(cells: pd.DataFrame, number: int) -> Entry:
    there = cells[cells["experiment"] == f"table {number}"]
    article, own = of_article(number), beside_article(there, number)
    frame = pd.DataFrame({"article": article["ess_mean"], "deviation": article["ess_sd"]})
    frame["ours"] = own["ess_ar_mean"].reindex(frame.index)
    shows = {
        1: "effective sizes, R-hat and acceptance by approximation and number of importance samples",
        3: "effective sizes with twenty updates in each iteration",
    }
    return Entry(
        article=PSEUDO_MARGINAL,
        item=f"Table {number}",
        shows=shows[number],
        study=STUDY,
        extent=[_share(there)],
        made=made_by(there),
        numbers=Numbers(frame),
        remarks=[*_other_data(article, number), *_gains(cells, number), *_spreads(frame, own)],
        notes=[
            f"Runs on other data sets are one chain each: {made_by(results.read('sensitivity'))}.",
            *([_same_surrogate_data()] if number == 3 else []),
        ],
        files=[f"{FOLDER}/paper.csv", f"{FOLDER}/sensitivity.csv"],
    )


def _other_data(article: pd.DataFrame, number: int) -> Iterator[Remark]:
    """For each problem, methods whose number in the article is one of those on several data sets.

    It is between them, or a chain on one of them is within the deviations of the article's chains. Pseudo-marginal rows
    of a problem have their posterior and their proposal in common, so they differ together.
    """
    lines = results.read("sensitivity")
    lines = lines[(lines["experiment"] == f"table {number}") & (lines["method"] != WITHIN)]
    for (n, d, kernel), there in lines.groupby(["n", "d", "kernel"]):
        problem = f"n = {n}, d = {d}"
        sizes = there.groupby("method")["ess_ar"].agg(["min", "max"])
        rows = article.loc[problem].xs(kernel, level="kernel").loc[sizes.index]
        theirs, reach = rows["ess_mean"], DEVIATIONS * rows["ess_sd"]
        inside = sizes[(sizes["min"] <= theirs + reach) & (theirs - reach <= sizes["max"])]
        if len(inside):
            shown = "; ".join(
                f"{method} {low:,.0f} to {high:,.0f} (article {theirs[method]:,.0f})"
                for method, low, high in inside.itertuples(name=None)
            )
            scales = " and ".join(f"{value:g}" for value in sorted(set(there["lengthscale"])))
            count = there["dataset"].nunique()
            words = f"the data set decides, within two of the article's deviations. With {problem} and the {kernel} "
            words += "kernel, data sets simulated anew"
            words += f" ({count} for the length-scale {scales} each)" if "and" in scales else f" ({count})"
            methods = [name for name in article.loc[problem].index.unique("method") if _alike(name) & set(inside.index)]
            about = {"problem": [problem], "kernel": [kernel], "method": methods}
            yield Remark(f"{words} give {shown}.", about)


def _gains(cells: pd.DataFrame, number: int) -> Iterator[Remark]:
    """Where Table 1 differs already: by how much twenty updates in place of one multiply effective sizes."""
    if number != 3:
        return
    ours = [beside_article(cells, table)["ess_ar_mean"] for table in (1, 3)]
    theirs = [of_article(table)["ess_mean"] for table in (1, 3)]
    for place in ((f"n = {WITHIN_N}, d = 2", "AA", "ARD"), (f"n = {WITHIN_N}, d = 10", "PM EP (64)", "ARD")):
        problem, method, kernel = place
        once, often = (table[place] for table in ours)
        article_once, article_often = (table[place] for table in theirs)
        yield Remark(
            f"as in Table 1, where ours is {once:.0f} and the article's {article_once:.0f}. Twenty updates in place of "
            f"one multiply these by {often / once:.1f} and {article_often / article_once:.1f}.",
            {"problem": [problem], "method": [method], "kernel": [kernel]},
        )


def _spreads(frame: pd.DataFrame, own: pd.DataFrame) -> Iterator[Remark]:
    """For each problem, cells in which our chains spread so widely that one of ours may be one of the article's."""
    spread = np.hypot(own["ess_ar_sd"].reindex(frame.index), frame["deviation"])
    near = (frame["ours"] - frame["article"]).abs() <= DEVIATIONS * spread
    for (problem, kernel), there in near.groupby(level=["problem", "kernel"]):
        methods = there[there].index.unique("method").tolist()
        words = "our chains differ among themselves, so that the difference is within two deviations of one between a "
        yield Remark(
            f"{words}chain of ours and one of the article's.",
            {"problem": [problem], "kernel": [kernel], "method": methods},
        )


def _same_surrogate_data() -> str:
    """Return a note on the other reading of SURR, which does not explain all of its cells."""
    lines = results.read("sensitivity")
    chosen = (lines["experiment"] == "table 3") & (lines["dataset"] == 0) & (lines["n"] == WITHIN_N)
    lines = lines[chosen].set_index(["d", "kernel", "lengthscale", "method"])
    wide = lines["ess_ar"].unstack("method").dropna(subset=[WITHIN])
    pairs = "; ".join(
        f"d = {d}, {kernel}: {row[WITHIN]:,.0f} in place of {row['SURR']:,.0f}"
        for (d, kernel, _), row in wide.iterrows()
    )
    return (
        "Tried without a clear result: if all twenty updates of SURR have the same surrogate data, where ours have new "
        f"ones each, chains on a data set with n = {WITHIN_N} have, with {pairs}."
    )


def _alike(method: str) -> set[str]:
    """The method, and for a pseudo-marginal chain the one that its proposal is tuned for."""
    return {method, "PM EP (64)"} if method in ESTIMATORS else {method}


def _operations(cells: pd.DataFrame) -> Entry:
    there = cells[cells["experiment"] == "table 1"]
    frame = pd.DataFrame({"article": of_article(2)["operations_mean"]})
    counted = operations_of(there).reindex(frame.index)
    frame["ours"] = counted["operations_mean"]
    each = frame["article"] / counted["cholesky"]
    return Entry(
        article=PSEUDO_MARGINAL,
        item="Table 2",
        shows="operations in O(n^3) of an iteration",
        study=STUDY,
        extent=[_share(there)],
        made=made_by(there),
        numbers=Numbers(frame),
        remarks=[
            Remark(
                f"the article counts {_range(each, 'PM LA')} operations for each factorization of ours. A step of "
                "Newton's method needs one, and it seems to count two; it does not say which.",
                {"method": ["PM LA"]},
            ),
            Remark(
                f"the article counts {_range(each, 'PM EP')} operations for each factorization of ours, since a sweep "
                "has three in its section 5.4. Ours has one factorization and at most one triangular inversion.",
                {"method": ["PM EP"]},
            ),
        ],
        files=[f"{FOLDER}/paper.csv"],
    )


def _range(values: pd.Series, method: str) -> str:
    there = values.xs(method, level="method")
    return f"{there.min():.1f} to {there.max():.1f}"


def _estimator() -> Entry:
    spreads = results.read("estimator")
    found = estimator_table(spreads)
    few, many = found.xs(1, level="draws"), found.xs(64, level="draws")
    growth = many.loc[200, "EP"] / many.loc[50, "EP"]
    return Entry(
        article=PSEUDO_MARGINAL,
        item="Figure 2",
        shows="spread of the estimate of p(y|theta) by length-scale, approximation and number of samples",
        study=STUDY,
        extent=["all of its panels"],
        made=made_by(spreads),
        findings=[
            Finding("EP's estimates spread less than Laplace's", bool((found["EP"] < found["LA"]).all())),
            Finding("64 samples spread less than one", bool((many < few).all(axis=None))),
            Finding("with EP and 64 samples they spread little more for 200 points than for 50", bool(growth < 1.5)),
        ],
        files=[f"{FOLDER}/estimator.csv"],
    )


def _real(cells: pd.DataFrame) -> list[Entry]:
    there = cells[cells["experiment"] == "real"]
    parts: dict[str, Sequence[str]] = {"Figure 3": ("Breast", "Pima"), "Figure 4": ("Abalone",)}
    return [_traces(there[there["data"].isin(names)], item, names) for item, names in parts.items()]


def _traces(cells: pd.DataFrame, item: str, names: Sequence[str]) -> Entry:
    sizes = cells.pivot(index="data", columns="method", values="ess_ar_mean")
    others = sizes[["AA", "SURR"]].max(axis=1)
    return Entry(
        article=PSEUDO_MARGINAL,
        item=item,
        shows=f"traces, autocorrelations and R-hat on {' and '.join(names)}",
        study=STUDY,
        extent=[_share(cells)],
        made=made_by(cells),
        findings=[
            Finding("PM has more effective draws than AA and SURR", bool((sizes["PM LA (1)"] > others).all())),
            Finding("SURR has more than AA", bool((sizes["SURR"] > sizes["AA"]).all())),
        ],
        files=[f"{FOLDER}/{name}.csv" for name in ("paper", "traces", "convergence")],
    )
