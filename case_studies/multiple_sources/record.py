"""The record of the article on several sources of features, with other data, because its scans are not public."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pandas as pd

from case_studies.multiple_sources import results
from case_studies.multiple_sources.comparison import OF_THE_ARTICLE, pooled, scored
from case_studies.multiple_sources.scales import FOLDS, SCALES
from case_studies.multiple_sources.study import JOINT
from case_studies.tools.articles import SEVERAL_SOURCES
from case_studies.tools.record import Entry, Finding, Share, made_by

__all__ = ["entries"]

STUDY = "/case_studies/multiple_sources"
FOLDER = "multiple_sources/results"
SOURCES, REGIONS = "mfeat-4-60", "regions"
OTHERS = ("The data are others, so only findings are compared.",)
SUMS = ["weighted", "unweighted"]
CONVERGED = 1.1
"""R-hat below which the article counts a chain as converged."""


def entries() -> list[Entry]:
    """Entries of all tables and figures."""
    samplers, weights, folds = map(results.longest, ("samplers", "weights", "folds"))
    predictions = results.longest("predictions")
    shown = [_sizes(samplers, "Table 2", "five kinds of scans", SOURCES)]
    shown += [_sizes(samplers, "Table 4", "six regions", "nutrimouse")]
    shown += [_scores(predictions, folds, "Table 3", "five kinds of scans", SOURCES)]
    shown += [_scores(predictions, folds, "Table 5", "six regions", REGIONS)]
    shown += [_rhat(results.longest("rhat"), samplers), _posterior(weights, folds), _simple_mkl(weights, folds)]
    return [*_not_run(), *shown, _rejected(predictions, folds)]


def _not_run() -> list[Entry]:
    definitions = "`case_studies/multiple_sources/samplers.py` has all six, and Tables 2 and 4 compare them"
    return [
        Entry(SEVERAL_SOURCES, "Table 1", "definitions of the six samplers", missing=f"a definition; {definitions}"),
        Entry(
            SEVERAL_SOURCES, "Figure 1", "slices of the kinds of scans of a subject", missing="the scans are not public"
        ),
    ]


def _entry(item: str, shows: str, extent: Share, made: str, findings: Sequence[Finding], files: Sequence[str]) -> Entry:
    paths = [f"{FOLDER}/{path.name}" for name in files for path in results.paths(name)]
    return Entry(SEVERAL_SOURCES, item, shows, STUDY, [extent], made, None, findings, notes=OTHERS, files=paths)


def _sizes(samplers: pd.DataFrame, item: str, of: str, name: str) -> Entry:
    there = samplers[(samplers["data"] == name) & samplers["sampler"].isin(OF_THE_ARTICLE)]
    slowest = there.set_index("sampler")["ess_weights_min"] / (there["chains"] * there["draws"]).to_numpy()
    metropolis, others = slowest.loc[["(e)", "(f)"]], slowest.loc[["(a)", "(b)", "(c)", "(d)"]]
    return _entry(
        item,
        f"effective sizes of the two samplers that converged on {of}",
        Share(len(there), len(OF_THE_ARTICLE), f"samplers on {name}"),
        made_by(there),
        [
            Finding(
                "the slowest weight of (e) and (f) has less than a hundredth of the draws",
                bool((metropolis < 0.01).all()),
            ),
            Finding("(e) and (f) mix better than (a) to (d)", bool(metropolis.min() > others.max())),
        ],
        ["samplers"],
    )


def _scores(predictions: pd.DataFrame, folds: pd.DataFrame, item: str, of: str, name: str) -> Entry:
    there = folds[folds["data"] == name]
    means = (
        scored(predictions[predictions["data"] == name]).groupby("method")[["balanced_accuracy", "brier_score"]].mean()
    )
    sums, alone = means.loc[SUMS], means.drop(index=list(JOINT))
    wanted = pd.DataFrame(product([*alone.index, *JOINT], range(FOLDS)), columns=["method", "fold"])
    return _entry(
        item,
        f"accuracy and Brier score from {of}",
        Share.counted(there, wanted, f"folds on {name}"),
        made_by(there),
        [
            Finding(
                "sums of all sources have better Brier scores than any source alone",
                bool(sums["brier_score"].max() < alone["brier_score"].min()),
            ),
            Finding(
                "weights do not help: the Brier scores of the two sums differ by less than 0.05",
                bool(abs(sums["brier_score"].diff().iloc[-1]) < 0.05),
            ),
            Finding(
                "SimpleMKL is less accurate than both sums",
                bool(means.loc["SimpleMKL", "balanced_accuracy"] < sums["balanced_accuracy"].min()),
            ),
        ],
        ["folds", "predictions"],
    )


def _rhat(rhat: pd.DataFrame, samplers: pd.DataFrame) -> Entry:
    there, all_draws = samplers[samplers["sampler"] == "(e)"], SCALES["paper"].chain_draws
    largest = rhat[rhat["sampler"] == "(e)"].pivot(index="data", columns="iterations", values="largest")
    findings = [
        Finding(f"after a thousand iterations a weight of (e) has not converged: {name}", bool(value > CONVERGED))
        for name, value in largest[1000].items()
    ]
    all_have = bool((largest[all_draws] < CONVERGED).all())
    findings.append(Finding(f"after {all_draws:,} iterations all weights of (e) have converged", all_have))
    return _entry(
        "Figure 2",
        "R-hat of the slowest variable by iterations",
        Share(int(there["draws"].min()), all_draws, "iterations"),
        made_by(there),
        findings,
        ["rhat"],
    )


def _of_scale(there: pd.DataFrame) -> Share:
    return Share(there["data"].nunique(), len(SCALES["paper"].data), "data sets")


def _posterior(weights: pd.DataFrame, folds: pd.DataFrame) -> Entry:
    there = weights[weights["method"] == "weighted"]
    return _entry(
        "Figure 3",
        "posterior of the weights",
        _of_scale(there),
        made_by(folds[folds["method"] == "weighted"]),
        [
            Finding(
                "the posterior of each weight is broad: its deviation is at least a third of its mean",
                bool((there["sd"] >= there["mean"] / 3.0).all()),
            )
        ],
        ["weights"],
    )


def _simple_mkl(weights: pd.DataFrame, folds: pd.DataFrame) -> Entry:
    there = weights[weights["method"] == "SimpleMKL"]
    by_fold = there.groupby(["data", "source", "fold"])["mean"].first().unstack("fold")
    none = by_fold == 0.0
    return _entry(
        "Figure 4",
        "weights of SimpleMKL by fold",
        _of_scale(there),
        made_by(folds[folds["method"] == "SimpleMKL"]),
        [
            Finding("the weights are sparse: some sources have none in a fold", bool(none.any(axis=None))),
            Finding(
                "a source without weight in one fold has more than a tenth in another",
                bool((none.any(axis=1) & (by_fold.max(axis=1) > 0.1)).any()),
            ),
        ],
        ["weights"],
    )


def _rejected(predictions: pd.DataFrame, folds: pd.DataFrame) -> Entry:
    names = [SOURCES, REGIONS]
    return _entry(
        "Figure 5",
        "accuracy against the share of rejected predictions",
        _of_scale(predictions[predictions["data"].isin(names)]),
        made_by(folds[folds["data"].isin(names) & folds["method"].isin(SUMS)]),
        [
            Finding(
                "the more certain half of the weighted sum's predictions is more accurate than all of them",
                all(_certain_half_is_better(predictions, name) for name in names),
            )
        ],
        ["predictions"],
    )


def _certain_half_is_better(predictions: pd.DataFrame, name: str) -> bool:
    y, probabilities = pooled(predictions, name, "weighted")
    right, certainty = probabilities.argmax(axis=1) == y, probabilities.max(axis=1)
    return bool(right[certainty >= sorted(certainty)[len(y) // 2]].mean() > right.mean())
