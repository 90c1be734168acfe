"""The record of figures 2 to 8 of the article on deep processes, with the data at hand."""

from __future__ import annotations

import numpy as np
import pandas as pd

from case_studies.deep import composition, results
from case_studies.deep.study import FEW, SCALES, TWO, Cell
from case_studies.tools.articles import DEEP_PROCESSES
from case_studies.tools.record import Entry, Finding, made_by

__all__ = ["entries"]

STUDY, SCALE = "/case_studies/deep", "quick"
LINES, CURVES = (f"deep/results/{SCALE}{part}.csv" for part in ("", "_curves"))
TREATMENTS = ["RBF", "prior-fixed", "var-resampled"]
RIVALS = (
    "The article's rivals, expectation propagation and a network with dropout, are not at hand; a Gaussian process and "
    "boosted trees stand in for them."
)
NOTES = {
    "Figure 3": RIVALS,
    "Figure 4": "EEG in place of the airline data, which are not at hand.",
    "Figure 5": RIVALS,
}


def entries() -> list[Entry]:
    """Entries of figures 2 to 8."""
    lines = results.lines(results.FOLDER, SCALE).read()
    few = lines["features"] == FEW
    eeg, compared = lines["data"] == "eeg", lines["method"].isin(["RBF", "ARC"]) & few & lines["data"].isin(TWO)
    treated = lines["method"].isin(TREATMENTS) & few & lines["data"].isin(SCALES[SCALE].treated)
    one, two = lines["layers"] == 1, lines["layers"] == 2
    features = lines[eeg & one & lines["method"].isin(TREATMENTS)]
    depth = lines[eeg & (lines["method"] == "RBF") & few]
    rivals = lines[lines["method"].isin(["GP", "trees"])]
    return [
        _entry("Figure 2", "error on EEG by the number of random features", features, _by_features(features)),
        _entry("Figure 3", "error over time, one layer", lines[compared & one], _beside(lines[compared & one], rivals)),
        _entry("Figure 4", "error over time by depth", depth, _by_depth(depth)),
        _entry("Figure 5", "error over time, two layers", lines[compared & two],
               _beside(lines[compared & two], rivals)),
        _entry("Figure 6", "three treatments of the frequencies, one layer", lines[treated & one],
               _treated(lines[treated & one])),
        _entry("Figure 7", "three treatments of the frequencies, two layers", lines[treated & two],
               _treated(lines[treated & two])),
        _entry("Figure 8", "the approximation beside a Markov chain for two layers",
               lines[lines["data"] == "composition"], _functions(lines[lines["data"] == "composition"])),
    ]  # fmt: skip


def _entry(item: str, shows: str, stored: pd.DataFrame, findings: list[Finding]) -> Entry:
    if not findings:
        return Entry(
            DEEP_PROCESSES, item, shows, study=STUDY, missing="the study has cells for it, which are not run yet"
        )
    return Entry(
        article=DEEP_PROCESSES,
        item=item,
        shows=shows,
        study=STUDY,
        extent=[f"{len(stored)} fits"],
        made=made_by(stored),
        findings=findings,
        notes=[NOTES[item]] if item in NOTES else [],
        files=[LINES] if item == "Figure 8" else [LINES, CURVES],
    )


def _by_features(lines: pd.DataFrame) -> list[Finding]:
    """Errors of the fewest and of the most features, and of the treatments with the most."""
    errors = lines.pivot_table(index="features", columns="method", values="error").sort_index()
    if len(errors) < 2:
        return []
    few, most = errors.iloc[0], errors.iloc[-1]
    return [
        Finding("with frequencies from the prior, more features have a lower error",
                bool(most["prior-fixed"] < few["prior-fixed"])),
        Finding("with frequencies that are resampled, more features do not have a lower error",
                bool(most["var-resampled"] >= few["var-resampled"])),
        Finding("with the most features, learned frequencies with fixed randomness have the lowest error",
                bool(most.idxmin() == "RBF")),
    ]  # fmt: skip


def _beside(lines: pd.DataFrame, rivals: pd.DataFrame) -> list[Finding]:
    best = lines.groupby("data")["error"].min()
    process = rivals[rivals["method"] == "GP"].set_index("data")["error"].reindex(best.index).dropna()
    return [
        Finding(f"on {name}, the better kernel has at most the error of a shallow process", bool(best[name] <= error))
        for name, error in process.items()
    ]


def _by_depth(lines: pd.DataFrame) -> list[Finding]:
    by_layers = lines.groupby("layers")[["error", "per_thousand"]].mean()
    if by_layers.index.max() < 3:
        return []
    slower = bool(by_layers["per_thousand"].is_monotonic_increasing)
    deepest = by_layers.index.max()
    better = bool(by_layers.loc[deepest, "error"] < by_layers.loc[2, "error"])
    return [Finding("more layers take more time", slower),
            Finding(f"{deepest} layers have a lower error than two", better)]  # fmt: skip


def _treated(lines: pd.DataFrame) -> list[Finding]:
    errors = lines.pivot_table(index="data", columns="method", values="error").dropna()
    return [
        Finding(f"on {name}, learned frequencies with fixed randomness have the lowest error",
                bool(row.idxmin() == "RBF"))
        for name, row in errors.iterrows()
    ]  # fmt: skip


def _functions(lines: pd.DataFrame) -> list[Finding]:
    """Signs of the hidden function, and spreads of f where there are observations, with the most features stored."""
    methods = lines.groupby("features")["method"].nunique()
    both = methods.index[methods == len(composition.METHODS)]
    if both.empty:
        return []
    found = {method: results.functions(SCALE, Cell("composition", method, 2, int(both.max()), 0))
             for method in composition.METHODS}  # fmt: skip
    hidden = found["NUTS"]["hidden"]
    inside = np.abs(found["NUTS"]["x"]) < 2.0
    spread = {method: one["f"][:, inside].std(axis=0).mean() for method, one in found.items()}
    return [
        Finding("the chain finds hidden functions of both signs", len(set(np.sign(hidden @ hidden[0]))) > 1),
        Finding("the approximation has the larger spread", bool(spread["variational"] > spread["NUTS"])),
    ]
