"""The record of section 4 of the pseudo-marginal article."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from case_studies.pseudo_marginal import results, study
from case_studies.pseudo_marginal.comparison import beside_article, estimator_table, of_article, operations_of
from case_studies.pseudo_marginal.sensitivity import N
from case_studies.pseudo_marginal.study import ESTIMATORS, OURS, OURS_LAPLACE
from case_studies.tools.articles import PSEUDO_MARGINAL
from case_studies.tools.record import Entry, Finding, Numbers, Remark, Share, made_by

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
    article = of_article(number)
    frame = pd.DataFrame({"article": article["ess_mean"], "deviation": article["ess_sd"]})
    frame["ours"] = beside_article(there, number)["ess_ar_mean"].reindex(frame.index)
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
        remarks=list(_other_data(article["ess_mean"], number)),
        notes=[f"Runs on other data sets are one chain each: {made_by(results.read('sensitivity'))}."],
        files=[f"{FOLDER}/paper.csv", f"{FOLDER}/sensitivity.csv"],
    )


def _other_data(article: pd.Series, number: int) -> Iterator[Remark]:
    """For each small problem, methods whose number in the article is between those on several data sets.

    Pseudo-marginal rows of a problem have their posterior and their proposal in common, so they differ together.
    """
    lines = results.read("sensitivity")
    lines = lines[lines["experiment"] == f"table {number}"]
    for (d, kernel), there in lines.groupby(["d", "kernel"]):
        problem = f"n = {N}, d = {d}"
        sizes = there.groupby("method")["ess_ar"].agg(["min", "max"])
        theirs = article.loc[problem].xs(kernel, level="kernel")[sizes.index]
        inside = sizes[(sizes["min"] <= theirs) & (theirs <= sizes["max"])]
        if len(inside):
            shown = "; ".join(
                f"{method} {low:,.0f} to {high:,.0f} (article {theirs[method]:,.0f})"
                for method, low, high in inside.itertuples(name=None)
            )
            scales = " and ".join(f"{value:g}" for value in sorted(set(there["lengthscale"])))
            count = there["dataset"].nunique()
            words = f"the data set decides. With {problem} and the {kernel} kernel, data sets simulated anew"
            words += f" ({count} for the length-scale {scales} each)" if "and" in scales else f" ({count})"
            methods = [name for name in article.loc[problem].index.unique("method") if _alike(name) & set(inside.index)]
            about = {"problem": [problem], "kernel": [kernel], "method": methods}
            yield Remark(f"{words} give {shown}.", about)


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
