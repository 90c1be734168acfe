"""The record of Tables 3 to 6 of the comparative evaluation, and of Figure 1 of the pseudo-marginal article."""

from __future__ import annotations

import pandas as pd

from case_studies.parameterizations import results, study
from case_studies.parameterizations.comparison import as_in_article, of_article, pooled
from case_studies.parameterizations.sensitivity import LOG_VARIANCES
from case_studies.parameterizations.study import OURS
from case_studies.tools.articles import COMPARATIVE_EVALUATION, PSEUDO_MARGINAL
from case_studies.tools.record import Entry, Numbers, Remark, Share, made_by

__all__ = ["entries"]

STUDY = "/case_studies/parameterizations"
PAPER = "parameterizations/results/paper.csv"
SENSITIVITY = "parameterizations/results/sensitivity.csv"
SHOWS = {
    3: "effective sizes of three operators for theta given f",
    4: "effective sizes of three operators for theta given the whitened f",
    5: "effective sizes of five schemes for theta and f on simulated labels",
    6: "effective sizes of five schemes for theta and f on four UCI data sets",
}


def entries() -> list[Entry]:
    """Entries of the tables and of the figure."""
    cells = results.read("paper")
    picture = Entry(
        article=PSEUDO_MARGINAL,
        item="Figure 1",
        shows="posterior of a length-scale beside its conditional densities in three parameterizations",
        study=STUDY,
        extent=["computed on a grid in the notebook"],
    )
    return [*(_table(cells, number) for number in SHOWS), picture]


def _table(cells: pd.DataFrame, number: int) -> Entry:
    there = as_in_article(cells[(cells["table"] == number) & (cells["method"] != OURS)])
    every = pd.DataFrame(study.cells(study.SCALES["paper"]))
    wanted = as_in_article(every[(every["table"] == number) & (every["method"] != OURS)])
    return Entry(
        article=COMPARATIVE_EVALUATION,
        item=f"Table {number}",
        shows=SHOWS[number],
        study=STUDY,
        extent=[Share.counted(there, wanted, "methods on a data set")],
        made=made_by(there),
        numbers=_numbers(there, number),
        remarks=REMARKS.get(number, list)(),
        notes=_tried(number),
        files=[PAPER, SENSITIVITY] if number in REMARKS else [PAPER],
    )


def _joint() -> list[Remark]:
    """Return what KHR gives on several data sets; the article prints the mean over ten."""
    remarks = []
    cells = ((100, 2, ""), (100, 10, " Chains that move have about the article's."), (400, 2, ""), (400, 10, ""))
    for n, d, conclusion in cells:
        count, given, smaller = _sensitivity(5, "KHR", n, d)
        ours = "ten, on some of which" if _number_of_data_sets(n, d) == 10 else "one, on which"
        block = f"n = {n}, d = {d}"
        deviation = of_article(5).xs(("LRG", "KHR", block))["ess_sd"]
        text = (
            f"the article's is a mean over ten data sets, with a deviation of {deviation:.0f}; ours is of "
            f"{ours} Laplace's approximation is so far from the posterior that some chains hardly move. One chain on "
            f"each of {count} data sets has {given}; on data simulated with a variance of f of exp(1) in place of "
            f"exp(2), {smaller}.{conclusion}"
        )
        remarks.append(Remark(text, {"method": ["KHR"], "block": [block]}))
    return remarks


def _number_of_data_sets(n: int, d: int) -> int:
    cells = results.read("paper")
    here = (cells["table"] == 5) & (cells["method"] == "KHR") & (cells["n"] == n) & (cells["d"] == d)
    return int(cells.loc[here, "dataset"].nunique())


def _whitened() -> list[Remark]:
    """Return what Metropolis-Hastings gives where the variance of f is smaller, and HMC with other rates."""
    count, given, smaller = _sensitivity(4, "MH", 100, 10)
    text = (
        "the variance of f in the article's data seems to be smaller than the exp(2) that it gives, as in Table 2. One "
        f"chain on each of {count} data sets has {given}; with a variance of exp(1), {smaller}."
    )
    remark = Remark(text, {"model": ["VLT"], "method": ["MH"], "block": ["n = 100, d = 10"]})
    return [remark, *_tuned(4)]


