"""What the comparative evaluation's Tables 1 and 2 have, and what there is of them."""

from __future__ import annotations

import pandas as pd

from case_studies.latent_operators import results, study
from case_studies.latent_operators.comparison import GROUP, OPERATION_COLUMNS, pooled
from case_studies.latent_operators.study import OPERATORS, OURS
from case_studies.tools.articles import COMPARATIVE_EVALUATION
from case_studies.tools.record import Entry, Finding, Numbers, Share, made_by

__all__ = ["entries"]

STUDY = "/case_studies/latent_operators"
PAPER = "latent_operators/results/paper.csv"


def entries() -> list[Entry]:
    """Entries of both tables."""
    cells = results.read("paper")
    cells = cells[cells["operator"] != OURS]
    return [_operations(cells), _effective_sizes(cells)]


def _operations(cells: pd.DataFrame) -> Entry:
    return Entry(
        article=COMPARATIVE_EVALUATION,
        item="Table 1",
        shows="operations in O(n^3) of each operator",
        study=STUDY,
        extent=["counted while the chains of Table 2 ran"],
        made=made_by(cells),
        findings=[_factorizes_each_time(cells), _prepares_twice(cells)],
        files=[PAPER],
    )


def _factorizes_each_time(cells: pd.DataFrame) -> Finding:
    """SMMALA's metric is constant for the model with a likelihood whose Fisher information is."""
    sampling = cells[OPERATION_COLUMNS[3:]].sum(axis=1)
    moving = (cells["operator"] == "SMMALA") & (cells["model"] != "VLT")
    holds = (sampling[moving] >= cells["draws"][moving]).all() and (sampling[~moving] == 0.0).all()
    return Finding("SMMALA factorizes in each draw where its metric depends on f, and nothing else does", bool(holds))


def _prepares_twice(cells: pd.DataFrame) -> Finding:
    before = cells["preparation_cholesky"].groupby(cells["operator"]).agg(["min", "max"])
    expected = pd.Series(1, before.index).where(before.index != "HMC v1", 2)
    holds = before.eq(expected, axis=0).all(axis=None)
    return Finding("HMC v1 needs two factorizations before the first draw, the others one", bool(holds))


def _effective_sizes(cells: pd.DataFrame) -> Entry:
    scale = study.SCALES["paper"]
    operators = [name for name in OPERATORS if name != OURS]
    wanted = pd.DataFrame(study.cells((100, 400), (2, 10), range(scale.datasets), operators=operators))
    article = results.read("article").set_index(GROUP)
    ours = pooled(cells)["ess_ar_mean"].reindex(article.index)
    frame = pd.DataFrame({"ours": ours, "article": article["ess_mean"], "deviation": article["ess_sd"]})
    return Entry(
        article=COMPARATIVE_EVALUATION,
        item="Table 2",
        shows="effective sizes of six operators for f given theta",
        study=STUDY,
        extent=[Share.counted(cells, wanted, "operators on a data set")],
        made=made_by(cells),
        numbers=Numbers(frame),
        files=[PAPER],
    )
