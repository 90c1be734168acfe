"""The record of Tables 3 to 6 of the comparative evaluation, and of Figure 1 of the pseudo-marginal article."""

from __future__ import annotations

import pandas as pd

from case_studies.parameterizations import results, study
from case_studies.parameterizations.comparison import as_in_article, of_article, pooled
from case_studies.parameterizations.study import OURS
from case_studies.tools.articles import COMPARATIVE_EVALUATION, PSEUDO_MARGINAL
from case_studies.tools.record import Entry, Numbers, Share, made_by

__all__ = ["entries"]

STUDY = "/case_studies/parameterizations"
PAPER = "parameterizations/results/paper.csv"
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
        files=[PAPER],
    )


def _numbers(cells: pd.DataFrame, number: int) -> Numbers:
    """A line for each of the article's."""
    theirs = of_article(number)
    ours = pooled(cells, number).droplevel("proposal")["ess_ar_mean"] if len(cells) else pd.Series(dtype=float)
    frame = theirs.assign(ours=ours.reindex(theirs.index))
    return Numbers(frame.rename(columns={"ess_mean": "article", "ess_sd": "deviation"}))