def _tuned(table: int) -> list[Remark]:
    """Return what hybrid Monte Carlo gives with other acceptance rates, in cells of a table that differ."""
    lines, remarks = results.read("sensitivity"), []
    for (n, d, model), runs in lines[(lines["table"] == table) & (lines["rate"] > 0.0)].groupby(["n", "d", "model"]):
        text = f"the article does not name the acceptance rate of hybrid Monte Carlo; ours is 65 %. {_by_rate(runs)}."
        if (n, d, model) != UNEXPLAINED:
            cell = {"model": [model], "method": ["HMC"]}
            remarks.append(Remark(text, {**cell, "block": [f"n = {n}, d = {d}"]}))
            remarks.append(Remark(_as_with_fewer_points(runs), {**cell, "block": [f"n = 400, d = {d}"]}))
    return remarks


def _as_with_fewer_points(runs: pd.DataFrame) -> str:
    sizes = runs.pivot(index="dataset", columns="rate", values="ess_ar")
    ratios = sizes[sizes.columns.min()] / sizes[sizes.columns.max()]
    return (
        "the acceptance rate of hybrid Monte Carlo, as with 100 points, where ours, 65 %, has "
        f"{ratios.min():.1f} to {ratios.max():.1f} times the effective draws of 97 %."
    )


def _by_rate(runs: pd.DataFrame) -> str:
    sizes = [f"{100 * rate:.0f} %: {_list(found['ess_ar'])}" for rate, found in runs.groupby("rate")]
    return f"One chain on each of {runs['dataset'].nunique()} data sets has, with {'; with '.join(sizes)}"


UNEXPLAINED = (100, 2, "ORD")
"""Numbers of points and inputs, and the model, for which no acceptance rate gives what the article has."""


def _tried(table: int) -> list[str]:
    """Return a note on other acceptance rates where they explain nothing."""
    if table != 4:
        return []
    lines = results.read("sensitivity")
    n, d, model = UNEXPLAINED
    here = (lines["n"] == n) & (lines["d"] == d) & (lines["model"] == model) & (lines["rate"] > 0.0)
    theirs = of_article(4).xs((model, "HMC", f"n = {n}, d = {d}"))
    return [
        f"Tried without success: other acceptance rates of HMC on {model} with d = {d}. {_by_rate(lines[here])} "
        f"(article {theirs['ess_mean']:.0f}, with a deviation of {theirs['ess_sd']:.0f}). The article does not give "
        "the thresholds and the noise of this model."
    ]


REMARKS = {3: lambda: _tuned(3), 4: _whitened, 5: _joint}


def _sensitivity(table: int, method: str, n: int, d: int) -> tuple[int, str, str]:
    """Return the number of data sets, and effective sizes with the article's variance of f and with a smaller one."""
    lines = results.read("sensitivity")
    here = (lines["table"] == table) & (lines["method"] == method) & (lines["n"] == n) & (lines["d"] == d)
    lines = lines[here & (lines["rate"] == 0.0)]
    given, smaller = (lines.loc[lines["log_variance"] == value, "ess_ar"] for value in LOG_VARIANCES)
    return len(given), _list(given), _list(smaller)


def _list(sizes: pd.Series) -> str:
    *first, last = [f"{size:,.0f}" if size >= 10.0 else f"{size:.1f}" for size in sizes]
    return f"{', '.join(first)} and {last}"


def _numbers(cells: pd.DataFrame, number: int) -> Numbers:
    """A line for each of the article's."""
    theirs = of_article(number)
    ours = pooled(cells, number).droplevel("proposal")["ess_ar_mean"] if len(cells) else pd.Series(dtype=float)
    frame = theirs.assign(ours=ours.reindex(theirs.index))
    return Numbers(frame.rename(columns={"ess_mean": "article", "ess_sd": "deviation"}))
