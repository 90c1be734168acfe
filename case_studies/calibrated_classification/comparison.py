"""The study's results beside what the article's text says; its numbers are in pictures only."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import t as student_t

from case_studies.calibrated_classification import data, results
from case_studies.calibrated_classification.classifiers import CLASSIFIERS, OURS, REFERENCE
from case_studies.calibrated_classification.study import BINS, SCORES

__all__ = [
    "SIGNS", "beside_article", "confidence", "confident", "coverage", "curve", "differences", "monte_carlo",
    "posterior_of_theta", "reliability", "table", "verdicts",
]  # fmt: skip

SIGNS = {score: -1.0 if score in ("log_loss", "brier_score") else 1.0 for score in SCORES}
"""Whether large values of a score are good."""

SIGNIFICANCE = 0.05
"""Level of the paired t test by which a difference counts as clear; there is no correction for their number."""

DASH = "–"

DATASETS = pd.CategoricalDtype(list(data.NAMES), ordered=True)
METHODS = pd.CategoricalDtype(list(CLASSIFIERS), ordered=True)


def coverage(cells: pd.DataFrame) -> pd.DataFrame:
    """Numbers of splits that have been run, by data set and size."""
    ordered = cells.assign(data=cells["data"].astype(DATASETS))
    splits = ordered.pivot_table(index="data", columns="n", values="splits", aggfunc="min", observed=True)
    return splits.astype("Int64").astype("string").fillna("")


def table(cells: pd.DataFrame, score: str) -> pd.DataFrame:
    """Means and standard errors over splits: a row for each data set and size, a column for each classifier."""
    return _wide(cells, [f"{m:.4f} ({e:.4f})" for m, e in zip(cells[score], cells[f"{score}_se"], strict=True)])


def differences(cells: pd.DataFrame, score: str) -> pd.DataFrame:
    """Mean differences from the exact sampler on the same splits, and their standard errors; clear ones have a star."""
    mean, error = cells[f"{score}_difference"], cells[f"{score}_difference_se"]
    stars = np.where(_clear(cells, score), "*", "")
    printed = [f"{m:+.4f} ({e:.4f}){s}" for m, e, s in zip(mean, error, stars, strict=True)]
    return _wide(cells, printed).drop(columns=REFERENCE)


def _clear(cells: pd.DataFrame, score: str) -> pd.Series:
    """Whether a difference is further from zero than its standard error explains."""
    limit = student_t.ppf(1.0 - SIGNIFICANCE / 2.0, cells["splits"] - 1)
    return cells[f"{score}_difference"].abs() > limit * cells[f"{score}_difference_se"]


def _wide(cells: pd.DataFrame, printed: list[str]) -> pd.DataFrame:
    frame = cells[["data", "n", "method"]].assign(cell=printed).astype({"data": DATASETS, "method": METHODS})
    wide = frame.pivot_table(index=["data", "n"], columns="method", values="cell", aggfunc="first", observed=True)
    return wide.set_axis([str(name) for name in wide.columns], axis=1)


def verdicts(cells: pd.DataFrame, score: str) -> pd.DataFrame:
    """Count the data sets where a classifier is clearly worse than the exact sampler, even with it, or clearly better.

    A column for each number of training points, and one for all; written "worse / even / better".
    """
    others = cells[cells["method"] != REFERENCE]
    advantage, clear = SIGNS[score] * others[f"{score}_difference"], _clear(others, score)
    counted = pd.DataFrame(
        {"worse": clear & (advantage < 0.0), "even": ~clear, "better": clear & (advantage > 0.0)}
    ).assign(method=others["method"].astype(METHODS), n=others["n"])
    by_size = counted.groupby(["method", "n"], observed=True).sum().apply(_printed, axis=1).unstack()
    total = counted.drop(columns="n").groupby("method", observed=True).sum().apply(_printed, axis=1)
    return by_size.rename(columns=lambda n: f"n = {n}").assign(all=total).rename_axis(columns=None)


def _printed(counts: pd.Series) -> str:
    return " / ".join(str(count) for count in counts)


def beside_article(cells: pd.DataFrame) -> pd.DataFrame:
    """Statements of the article on each classifier beside the verdicts on all data sets and sizes, for four scores."""
    said = results.read("article").groupby("method", sort=False)["statement"].agg("; ".join)
    columns = {score: verdicts(cells, score)["all"] for score in ("capacity_accuracy", "capacity_auc", "log_loss")}
    beside = pd.DataFrame(columns)
    beside.index = beside.index.astype(str)
    return beside.assign(article=said.reindex(beside.index).fillna("(not in it)"))


def posterior_of_theta(cells: pd.DataFrame) -> pd.DataFrame:
    """Posterior means of theta's logarithms: their mean difference from the exact sampler's, in posterior sds.

    For expectation propagation's evidence, and for :data:`OURS`, whose posterior is the same: there the difference is
    Monte Carlo error.
    """
    exact = cells[cells["method"] == REFERENCE].set_index(["data", "n"])
    shown = {}
    for method in ("MCMC EP", OURS):
        ours = cells[cells["method"] == method].set_index(["data", "n"])
        for name in ("log_lengthscale", "log_variance"):
            shown[method, name] = (ours[name] - exact[name]) / exact[f"{name}_sd"]
    frame = pd.DataFrame(shown).reset_index()
    return frame.assign(data=frame["data"].astype(DATASETS)).sort_values(["data", "n"]).set_index(["data", "n"])


def monte_carlo(cells: pd.DataFrame) -> pd.DataFrame:
    """Effective sizes of chains, Monte Carlo errors of probabilities and time; maxima on the search's boundary."""
    columns = ["ess", "probability_error", "seconds", "at_bound"]
    by_method = cells.assign(method=cells["method"].astype(METHODS)).groupby("method", observed=True)[columns].mean()
    names = ["effective size of θ", "error of a probability", "seconds", "share of maxima on the border"]
    return by_method.set_axis(names, axis=1)


