"""Scores of predicted probabilities of several classes that have no order.

These are the scores of Filippone, Marquand, Blain, Williams, Mourao-Miranda and Girolami (2012): the balanced accuracy,
the Brier score summed over classes, and accuracy against the fraction of points left undecided.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmgp.scores.binary import AbstentionCurve
from pmgp.scores.ordinal import accuracy, log_loss
from pmgp.scores.validation import categories_and_probabilities


def balanced_accuracy(y: ArrayLike, probabilities: ArrayLike) -> float:
    """Return the mean over classes of the fraction of a class's points that are predicted right; 1 / r by chance.

    Classes without points are left out of the mean.

    Parameters
    ----------
    y : array_like of shape (n,)
        Classes 0, ..., r - 1.
    probabilities : array_like of shape (n, r)
        Predicted probabilities of the classes.

    Raises
    ------
    ValueError
        If y holds anything else, or a row of probabilities is negative, NaN or does not sum to 1.

    Examples
    --------
    >>> from pmgp.scores import classes
    >>> classes.balanced_accuracy([0, 0, 0, 1], [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]])
    0.5
    """
    counts = confusion_matrix(y, probabilities)
    present = counts.sum(axis=1) > 0
    return float(np.mean(counts.diagonal()[present] / counts.sum(axis=1)[present]))


def brier_score(y: ArrayLike, probabilities: ArrayLike) -> float:
    """Return the mean squared difference of probabilities and outcome, summed over classes: from 0 to 2.

    With two classes, it is twice `pmgp.scores.brier_score`.

    Parameters
    ----------
    y, probabilities
        As in :func:`balanced_accuracy`, with its errors.

    Examples
    --------
    >>> from pmgp.scores import classes
    >>> round(classes.brier_score([0, 2], [[0.8, 0.1, 0.1], [0.2, 0.2, 0.6]]), 2)
    0.15
    """
    y, probabilities = categories_and_probabilities(y, probabilities)
    outcome = y[:, None] == np.arange(probabilities.shape[1])
    return float(np.mean(np.square(probabilities - outcome).sum(axis=1)))


def confusion_matrix(y: ArrayLike, probabilities: ArrayLike) -> NDArray[np.int64]:
    """Return the numbers of points, (r, r), with a row for each true class and a column for each most probable class.

    Parameters
    ----------
    y, probabilities
        As in :func:`balanced_accuracy`, with its errors.

    Examples
    --------
    >>> from pmgp.scores import classes
    >>> classes.confusion_matrix([0, 1, 1], [[0.9, 0.1], [0.3, 0.7], [0.6, 0.4]])
    array([[1, 0],
           [1, 1]])
    """
    y, probabilities = categories_and_probabilities(y, probabilities)
    counts = np.zeros(2 * probabilities.shape[1:], dtype=np.int64)
    np.add.at(counts, (y, probabilities.argmax(axis=1)), 1)
    return counts


def abstention_curve(y: ArrayLike, probabilities: ArrayLike) -> AbstentionCurve:
    """Return the accuracy of the predictions made, against the fraction of points for which none is made.

    The points whose largest probability is smallest are left undecided first; points with equal largest probabilities
    are left undecided together. The curve begins with all points.

    Parameters
    ----------
    y, probabilities
        As in :func:`balanced_accuracy`, with its errors.

    Examples
    --------
    >>> import pmgp
    >>> probabilities = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.4, 0.3, 0.3]]
    >>> curve = pmgp.scores.classes.abstention_curve([0, 1, 2], probabilities)
    >>> curve.score.round(2)
    array([0.67, 1.  ])
    """
    y, probabilities = categories_and_probabilities(y, probabilities)
    certainty, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == y
    kept = [certainty >= threshold for threshold in np.unique(certainty)]
    return AbstentionCurve(np.array([1.0 - k.mean() for k in kept]), np.array([right[k].mean() for k in kept]))


def summarize(y: ArrayLike, probabilities: ArrayLike) -> dict[str, float]:
    """Return all scores by name.

    Parameters
    ----------
    y, probabilities
        As in :func:`balanced_accuracy`, with its errors.

    Returns
    -------
    dict of str to float
        ``accuracy``, ``balanced_accuracy``, ``log_loss`` (nats per point) and ``brier_score``.

    Examples
    --------
    >>> import pmgp
    >>> scores = pmgp.scores.classes.summarize([0, 1, 2], [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.4, 0.3, 0.3]])
    >>> {name: round(score, 2) for name, score in scores.items()}
    {'accuracy': 0.67, 'balanced_accuracy': 0.67, 'log_loss': 0.55, 'brier_score': 0.29}
    """
    return {
        "accuracy": accuracy(y, probabilities),
        "balanced_accuracy": balanced_accuracy(y, probabilities),
        "log_loss": log_loss(y, probabilities),
        "brier_score": brier_score(y, probabilities),
    }
