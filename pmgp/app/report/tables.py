"""Results as rows of text, the same for the console and the HTML page."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import arviz

from pmgp.app.folder import NEW
from pmgp.models import priors

if TYPE_CHECKING:
    import pandas as pd

    from pmgp.app.outcome import Outcome
    from pmgp.app.tasks import Problem
    from pmgp.datasets import Category, Dataset

Rows = list[tuple[str, str]]

_KERNELS = {
    "rbf": "variance · exp(−r²/2), very smooth; r is the distance in length-scales",
    "ard": "variance · exp(−r²/2), very smooth; in r, each feature is divided by its own length-scale",
    "matern52": "variance · (1 + √5 r + 5r²/3) exp(−√5 r), rough; r is the distance in length-scales",
    "matern32": "variance · (1 + √3 r) exp(−√3 r), rougher; r is the distance in length-scales",
}

_OPERATIONS = {"n_cholesky": "Cholesky factorizations", "n_inverse": "matrix inversions", "n_matmul": "matrix products"}


def summary(outcome: Outcome, rounded: bool = True) -> pd.DataFrame:
    """Return ``arviz.summary`` of the hyper-parameters, without diagnostics of chains if there are none."""
    summarize = partial(arviz.summary, outcome.idata, var_names=list(outcome.problem.task.hyperparameters))
    round_to = "auto" if rounded else "none"
    if outcome.drawn is None:
        return summarize(round_to=round_to)
    if not outcome.drawn.maximum:
        return summarize(round_to=round_to, kind="stats")
    table = summarize(round_to="none", kind="stats")[["mean"]].rename(columns={"mean": "maximum"})
    return table.map("{:.4g}".format) if rounded else table


def data_rows(problem: Problem) -> Rows:
    """Return rows about the data set and its parts."""
    dataset, train, test, new = problem.dataset, problem.train, problem.test, problem.new
    return [
        ("data set", dataset.name),
        ("points", f"{dataset.n} ({train.n} training, {test.n} test)"),
        ("features", _features(dataset)),
        *[(f"categories of {category.name}", _coding(category)) for category in dataset.categories],
        *problem.task.describe(problem),
        *([] if problem.inducing is None else [("inducing inputs", f"{len(problem.inducing)}, centers of clusters")]),
        ("source", dataset.source),
        *([] if new is None else [("new rows", f"{new.n}, predicted in {NEW}. {new.source}")]),
    ]


def model_rows(problem: Problem) -> Rows:
    """Return rows about the covariance function, the likelihood and the priors of the hyper-parameters."""
    kernel = problem.settings.kernel
    return [
        ("covariance", f"{kernel}: {_KERNELS[kernel]}"),
        ("likelihood", problem.settings.likelihood),
        *problem.task.terms,
        *[(f"prior of {name}", prior) for name, prior in priors(problem.model).items()],
    ]


def _features(dataset: Dataset) -> str:
    coded = sum(len(category.columns) for category in dataset.categories)
    count = dataset.d - coded + len(dataset.categories)
    columns = f" ({dataset.d} columns with the categories)" if dataset.d != count else ""
    return f"{count}{columns}, standardized on the training part"


def _coding(category: Category) -> str:
    if len(category.values) == 2:
        return f"{category.values[0]} 0, {category.values[1]} 1"
    return f"{', '.join(category.values)}; each has a column that is 1 for its rows and 0 for others"


def score_rows(outcome: Outcome) -> Rows:
    """Return the scores on the test part, with those of the baseline."""
    task, scores = outcome.problem.task, outcome.scores
    beside = {name: f" ({task.baseline}: {shown(name, score)})" for name, score in scores.baseline.items()}
    return [
        (task.score_names[name], f"{shown(name, score)}{beside.get(name, '')}") for name, score in scores.model.items()
    ]


def shown(name: str, score: float) -> str:
    """Return a score with four decimals, or with four digits if it is in units of the label."""
    return f"{score:.4g}" if name.endswith("_error") else f"{score:.4f}"


def efficiency_rows(outcome: Outcome) -> Rows:
    """Return operation counts per iteration, times, and effective draws."""
    if outcome.drawn is not None:
        kind, work = ("maximum", "the search") if outcome.drawn.maximum else ("draws", "sampling")
        return [
            (kind, outcome.drawn.said),
            (f"seconds of {work}, with compilation", f"{outcome.seconds['sampling']:.1f}"),
            ("seconds of prediction", f"{outcome.seconds['prediction']:.1f}"),
        ]
    stats = outcome.idata["sample_stats"].to_dataset()
    sweeps = {"ep": "sweeps of expectation propagation", "laplace": "steps of Newton's method"}
    names = _OPERATIONS | {"n_newton": sweeps[outcome.settings.approximation]}
    rows = [(f"{names[name]} per iteration", f"{count:.2f}") for name, count in outcome.operations.items()]
    if "accepted" in stats:
        rows.append(("acceptance rate", f"{float(stats['accepted'].mean()):.1%}"))
    rows.append(("seconds of sampling, with compilation", f"{outcome.seconds['sampling']:.1f}"))
    if outcome.efficiency:
        found = outcome.efficiency
        rows += [
            ("seconds of sampling, tuning included", f"{found['seconds']:.1f}"),
            (f"smallest ESS, of {found['variable']}", str(int(found["ess"]))),
            ("smallest ESS per second, tuning included", a_second(float(found["ess_per_second"]))),
        ]
    return rows


def a_second(rate: float) -> str:
    """Return a rate with one decimal, or with two significant digits if it is below one."""
    return f"{rate:.1f}" if rate >= 1.0 else f"{rate:.2g}"


def notices(outcome: Outcome) -> list[str]:
    """Return notices about data and draws; empty if all is well."""
    return [*outcome.problem.notices, *sampling_notices(outcome)]


def sampling_notices(outcome: Outcome) -> list[str]:
    """Return notices that a reader should know before trusting the draws."""
    said = (outcome.shortfall, outcome.diagnosis, *outcome.verdict.findings)
    return [notice for notice in said if notice is not None]
