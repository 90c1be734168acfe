"""The runs in the shape of the article's tables, beside its numbers; what was run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from case_studies.orthants import results, study
from case_studies.orthants.scales import CHAINS
from case_studies.orthants.study import (
    ARTICLES,
    COUNTS,
    EXPERIMENT_4,
    ONE_FEATURE,
    OURS,
    Bias,
    Block,
    Extinction,
    Scale,
    Setting,
)

__all__ = [
    "THEIR_NAMES",
    "beside_article",
    "coverage",
    "evidences",
    "experiment_4",
    "fourth_table",
    "nats",
    "summarized",
    "table",
]

CELL = ["part", "which", "method", "draws"]
DASH = "–"
PUBLISHED = "article"
THEIR_NAMES = dict(zip(ARTICLES, ("NEW", "TITSIAS", "ESS", "HMC"), strict=True))
"""The article's names for its methods in experiment 4."""
IN_TABLES = (ONE_FEATURE, COUNTS[1], OURS)


def with_errors(runs: pd.DataFrame) -> pd.DataFrame:
    """With the errors of log p(y|theta), ``nats`` and ``percent`` of its size, infinite where no particle is left."""
    nats = runs["log_error"].abs()
    return runs.assign(nats=nats, percent=100.0 * nats / runs["truth"].abs(), probability=runs["probability_error"])


def summarized(runs: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Mean of an error over the runs with particles, its standard error, the runs, the extinct ones, and seconds each.

    Parameters
    ----------
    runs : DataFrame
    measure : {"percent", "nats", "probability"}
    """
    given = with_errors(runs)
    alive = given[np.isfinite(given[measure])].groupby(CELL)
    summary = alive[measure].agg(["mean", "sem"]).rename(columns={"sem": "error"})
    groups = given.groupby(CELL)
    extinct = np.isneginf(given["log_evidence"]).groupby([given[name] for name in CELL]).sum()
    return summary.assign(runs=groups.size(), extinct=extinct, seconds=groups["seconds"].mean())


def beside_article(runs: pd.DataFrame, part: str, measure: str) -> pd.DataFrame:
    """Return the article's cells of one experiment below ours: indexed by method, draws and problem."""
    ours = summarized(runs, measure).loc[part]
    published = results.read("article")
    published = published[(published["part"] == part) & (published["measure"] == measure)]
    published = published.assign(method=PUBLISHED, runs=np.nan, extinct=0, seconds=np.nan)
    columns = ["mean", "error", "runs", "extinct", "seconds"]
    frames = [
        ours.reset_index()[["which", "method", "draws", *columns]],
        published[["which", "method", "draws", *columns]],
    ]
    return pd.concat(frames).set_index(["method", "draws", "which"])


def table(runs: pd.DataFrame, part: str, measure: str, digits: int) -> pd.DataFrame:
    """Table 1, 2 or 3: mean error (standard error), a column per problem; [k]: k runs, fewer than the article."""
    cells = beside_article(runs, part, measure)
    full = study.SCALES["paper"].runs(part, 1, 1, False)
    shown = [
        _printed(*row, digits, full) for row in cells[["mean", "error", "runs", "extinct"]].itertuples(index=False)
    ]
    wide = pd.Series(shown, cells.index).unstack("which").fillna(DASH)
    names = [PUBLISHED, *IN_TABLES]
    return wide.loc[[name for name in names if name in wide.index.get_level_values("method")]]


def _printed(mean: float, error: float, runs: float, extinct: float, digits: int, full: int) -> str:
    text = f"{mean:.{digits}f}" + ("" if np.isnan(error) else f" ({error:.{digits}f})")
    if extinct:
        text += f", {extinct:.0f} extinct"
    return text if np.isnan(runs) or runs == full else f"{text} [{runs:.0f}]"


def nats(runs: pd.DataFrame) -> pd.DataFrame:
    """Mean absolute error of log p(y|theta) in nats on the problems of experiment 2, by method and draws."""
    cells = summarized(runs, "nats").loc["linear"]
    wide = cells["mean"].unstack("which")
    return wide.loc[[(name, draws) for name, draws in wide.index if name in IN_TABLES]]


def experiment_4(settings: pd.DataFrame) -> pd.DataFrame:
    """Means over the pairs of hyper-parameters, indexed by problem and method.

    ``mae_post``, ``mae_median`` and ``mae_reference`` of probabilities, ``log_error`` in nats, and ``seconds``.
    """
    given = settings.assign(log_error=settings["log_error"].abs())
    names = ["mae_post", "mae_median", "mae_reference", "log_error", "seconds"]
    return given.groupby(["problem", "method"])[names].mean()


def fourth_table(settings: pd.DataFrame, measure: str, scale: float, digits: int) -> pd.DataFrame:
    """Table 4, a measure times a scale: a row for each problem, our methods, and the article's where it has them."""
    ours = experiment_4(settings)[measure].unstack("method")[list(EXPERIMENT_4)]
    parts = {"ours": ours}
    published = results.read("article_classes")
    if measure in published:
        parts["article"] = published.set_index(["problem", "method"])[measure].unstack()[list(THEIR_NAMES.values())]
    wide = pd.concat(parts, axis=1).sort_index()
    return wide.map(lambda value: DASH if np.isnan(value) else f"{scale * value:.{digits}f}")


def evidences(settings: pd.DataFrame) -> pd.DataFrame:
    """Mean error of log p(y|theta) in nats and processor seconds, over the pairs of hyper-parameters."""
    found = experiment_4(settings)
    wide = found[["log_error", "seconds"]].unstack("method")
    columns = [(name, method) for name in ("log_error", "seconds") for method in EXPERIMENT_4]
    return wide[[(name, method) for name, method in columns if name == "seconds" or method not in CHAINS]]


def coverage(frames: dict[type, pd.DataFrame], scale: Scale) -> pd.DataFrame:
    """How many units of the scale there are, and what made them."""
    every = study.units(scale)
    parts: dict[str, tuple[type, Sequence[str]]] = {
        "Tables 1 to 3, figures": (Block, Block._fields),
        "Table 4": (Setting, Setting._fields),
        "bias": (Bias, Bias._fields),
        "extinction": (Extinction, Extinction._fields),
    }
    rows = {}
    for name, (kind, fields) in parts.items():
        there = frames[kind]
        machines, versions = ("; ".join(sorted(set(there[key]))) for key in ("machine", "version"))
        wanted = sum(isinstance(unit, kind) for unit in every)
        done = len(there[list(fields)].drop_duplicates())
        rows[name] = {"units": done, "of": wanted, "version": versions, "machine": machines}
    return pd.DataFrame(rows).T
