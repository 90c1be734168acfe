"""Finished units as tables in the repository: means over splits, differences of classifiers, and pooled predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from case_studies.calibrated_classification import data
from case_studies.calibrated_classification.classifiers import CLASSIFIERS, REFERENCE
from case_studies.calibrated_classification.study import BINS, SCORES, Block, Scale
from case_studies.tools.grid import Result
from case_studies.tools.provenance import made_by
from case_studies.tools.table import Table, sorter

__all__ = ["COUNTS", "FOLDER", "KEY", "Tables", "histograms", "read", "rows", "settings", "tables_of"]

FOLDER = Path(__file__).parent / "results"

KEY = ["data", "n", "method"]
"""Columns that name a cell."""

THETA = ("log_lengthscale", "log_lengthscale_sd", "log_variance", "log_variance_sd")
NOTES = (*THETA, "at_bound", "ess", "probability_error", "test_points", "seconds")

COUNTS = [f"bin{part}" for part in range(BINS)]
"""Columns of the histograms, in order of probability."""


class Tables(NamedTuple):
    """Tables of one scale: a line for each data set, size and classifier, and histograms of these for each label."""

    scores: Table
    histograms: Table


def rows(scale: Scale, block: Block, results: Mapping[str, Sequence[Result]]) -> list[dict[str, Any]]:
    """Lines of the table of scores.

    Each score has the mean over splits and its standard error (``_se``), and the mean difference from the exact sampler
    on the same splits (``_difference``) with its own error (``_difference_se``); whatever else was noted has the means.

    Parameters
    ----------
    scale : Scale
    block : Block
    results : mapping of str to sequence
        For each classifier, its results on the same splits, two at least.
    """
    splits = len(results[REFERENCE])
    return [
        {
            **dict(zip(KEY, (*block, method), strict=True)),
            **settings(scale, splits),
            **_compared(results[method], results[REFERENCE]),
            **{name: float(np.mean([one.get(name, np.nan) for one in results[method]])) for name in NOTES},
            **made_by(results[method][0]),
        }
        for method in results
    ]


def _compared(ours: Sequence[Result], reference: Sequence[Result]) -> dict[str, float]:
    columns: dict[str, float] = {}
    for score in SCORES:
        values = np.array([[one[score], one[score] - other[score]] for one, other in zip(ours, reference, strict=True)])
        means, errors = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))
        columns |= {score: means[0], f"{score}_se": errors[0]}
        columns |= {f"{score}_difference": means[1], f"{score}_difference_se": errors[1]}
    return columns


def histograms(block: Block, results: Mapping[str, Sequence[Result]]) -> list[dict[str, Any]]:
    """Lines of the other table: predictions pooled over splits, counted by hundredths of probability."""
    return [
        {**dict(zip(KEY, (*block, method), strict=True)), "label": label, **dict(zip(COUNTS, counts, strict=True))}
        for method, chain in results.items()
        for label, counts in enumerate(np.sum([one["histogram"] for one in chain], axis=0))
    ]


def settings(scale: Scale, splits: int | None = None) -> dict[str, Any]:
    """Columns that say how large the study was; with all splits, unless stated otherwise."""
    return {
        "scale": scale.name,
        "seed": scale.seed,
        "tune": scale.tune,
        "draws": scale.draws,
        "splits": scale.rounds[-1] if splits is None else splits,
    }


def tables_of(path: Path) -> Tables:
    """The tables in a file, and in the one beside it whose name ends in ``_histograms``, in the article's order."""
    order = sorter(KEY, {name: rank for rank, name in enumerate([*data.NAMES, *CLASSIFIERS])})
    beside = path.with_name(f"{path.stem}_histograms.csv")
    return Tables(Table(path, KEY, order), Table(beside, [*KEY, "label"], order))


def read(name: str) -> pd.DataFrame:
    """The committed rows of a scale, ``"paper_histograms"``, or ``"article"``."""
    return pd.read_csv(FOLDER / f"{name}.csv")
