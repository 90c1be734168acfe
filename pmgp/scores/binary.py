"""Scores of predicted probabilities against binary outcomes.

Proper scores (log loss, Brier) reward honest probabilities; accuracy and AUC depend only on their order. The capacities
of Filippone and Girolami (2014), section 5.3, measure whether confident predictions are right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmgp.scores.validation import labels_and_probabilities

Labels = NDArray[np.int64]

# Rejection thresholds on the probability's distance from 1/2, in steps of 0.01.
THRESHOLDS = np.arange(51) / 100
# A probability that equals a threshold, up to rounding errors, is not within it.
ROUNDING = 1e-12
# Largest deviation from 1 of the sum of both probabilities, which quadrature may have computed.
SUM = 1e-6


class AbstentionCurve(NamedTuple):
    """A score of the predictions that are made, against the proportion of points for which no prediction is made.

    Both are vectors of the same length. They have no entry where the score does not exist: if nothing is predicted, or
    for AUC if only one class is left.

    Examples
    --------
    >>> import pmgp
    >>> curve = pmgp.scores.abstention_curve([0, 1, 1, 0], [0.1, 0.9, 0.6, 0.6])
    >>> round(curve.area, 3)
    0.875
    """

    abstention: NDArray[np.float64]
    score: NDArray[np.float64]

    @property
    def area(self) -> float:
        """Area under the curve, divided by the largest abstention: 1 for a classifier that is always right."""
        largest = float(self.abstention[-1])
        if largest == 0.0:
            return float(self.score[-1])
        return float(np.trapezoid(self.score, self.abstention)) / largest


def accuracy(y: ArrayLike, probability: ArrayLike) -> float:
    """Return the fraction of points whose more probable class is the true one; probability 1/2 means class 1.

    Parameters
    ----------
    y : array_like of shape (n,)
        Labels 0 and 1.
    probability : array_like of shape (n,)
        Predicted probabilities of label 1.

    Raises
    ------
    ValueError
        If labels are not 0 and 1, probabilities are outside [0, 1] or NaN, or shapes differ.

    Examples
    --------
    >>> from pmgp import scores
    >>> scores.accuracy([0, 1, 1, 0], [0.2, 0.9, 0.4, 0.1])
    0.75
    """
    y, probability = labels_and_probabilities(y, probability)
    return float(np.mean((probability >= 0.5) == (y == 1)))


def log_loss(y: ArrayLike, probability: ArrayLike, complement: ArrayLike | None = None) -> float:
    """Return the mean negative log-probability of the true class, in nats per point.

    The loss is infinite if a true class has probability zero: nothing is clipped.

    Parameters
    ----------
    y, probability : array_like of shape (n,)
        See :func:`accuracy`.
    complement : array_like of shape (n,), optional
        Predicted probabilities of label 0, as :func:`pmgp.predict` returns them. Without them, a probability within
        1e-16 of 1 counts as 1.

    Raises
    ------
    ValueError
        As in :func:`accuracy`, and if the two probabilities do not sum to 1.

    Examples
    --------
    >>> from pmgp import scores
    >>> round(scores.log_loss([0, 1], [0.2, 0.9]), 3)
    0.164
    """
    y, probability = labels_and_probabilities(y, probability)
    other = 1 - probability if complement is None else labels_and_probabilities(y, complement)[1]
    if not np.allclose(probability + other, 1.0, rtol=0.0, atol=SUM):
        raise ValueError("probability and complement must sum to 1 at each point")
    with np.errstate(divide="ignore"):
        return float(-np.mean(np.log(np.where(y == 1, probability, other))))


def brier_score(y: ArrayLike, probability: ArrayLike) -> float:
    """Return the mean squared difference of probability and outcome: 0 is perfect, and constant 1/2 scores 1/4.

    Parameters
    ----------
    y, probability : array_like of shape (n,)
        As in :func:`accuracy`, with its errors.

    Examples
    --------
    >>> from pmgp import scores
    >>> round(scores.brier_score([0, 1], [0.2, 0.9]), 3)
    0.025
    """
    y, probability = labels_and_probabilities(y, probability)
    return float(np.mean((probability - y) ** 2))


def area_under_curve(y: ArrayLike, probability: ArrayLike) -> float:
    """Return the area under the receiver operating characteristic (AUC), from scikit-learn.

    Parameters
    ----------
    y, probability : array_like of shape (n,)
        See :func:`accuracy`.

    Raises
    ------
    ValueError
        As in :func:`accuracy`, and if only one class is present, for which no AUC exists.
    ImportError
        If scikit-learn is not installed.

    Examples
    --------
    >>> from pmgp import scores
    >>> scores.area_under_curve([0, 1, 1, 0], [0.2, 0.9, 0.4, 0.3])
    1.0
    """
    y, probability = labels_and_probabilities(y, probability)
    if not 0 < y.sum() < len(y):
        raise ValueError(f"AUC needs both classes, but all {len(y)} labels are {y[0]}")
    try:
        from sklearn.metrics import roc_auc_score
    except ImportError as error:
        raise ImportError('AUC needs scikit-learn: pip install "pmgp[data]"') from error
    return float(roc_auc_score(y, probability))


def abstention_curve(y: ArrayLike, probability: ArrayLike, score: str = "accuracy") -> AbstentionCurve:
    """Return the accuracy or AUC against the degree of abstention.

    For thresholds r from 0 to 0.5, no prediction is made where ``0.5 - r < probability < 0.5 + r``, and the score is
    that of the other points.

    Parameters
    ----------
    y, probability : array_like of shape (n,)
        See :func:`accuracy`.
    score : {"accuracy", "auc"}

    Raises
    ------
    ValueError
        As in :func:`accuracy`, for an unknown score, and for AUC if only one class is present.
    ImportError
        As in :func:`area_under_curve`.

    Examples
    --------
    After the least certain predictions are withheld, all others are right:

    >>> import pmgp
    >>> curve = pmgp.scores.abstention_curve([0, 0, 1, 1], [0.1, 0.6, 0.7, 0.9])
    >>> float(curve.score[0]), float(curve.score[-1])
    (0.75, 1.0)
    """
    if score not in SCORES:
        raise ValueError(f"score must be one of {', '.join(SCORES)}, not {score!r}")
    y, probability = labels_and_probabilities(y, probability)
    if score == "auc":
        area_under_curve(y, probability)
    points = []
    for threshold in THRESHOLDS:
        kept = np.abs(probability - 0.5) > threshold - ROUNDING
        if kept.any() and (score == "accuracy" or 0 < y[kept].sum() < kept.sum()):
            points.append((1.0 - kept.mean(), SCORES[score](y[kept], probability[kept])))
    return AbstentionCurve(*np.array(points).T)


def capacity(y: ArrayLike, probability: ArrayLike, score: str = "accuracy") -> float:
    """Return the area under :func:`abstention_curve` divided by the largest degree of abstention.

    This is the "capacity accuracy" or "capacity AUC". It is close to one for a classifier that is right wherever it is
    confident. If the classifier never abstains, as with all probabilities 0 or 1, it is the score itself.

    Parameters
    ----------
    y, probability, score
        As in :func:`abstention_curve`, with its errors.

    References
    ----------
    Filippone, M. and Girolami, M. (2014). Pseudo-marginal Bayesian inference for Gaussian processes. IEEE TPAMI 36,
    section 5.3.

    Examples
    --------
    A classifier that errs only where it is unsure has a higher capacity than accuracy:

    >>> from pmgp import scores
    >>> y, probability = [0, 0, 1, 1, 0], [0.02, 0.1, 0.95, 0.8, 0.55]
    >>> scores.accuracy(y, probability)
    0.8
    >>> scores.capacity(y, probability) > 0.9
    True
    """
    return abstention_curve(y, probability, score).area


def summarize(y: ArrayLike, probability: ArrayLike, complement: ArrayLike | None = None) -> dict[str, float]:
    """Return all scores by name.

    Parameters
    ----------
    y, probability, complement : array_like of shape (n,)
        As in :func:`log_loss`, with its errors.

    Returns
    -------
    dict of str to float
        ``accuracy``, ``log_loss`` (nats per point), ``brier_score`` and, if both classes are present, ``auc``, from
        scikit-learn; an AUC that does not exist is left out rather than reported as NaN.

    Examples
    --------
    >>> from pmgp import scores
    >>> sorted(scores.summarize([0, 1, 1], [0.2, 0.9, 0.4]))  # doctest: +ELLIPSIS
    ['accuracy', ...]
    """
    y, probability = labels_and_probabilities(y, probability)
    scores = {
        "accuracy": accuracy(y, probability),
        "log_loss": log_loss(y, probability, complement),
        "brier_score": brier_score(y, probability),
    }
    if 0 < y.sum() < len(y):
        scores["auc"] = area_under_curve(y, probability)
    return scores


SCORES: dict[str, Callable[[ArrayLike, ArrayLike], float]] = {"accuracy": accuracy, "auc": area_under_curve}
