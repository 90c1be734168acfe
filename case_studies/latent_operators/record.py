"""The record of Tables 1 and 2 of the comparative evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pandas as pd

from case_studies.latent_operators import results, study
from case_studies.latent_operators.comparison import GROUP, OPERATION_COLUMNS, pooled
from case_studies.latent_operators.sensitivity import BETWEEN, LARGE, LOCAL, LOG_VARIANCE, SLOW, SMALL, SMALLER
from case_studies.latent_operators.study import OPERATORS, OURS
from case_studies.tools import simulation
from case_studies.tools.articles import COMPARATIVE_EVALUATION
from case_studies.tools.record import Entry, Finding, Numbers, Remark, Share, made_by

__all__ = ["entries"]

STUDY = "/case_studies/latent_operators"
PAPER = "latent_operators/results/paper.csv"
HAMILTONIAN = ["HMC v1", "HMC v2"]


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
    """SMMALA's metric is constant for the model whose likelihood has constant Fisher information."""
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
    sensitivity = results.read("sensitivity")
    as_given = sensitivity[sensitivity["log_variance"] == LOG_VARIANCE]
    between = sensitivity[sensitivity["log_variance"] == BETWEEN]
    smaller = sensitivity[sensitivity["log_variance"] == SMALLER]
    return Entry(
        article=COMPARATIVE_EVALUATION,
        item="Table 2",
        shows="effective sizes of six operators for f given theta",
        study=STUDY,
        extent=[Share.counted(cells, wanted, "operators on a data set")],
        made=made_by(cells),
        numbers=Numbers(frame),
        remarks=[
            _hamiltonian(article, as_given),
            _langevin(article, as_given),
            _variance(article, smaller),
            _large_hamiltonian(article, as_given),
            _large_variance(article, smaller),
            _large_ordinal(article, as_given),
            _large_between(article, smaller, [("SMMALA", "LRG", 10)]),
            _large_between(article, between, [(operator, "LCX", 10) for operator in HAMILTONIAN]),
            _data_sets(article, cells, "HMC v2", "LCX", 2),
        ],
        notes=[_excluded(article, as_given)],
        files=[PAPER, "latent_operators/results/sensitivity.csv"],
    )


def _data_sets(article: pd.DataFrame, cells: pd.DataFrame, operator: str, model: str, d: int) -> Remark:
    """The standard error of a mean over data sets that differ by orders of magnitude."""
    here = (cells["operator"] == operator) & (cells["model"] == model) & (cells["d"] == d) & (cells["n"] == LARGE)
    each = cells.loc[here, "ess_ar_mean"]
    away = abs(each.mean() - article.loc[(LARGE, d, model, operator), "ess_mean"]) / each.sem()
    return Remark(
        f"the data sets decide: {len(each)} of them have {each.min():.1f} to {each.max():.0f} effective draws, and the "
        f"article's mean is {away:.1f} standard errors of ours away.",
        {"operator": [operator], "model": [model], "d": [d], "n": [LARGE]},
    )


def _tuned(
    article: pd.DataFrame, lines: pd.DataFrame, rate: float, cells: Sequence[tuple[str, str, int]], n: int = SMALL
) -> str:
    """Effective sizes with this acceptance rate on the data sets that were tried, each beside the article's number."""
    parts = []
    for operator, model, d in cells:
        there = lines[(lines["operator"] == operator) & (lines["model"] == model) & (lines["d"] == d)]
        there = there[there["n"] == n]
        theirs = article.loc[(n, d, model, operator), "ess_mean"]
        parts.append(f"{operator} on {model} with d = {d}: {_range(there[there['rate'] == rate])} (article {theirs:,})")
    return "; ".join(parts)


def _range(lines: pd.DataFrame) -> str:
    written = [f"{size:,.0f}" if size >= 100 else f"{size:.2g}" for size in lines["ess_ar"].agg(["min", "max"])]
    return " to ".join(written if len(lines) > 1 else written[:1])


def _hamiltonian(article: pd.DataFrame, lines: pd.DataFrame) -> Remark:
    cells = [(operator, model, d) for model, d in (("LRG", 2), ("VLT", 2), ("VLT", 10)) for operator in HAMILTONIAN]
    return Remark(
        "the article tunes Hamiltonian moves to a “recommended” acceptance rate that it does not name; ours is 65 %. "
        f"With shorter steps, 97 % of which are accepted: {_tuned(article, lines, 0.97, cells)}. "
        f"With 90 %: {_tuned(article, lines, 0.9, cells[:1])}.",
        {"operator": HAMILTONIAN, "n": [SMALL]},
    )


