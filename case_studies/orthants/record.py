"""The record of the article on orthant probabilities."""

from __future__ import annotations

import numpy as np
import pandas as pd

from case_studies.orthants import classes, results, study
from case_studies.orthants.comparison import THEIR_NAMES, experiment_4, summarized
from case_studies.orthants.study import COMPETITORS, CONTROLS, COUNTS, ONE_FEATURE, SCALES, Setting
from case_studies.tools.articles import ORTHANTS
from case_studies.tools.record import Entry, Finding, Numbers, Remark, Share, made_by

__all__ = ["entries"]

STUDY = "/case_studies/orthants"
FOLDER = "orthants/results"
THEIRS = COUNTS[0]
"""The article's method."""
FEW = 3
"""Runs of a problem where more would take too long."""
TABLES = {
    "Table 1": ("factor", "percent", "error of log probabilities of one-factor orthants by dimension and particles"),
    "Table 2": ("linear", "probability", "error of predicted probabilities on four problems with one feature"),
    "Table 3": ("linear", "percent", "error of the log evidence on four problems with one feature"),
}


NOT_CONVERGED = Remark(
    "the article says of its Hamiltonian chain that it fell short of converging. Ours learns its step size, and is "
    "about as close to the other methods as elliptical slices are.",
    {"method": ["HMC"], "measure": ["mae_median"]},
)
LESS_NOISE = Remark(
    "distances from the median are Monte Carlo errors, and ours are smaller: with a quarter of the draws they would be "
    "twice as large. As in the article, control variables have 50,000 iterations, each of which redraws all of them "
    "here, and the other methods run for about as long, or longer. It does not give their numbers of draws.",
    {"method": ["NEW", "TITSIAS", "ESS"], "measure": ["mae_median"]},
)


def entries() -> list[Entry]:
    """Entries of all tables and figures."""
    runs = results.read("paper_runs")
    tables = [_errors(runs, item, *parts) for item, parts in TABLES.items()]
    return [*tables, _probabilities(results.read("paper_classes")), *_over_time(runs)]


def _errors(runs: pd.DataFrame, item: str, part: str, measure: str, shows: str) -> Entry:
    index = ["which", "draws"]
    article = results.read("article")
    theirs = article[(article["part"] == part) & (article["measure"] == measure)].set_index(index)
    ours = summarized(runs, measure).loc[part].xs(ONE_FEATURE, level="method").reindex(theirs.index)
    there = runs[(runs["part"] == part) & (runs["method"] == ONE_FEATURE)]
    wanted = theirs.index.to_frame(index=False)
    errors = np.hypot(theirs["error"], ours["error"])
    return Entry(
        article=ORTHANTS,
        item=item,
        shows=shows,
        study=STUDY,
        extent=[Share.counted(there, wanted, "problems and numbers of particles")],
        made=made_by(there),
        numbers=Numbers(
            pd.DataFrame({"ours": ours["mean"], "article": theirs["mean"], "deviation": errors}),
            deviations="the standard errors of the difference",
        ),
        remarks=[_few_runs(theirs["mean"], ours, errors)],
        files=[f"{FOLDER}/paper_runs.csv"],
    )


def _few_runs(article: pd.Series, ours: pd.DataFrame, errors: pd.Series) -> Remark:
    """Where the article's runs are many more than ours."""
    off = ((ours["mean"] - article).abs() / errors).where(ours["runs"] <= FEW)
    return Remark(
        f"ours is the mean of {FEW} runs, which say little about its error; by that error the two differ by at most "
        f"{off.max():.1f} standard errors of the difference.",
        {"which": [which for which, _ in off.dropna().index], "draws": [draws for _, draws in off.dropna().index]},
    )


def _probabilities(settings: pd.DataFrame) -> Entry:
    key = ["problem", "method"]
    wide = results.read("article_classes").set_index(key).rename_axis(columns="measure")
    article = wide.stack().dropna()
    ours = experiment_4(settings)[list(wide.columns)].rename_axis(columns="measure").stack()
    ours = ours[ours.index.get_level_values("method").isin(THEIR_NAMES)].rename(index=THEIR_NAMES, level="method")
    every = pd.DataFrame(
        [unit for unit in study.units(SCALES["paper"]) if isinstance(unit, Setting)], columns=Setting._fields
    )
    return Entry(
        article=ORTHANTS,
        item="Table 4",
        shows="error of predicted probabilities of four methods on six synthetic and three real problems",
        study=STUDY,
        extent=[Share.counted(settings, every, "problems with hyper-parameters")],
        made=made_by(settings),
        numbers=Numbers(pd.DataFrame({"ours": ours.reindex(article.index), "article": article})),
        remarks=[NOT_CONVERGED, LESS_NOISE],
        findings=_said(settings),
        files=[f"{FOLDER}/paper_classes.csv"],
    )


def _said(settings: pd.DataFrame) -> list[Finding]:
    """Return what the article's text says of the methods."""
    seconds = settings[settings["method"] == CONTROLS].pivot(index="problem", columns="hyper", values="seconds")
    short = [number for number, (alpha, _) in enumerate(classes.HYPERS) if alpha < 1.0]
    slower = seconds[short].mean(axis=1) / seconds.drop(columns=short).mean(axis=1)
    distances = experiment_4(settings)["mae_median"].unstack("method")[list(THEIR_NAMES)]
    return [
        Finding(
            "control variables take longer with the short length-scale, on all problems", bool((slower > 1.0).all())
        ),
        Finding(
            "on most problems Hamiltonian Monte Carlo is farther from the median than the other methods",
            bool((distances.idxmax(axis=1) == "HMC").mean() > 0.5),
        ),
    ]


def _over_time(runs: pd.DataFrame) -> list[Entry]:
    there = runs[(runs["part"] == "linear") & (runs["which"] == SCALES["paper"].figure)]
    methods = sorted(set(there["method"]) & {THEIRS, *COMPETITORS})
    common = {
        "article": ORTHANTS,
        "study": STUDY,
        "extent": [", ".join(methods)],
        "made": made_by(there),
        "files": [f"{FOLDER}/paper_runs.csv"],
    }
    overtaken = Finding("elliptical slices overtake the count where errors are small", _overtaken(there))
    beaten = Finding(
        "the count is ahead of Hamiltonian Monte Carlo",
        _least(there, THEIRS, "probability") < _least(there, "HMC", "probability"),
    )
    ahead = Finding(
        "the count is ahead of annealing with elliptical slices on the log evidence",
        _least(there, THEIRS, "percent") < _least(there, "AIS", "percent"),
    )
    return [
        Entry(
            item="Figure 1",
            shows="error of predicted probabilities against processor time",
            findings=[overtaken, beaten],
            **common,  # type: ignore[arg-type]
        ),
        Entry(
            item="Figure 2",
            shows="error of the log evidence against processor time",
            findings=[ahead],
            **common,  # type: ignore[arg-type]
        ),
    ]


def _least(runs: pd.DataFrame, name: str, measure: str) -> float:
    """Error times the root of processor seconds: what a method would reach in a second; its best."""
    cells = summarized(runs, measure).xs(name, level="method")
    return float((cells["mean"] * np.sqrt(cells["seconds"])).min())


def _overtaken(runs: pd.DataFrame) -> bool:
    """Whether the smallest error of elliptical slices is smaller than the count's, in less time."""
    cells = summarized(runs, "probability")
    slices, count = (cells.xs(name, level="method").sort_values("mean").iloc[0] for name in ("ESS", THEIRS))
    return bool(slices["mean"] < count["mean"] and slices["seconds"] < count["seconds"])
