"""Results as rows of text, the same for the console and the HTML page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import arviz

from pmgp.run import HYPERPARAMETERS

if TYPE_CHECKING:
    import pandas as pd

    from pmgp.run import Outcome, Problem

__all__ = ["data_rows", "efficiency_rows", "notices", "score_rows", "summary"]

Rows = list[tuple[str, str]]

RHAT_LIMIT = 1.01
ESS_LIMIT = 400
"""With fewer effective draws, tail quantiles and R-hat are uncertain (Vehtari et al. 2021)."""

_OPERATIONS = {
    "n_cholesky": "Cholesky factorizations",
    "n_inverse": "matrix inversions",
    "n_matmul": "matrix products",
    "n_newton": "Newton iterations",
}
_SCORES = {
    "accuracy": "accuracy",
    "log_loss": "log loss (nats a point)",
    "brier_score": "Brier score",
    "auc": "AUC",
}


def summary(outcome: Outcome, rounded: bool = True) -> pd.DataFrame:
    """Return ``arviz.summary`` of the hyper-parameters."""
    return arviz.summary(outcome.idata, var_names=HYPERPARAMETERS, round_to="auto" if rounded else "none")


def data_rows(problem: Problem) -> Rows:
    """Describe the data set and its parts."""
    dataset, train, test = problem.dataset, problem.train, problem.test
    assert dataset.classes is not None
    assert train.y is not None
    return [
        ("data set", dataset.name),
        ("points", f"{dataset.n} ({train.n} training, {test.n} test)"),
        ("features", f"{dataset.d}, standardized on the training part"),
        ("class 0", f"{dataset.classes[0]} ({(train.y == 0).sum()} of the training points)"),
        ("class 1", f"{dataset.classes[1]} ({(train.y == 1).sum()} of the training points)"),
        ("source", dataset.source),
    ]


def score_rows(outcome: Outcome) -> Rows:
    """Give the scores on the test part."""
    return [(_SCORES[name], f"{score:.4f}") for name, score in outcome.scores.items()]


def efficiency_rows(outcome: Outcome) -> Rows:
    """Give operation counts an iteration, times, and effective draws."""
    stats = outcome.idata["sample_stats"].to_dataset()
    rows = [(f"{_OPERATIONS[name]} an iteration", f"{count:.2f}") for name, count in outcome.operations.items()]
    if "accepted" in stats:
        rows.append(("acceptance rate", f"{float(stats['accepted'].mean()):.1%}"))
    rows.append(("seconds of sampling, with compilation", f"{outcome.seconds['sampling']:.1f}"))
    if outcome.efficiency:
        found = outcome.efficiency
        rows += [
            ("seconds of sampling, tuning included", f"{found['seconds']:.1f}"),
            (f"smallest ESS, of {found['variable']}", str(int(found["ess"]))),
            ("smallest ESS a second, tuning included", f"{found['ess_per_second']:.2f}"),
        ]
    return rows


def notices(outcome: Outcome) -> list[str]:
    """Say what a reader has to know before trusting the draws; empty if all is well."""
    found = [] if outcome.shortfall is None else [outcome.shortfall]
    table = summary(outcome, rounded=False)
    rhat, ess = table["r_hat"].astype(float), table["ess_bulk"].astype(float)
    if (rhat > RHAT_LIMIT).any():
        found.append(
            f"R-hat of {rhat.idxmax()} is {rhat.max():.3f}, above {RHAT_LIMIT}: the chains do not "
            "yet agree; take more draws"
        )
    if (ess < ESS_LIMIT).any():
        found.append(
            f"only {int(ess.min())} effective draws of {ess.idxmin()}, fewer than {ESS_LIMIT}: the "
            "tails of its posterior, and R-hat itself, are uncertain"
        )
    return found
