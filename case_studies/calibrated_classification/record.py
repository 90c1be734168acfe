"""The record of section 5 of the pseudo-marginal article, whose numbers are only in pictures."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from case_studies.calibrated_classification import results, study
from case_studies.calibrated_classification.classifiers import REFERENCE
from case_studies.calibrated_classification.comparison import confidence, verdicts
from case_studies.tools.articles import PSEUDO_MARGINAL
from case_studies.tools.record import Entry, Finding, Share, made_by

__all__ = ["entries"]

STUDY = "/case_studies/calibrated_classification"
FOLDER = "calibrated_classification/results"
SCORES = "four scores of four classifiers by size of training set"
SAID = {
    "SVM": "the SVM orders its predictions worse",
    "EP ML": "EP ML orders its predictions worse",
    "MCMC EP": "MCMC EP orders its predictions worse, as a trend",
}


def entries() -> list[Entry]:
    """Entries of Figures 5 to 7."""
    cells = results.read("paper")
    return [
        _abstention(results.read("paper_histograms"), made_by(cells)),
        _scores(cells, "Figure 6", ("Pima", "Thyroid")),
        _scores(cells, "Figure 7", ("Ionosphere", "Glass", "USPS")),
    ]


def _abstention(histograms: pd.DataFrame, made: str) -> Entry:
    """The two data sets and sizes of the figure."""
    wrong = confidence(histograms)["wrong"].unstack("method").loc[[("Glass", 50), ("Pima", 20)]]
    return Entry(
        article=PSEUDO_MARGINAL,
        item="Figure 5",
        shows="accuracy and AUC against the degree of abstention for one split each of two data sets",
        study=STUDY,
        extent=["all splits together, not one"],
        made=made,
        findings=[
            Finding(
                "where it is confident, the SVM is wrong more often than the exact sampler",
                bool((wrong["SVM"] > wrong[REFERENCE]).all()),
            )
        ],
        files=[f"{FOLDER}/paper_histograms.csv"],
    )


def _scores(cells: pd.DataFrame, item: str, names: Sequence[str]) -> Entry:
    there = cells[cells["data"].isin(names) & (cells["method"] != "pmgp default")]
    total = verdicts(there, "capacity_auc")["all"].map(lambda text: [int(count) for count in text.split(" / ")])
    return Entry(
        article=PSEUDO_MARGINAL,
        item=item,
        shows=f"{SCORES}: {', '.join(names[:-1])} and {names[-1]}",
        study=STUDY,
        extent=[Share(int(there["splits"].min()), study.SCALES["paper"].rounds[-1], "splits")],
        made=made_by(there),
        findings=[Finding(words, total[method][0] > total[method][2]) for method, words in SAID.items()],
        files=[f"{FOLDER}/paper.csv"],
    )
