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
        remarks=[_joint()] if number == 5 else [],
        files=[PAPER, SENSITIVITY] if number == 5 else [PAPER],
    )


def _joint() -> Remark:
    """Return what KHR gives on other data sets, whose mean over ten the article prints."""
    lines = results.read("sensitivity")
    given, smaller = (lines.loc[lines["log_variance"] == value, "ess_ar"] for value in LOG_VARIANCES)
    theirs = of_article(5).loc[("LRG", "KHR", "n = 100, d = 2")]
    return Remark(
        f"the article's is a mean over ten data sets, with a deviation of {theirs['ess_sd']:.0f}; ours is of one, on "
        "which Laplace's approximation is so far from the posterior that some chains stay where they are. One chain "
        f"on each of {len(given)} other data sets has {_list(given)}; on data simulated with a variance of f of exp(1) "
        f"in place of exp(2), where the approximation is closer, {_list(smaller)}.",
        {"method": ["KHR"], "block": ["n = 100, d = 2"]},
    )


def _list(sizes: pd.Series) -> str:
    return " and ".join(f"{size:,.0f}" for size in sizes)


def _numbers(cells: pd.DataFrame, number: int) -> Numbers:
    """A line for each of the article's."""
    theirs = of_article(number)
    ours = pooled(cells, number).droplevel("proposal")["ess_ar_mean"] if len(cells) else pd.Series(dtype=float)
    frame = theirs.assign(ours=ours.reindex(theirs.index))
    return Numbers(frame.rename(columns={"ess_mean": "article", "ess_sd": "deviation"}))
