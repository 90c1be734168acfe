"""Scores of predictions: of two classes here, of counts in `counts`, of ordered categories in `ordinal`.

May import: nothing else of the package.
"""

from pmgp.scores import counts, ordinal
from pmgp.scores.binary import (
    AbstentionCurve,
    abstention_curve,
    accuracy,
    area_under_curve,
    brier_score,
    capacity,
    log_loss,
    summarize,
)

__all__ = [
    "AbstentionCurve",
    "abstention_curve",
    "accuracy",
    "area_under_curve",
    "brier_score",
    "capacity",
    "counts",
    "log_loss",
    "ordinal",
    "summarize",
]
