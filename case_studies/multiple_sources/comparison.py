"""Scores of the classifiers in the shape of the article's tables, paired differences, and what samplers gave."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd

from case_studies.multiple_sources import results
from case_studies.multiple_sources.study import JOINT
from pmgp import scores

__all__ = [
    "agreement",
    "article",
    "of_samplers",
    "one_source",
    "paired",
    "pooled",
    "scored",
    "table",
]

DASH = "–"
SCORES = ("balanced_accuracy", "brier_score", "log_loss")
OF_THE_ARTICLE = ("(a)", "(b)", "(c)", "(d)", "(e)", "(f)")


def _labels_and_probabilities(lines: pd.DataFrame) -> tuple[np.ndarray, np.ndarray | None]:
    """Labels, and probabilities if a classifier gives any."""
    columns = [name for name in lines if str(name).startswith("p") and str(name)[1:].isdigit()]
    columns = [name for name in columns if lines[name].notna().any()]
    if not columns:
        return lines["label"].to_numpy(), None
    # A probability that was rounded to zero in the table is no certainty.
    found = np.maximum(lines[columns].to_numpy(), 1e-12)
    return lines["label"].to_numpy(), found / found.sum(axis=1, keepdims=True)


def scored(predictions: pd.DataFrame) -> pd.DataFrame:
    """Scores of each classifier on each fold; without probabilities the balanced accuracy alone."""
    rows = []
    for key, lines in predictions.groupby(["data", "method", "fold"], sort=False):
        y, probabilities = _labels_and_probabilities(lines)
        line = dict(zip(("data", "method", "fold"), key, strict=True))
        if probabilities is None:
            certain = np.eye(int(max(lines["label"].max(), lines["predicted"].max())) + 1)[lines["predicted"]]
            rows.append(line | {"balanced_accuracy": scores.classes.balanced_accuracy(y, certain)})
        else:
            found = scores.classes.summarize(y, probabilities)
            rows.append(line | {name: found[name] for name in SCORES})
    return pd.DataFrame(rows)


def table(predictions: pd.DataFrame, name: str) -> pd.DataFrame:
    """One data set in the shape of Tables 3 and 5: mean (smallest, largest) over the folds."""
    folds = scored(predictions[predictions["data"] == name])
    groups = folds.groupby("method", sort=False)[list(SCORES)]
    mean, low, high = groups.mean(), groups.min(), groups.max()
    shown = pd.DataFrame({score: _printed(mean[score], low[score], high[score]) for score in SCORES})
    # The sources alone first, as in the article.
    shown = shown.loc[sorted(shown.index, key=lambda method: list(JOINT).index(method) if method in JOINT else -1)]
    return shown.rename(columns=lambda score: score.replace("_", " "))


def article(number: int) -> pd.DataFrame:
    """Table 3 or 5 of the article."""
    rows = results.read("article")
    rows = rows[rows["table"] == number].set_index("method")
    printed = {
        name: _printed(rows[column], rows[f"{column}_min"], rows[f"{column}_max"])
        for name, column in {"balanced accuracy": "accuracy", "brier score": "brier"}.items()
    }
    return pd.DataFrame(printed)


def _printed(mean: pd.Series, low: pd.Series, high: pd.Series, digits: int = 3) -> pd.Series:
    values = zip(mean, low, high, strict=True)
    words = [DASH if np.isnan(m) else f"{m:.{digits}f} ({a:.{digits}f}, {b:.{digits}f})" for m, a, b in values]
    return pd.Series(words, index=mean.index)


def pooled(predictions: pd.DataFrame, name: str, method: str) -> tuple[np.ndarray, np.ndarray]:
    """Labels and probabilities of all folds together."""
    chosen = predictions[(predictions["data"] == name) & (predictions["method"] == method)]
    y, probabilities = _labels_and_probabilities(chosen)
    if probabilities is None:
        raise ValueError(f"{method} gives no probabilities")
    return y, probabilities


def paired(predictions: pd.DataFrame, name: str, method: str, other: str) -> tuple[float, float]:
    """Mean difference of the log losses of two classifiers over the folds, and its standard error."""
    folds = scored(predictions[predictions["data"] == name]).pivot(index="fold", columns="method", values="log_loss")
    difference = folds[method] - folds[other]
    return float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(len(difference)))


def one_source(predictions: pd.DataFrame, names: tuple[str, ...], ours: str = "pmgp") -> pd.DataFrame:
    """Scores of classifiers of one source, and log losses beside ours: ratio, difference and its paired error."""
    rows = []
    for name in names:
        means = scored(predictions[predictions["data"] == name]).groupby("method", sort=False)[list(SCORES)].mean()
        for method, line in means.iterrows():
            row = {"data": name, "method": method} | line.to_dict()
            if method != ours:
                difference, error = paired(predictions, name, ours, str(method))
                ratio = means.loc[ours, "log_loss"] / line["log_loss"]
                row |= {"our log loss over it": ratio, "difference": difference, "standard error": error}
            rows.append(row)
    return pd.DataFrame(rows).set_index(["data", "method"])


def of_samplers(samplers: pd.DataFrame) -> pd.DataFrame:
    """Effective sizes in percent of the draws, mean (smallest, largest) over variables; smallest ones per second.

    With the article's rows, and its samplers that were not run.
    """
    lines = []
    for _, row in samplers.iterrows():
        draws = row["chains"] * row["draws"]
        percent = {
            name: _percent(*(100.0 * row[f"ess_{part}_{what}"] / draws for what in ("mean", "min", "max")))
            for name, part in {"ESS of f, %": "f", "ESS of weights, %": "weights"}.items()
        }
        smallest = min(row["ess_f_min"], row["ess_weights_min"]) / row["seconds"]
        per_second = {"smallest ESS/s, weights": row["ess_weights_min"] / row["seconds"], "smallest ESS/s": smallest}
        lines.append({"data": row["data"], "sampler": row["sampler"]} | percent | per_second)
    run = set(zip(samplers["data"], samplers["sampler"], strict=True))
    lines += [
        {"data": name, "sampler": one} | dict.fromkeys(("ESS of f, %", "ESS of weights, %"), "not computed")
        for name in samplers["data"].unique()
        for one in OF_THE_ARTICLE
        if (name, one) not in run
    ]
    lines += _of_article()
    return pd.DataFrame(lines).set_index(["data", "sampler"]).sort_index()


def _of_article() -> list[dict[str, str]]:
    return [
        {
            "data": row["data"],
            "sampler": row["sampler"],
            "ESS of f, %": _percent(row["f_mean"], row["f_min"], row["f_max"]),
            "ESS of weights, %": _percent(row["weights_mean"], row["weights_min"], row["weights_max"]),
        }
        for _, row in results.read("article_samplers").iterrows()
    ]


def _percent(mean: float, low: float, high: float) -> str:
    return f"{mean:.3g} ({low:.3g}, {high:.3g})"


def agreement(posterior: pd.DataFrame) -> pd.DataFrame:
    """Largest difference of two samplers' posterior means of a weight, in Monte Carlo errors of the difference."""
    rows = []
    for name, lines in posterior.groupby("data", sort=False):
        means, errors = (lines.pivot(index="weight", columns="sampler", values=what) for what in ("mean", "error"))
        for one, other in combinations(means.columns, 2):
            standard = (means[one] - means[other]).abs() / np.hypot(errors[one], errors[other])
            rows.append({"data": name, "samplers": f"{one}, {other}", "largest difference": standard.max()})
    return pd.DataFrame(rows).set_index(["data", "samplers"])