def counts(histograms: pd.DataFrame, dataset: str, n: int, method: str) -> np.ndarray:
    """Pooled predictions by label and hundredth of probability: (2, 100)."""
    chosen = histograms[(histograms["data"] == dataset) & (histograms["n"] == n) & (histograms["method"] == method)]
    return chosen.sort_values("label")[results.COUNTS].to_numpy()


def confidence(histograms: pd.DataFrame, least: float = 0.9) -> pd.DataFrame:
    """How often a classifier is confident, and how often wrong then, as shares; not a number where it never is.

    Parameters
    ----------
    histograms : DataFrame
        Those of pooled predictions, as :func:`results.read` gives them.
    least : float
        Probability of the more probable class from which on a prediction counts as confident.

    Returns
    -------
    DataFrame
        ``often`` and ``wrong``, indexed by data set, size and method.
    """
    cut = round(BINS * (1.0 - least))
    low = histograms[results.COUNTS[:cut]].sum(axis=1)
    high = histograms[results.COUNTS[BINS - cut :]].sum(axis=1)
    counted = histograms[[*results.KEY]].assign(
        confident=low + high,
        wrong=np.where(histograms["label"] == 1, low, high),
        points=histograms[results.COUNTS].sum(axis=1),
    )
    sums = counted.groupby(results.KEY).sum()
    return pd.DataFrame({"often": sums["confident"] / sums["points"], "wrong": sums["wrong"] / sums["confident"]})


def confident(histograms: pd.DataFrame, least: float = 0.9) -> pd.DataFrame:
    """Average the percentages over data sets; write them as "confident, wrong", or a dash if none are confident."""
    means = 100.0 * confidence(histograms, least).groupby(["method", "n"]).mean()
    cells = [f"{often:.0f}, {wrong:.1f}" if often > 0.0 else DASH for often, wrong in means.to_numpy()]
    wide = pd.Series(cells, index=means.index).unstack().reindex([name for name in CLASSIFIERS if name in means.index])
    return wide.rename(columns=lambda n: f"n = {n}").rename_axis(columns=None)


def curve(pooled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Degree of abstention and accuracy of the other predictions, pooled over splits, for thresholds 0 to 0.5.

    Parameters
    ----------
    pooled : (2, 100) array
        As :func:`counts` gives it.
    """
    half = BINS // 2
    correct = pooled[0, :half][::-1] + pooled[1, half:]
    predicted = pooled.sum(axis=0)[:half][::-1] + pooled.sum(axis=0)[half:]
    kept = np.cumsum(predicted[::-1])[::-1]
    there = kept > 0
    return 1.0 - kept[there] / kept[0], np.cumsum(correct[::-1])[::-1][there] / kept[there]


def reliability(pooled: np.ndarray, parts: int = 10) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean predicted probability, observed frequency and number of points in equal parts of [0, 1] that have any.

    A prediction counts as the middle of its hundredth.
    """
    grouped = pooled.reshape(2, parts, -1)
    size = grouped.sum(axis=(0, 2))
    there = size > 0
    middles = ((np.arange(BINS) + 0.5) / BINS).reshape(parts, -1)
    predicted = (grouped.sum(axis=0) * middles).sum(axis=1)
    return predicted[there] / size[there], grouped[1].sum(axis=1)[there] / size[there], size[there]
