"""Scores of predictions: two classes here, several in `classes`, ordered ones in `ordinal`, counts in `counts`.

May import: core.numerics.
"""

from pmgp.scores import classes, counts, ordinal
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
    "classes",
    "counts",
    "log_loss",
    "ordinal",
    "summarize",
]