def _large_hamiltonian(article: pd.DataFrame, lines: pd.DataFrame) -> Remark:
    cells = [(operator, model, d) for model, d in product(("LRG", "VLT"), (2, 10)) for operator in HAMILTONIAN]
    return Remark(
        f"the acceptance rate, as with {SMALL} points. With {LARGE} points and shorter steps, 97 % of which are "
        f"accepted, one chain each: {_tuned(article, lines, 0.97, cells, LARGE)}. "
        f"With 90 %: {_tuned(article, lines, 0.9, cells[:1], LARGE)}.",
        {"operator": HAMILTONIAN, "model": ["LRG", "VLT"], "n": [LARGE]},
    )


def _langevin(article: pd.DataFrame, lines: pd.DataFrame) -> Remark:
    return Remark(
        "the article does not name SMMALA's acceptance rate either; ours is 57 %, best where the metric is constant. "
        f"With longer steps, 30 % of which are accepted: {_tuned(article, lines, 0.3, [('SMMALA', 'LRG', 2)])}.",
        {"operator": ["SMMALA"], "model": ["LRG"], "d": [2], "n": [SMALL]},
    )


def _variance(article: pd.DataFrame, lines: pd.DataFrame) -> Remark:
    """Return what data with a smaller variance of f give, where nothing is tuned or the article names the rate."""
    cells = [(operator, model, 10) for model in simulation.MODELS for operator in LOCAL if operator != "SMMALA"]
    langevin = _tuned(article, lines, 0.0, [("SMMALA", "LRG", 10)])
    return Remark(
        "the variance of f in the article's data seems to be smaller than the exp(2) that it gives. With its square "
        f"root, on {lines['dataset'].nunique()} data sets of each model, the prior changed with them: "
        f"{_tuned(article, lines, 0.0, cells)}. "
        f"That of SMMALA is between those with both variances: {langevin}.",
        {"operator": LOCAL, "d": [10], "n": [SMALL]},
    )


def _large_variance(article: pd.DataFrame, lines: pd.DataFrame) -> Remark:
    chosen = [name for name in LOCAL if name != "SMMALA"]
    cells = [(operator, model, 10) for model in simulation.MODELS for operator in chosen]
    return Remark(
        f"the variance of f, as with {SMALL} points. With {LARGE} points and the square root of that variance: "
        f"{_tuned(article, lines, 0.0, cells, LARGE)}.",
        {"operator": chosen, "d": [10], "n": [LARGE]},
    )


def _large_ordinal(article: pd.DataFrame, lines: pd.DataFrame) -> Remark:
    cells = [("HMC v2", "ORD", 2)]
    return Remark(
        "the article's is between those with acceptance rates of 65 % and 90 %, one chain each. With 65 %: "
        f"{_tuned(article, lines, 0.65, cells, LARGE)}. With 90 %: {_tuned(article, lines, 0.9, cells, LARGE)}. "
        "The article does not give the model's thresholds and noise either.",
        {"operator": ["HMC v2"], "model": ["ORD"], "d": [2], "n": [LARGE]},
    )


def _large_between(article: pd.DataFrame, lines: pd.DataFrame, cells: Sequence[tuple[str, str, int]]) -> Remark:
    """Return what a smaller variance gives where it moves cells beyond the article's figures."""
    [variance] = lines["log_variance"].unique()
    return Remark(
        f"the variance of f: the article's is between those with exp({variance:g}) and with exp({LOG_VARIANCE:g}). "
        f"With {LARGE} points and exp({variance:g}): {_tuned(article, lines, 0.0, cells, LARGE)}.",
        {"operator": [cell[0] for cell in cells], "model": [cells[0][1]], "d": [10], "n": [LARGE]},
    )


def _excluded(article: pd.DataFrame, lines: pd.DataFrame) -> str:
    """Return a note on settings that were tried and explain nothing."""
    langevin = _tuned(article, lines, 0.3, [("SMMALA", "LRG", 10)])
    slow = _tuned(article, lines, 0.0, [(operator, model, 10) for operator, model in SLOW])
    count = lines.loc[(lines["rate"] == 0.0) & (lines["n"] == SMALL), "dataset"].nunique()
    return f"Tried without success: longer steps of {langevin}; {count} data sets, and starts at the true f: {slow}."
