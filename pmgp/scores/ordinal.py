"""Scores of predicted probabilities of ordered categories.

The log loss depends only on the probability of the true category; the ranked probability score also depends on how far
from it the rest of the probability is (Gneiting and Raftery 2007, section 4.2).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pmgp.scores.validation import categories_and_probabilities


def accuracy(y: ArrayLike, probabilities: ArrayLike) -> float:
    """Return the fraction of points whose most probable category is the true one.

    Parameters
    ----------
    y : array_like of shape (n,)
        Categories 0, ..., r - 1.
    probabilities : array_like of shape (n, r)
        Predicted probabilities of the categories.

    Raises
    ------
    ValueError
        If y holds anything else, or a row of probabilities is negative, NaN or does not sum to 1.

    Examples
    --------
    >>> from pmgp.scores import ordinal
    >>> ordinal.accuracy([0, 2], [[0.7, 0.2, 0.1], [0.1, 0.5, 0.4]])
    0.5
    """
    y, probabilities = categories_and_probabilities(y, probabilities)
    return float(np.mean(probabilities.argmax(axis=1) == y))


def log_loss(y: ArrayLike, probabilities: ArrayLike) -> float:
    """Return the mean negative log-probability of the true category, in nats per point; nothing is clipped.

    Parameters
    ----------
    y, probabilities
        As in :func:`accuracy`, with its errors.

    Examples
    --------
    >>> from pmgp.scores import ordinal
    >>> round(ordinal.log_loss([0, 2], [[0.7, 0.2, 0.1], [0.1, 0.5, 0.4]]), 3)
    0.636
    """
    y, probabilities = categories_and_probabilities(y, probabilities)
    with np.errstate(divide="ignore"):
        return float(-np.mean(np.log(probabilities[np.arange(len(y)), y])))


def ranked_probability_score(y: ArrayLike, probabilities: ArrayLike) -> float:
    """Return the mean Brier score of the r - 1 events that the category is at most 0, ..., r - 2: 0 is best, 1 worst.

    With two categories, it is the Brier score.

    Parameters
    ----------
    y, probabilities
        As in :func:`accuracy`, with its errors.

    Examples
    --------
    A wrong category costs less the closer it is to the true one:

    >>> from pmgp.scores import ordinal
    >>> near = ordinal.ranked_probability_score([0], [[0.0, 1.0, 0.0]])
    >>> near, ordinal.ranked_probability_score([0], [[0.0, 0.0, 1.0]])
    (0.5, 1.0)
    """
    y, probabilities = categories_and_probabilities(y, probabilities)
    predicted = probabilities.cumsum(axis=1)[:, :-1]
    observed = y[:, None] <= np.arange(probabilities.shape[1] - 1)
    return float(np.mean((predicted - observed) ** 2))


def summarize(y: ArrayLike, probabilities: ArrayLike) -> dict[str, float]:
    """Return all scores by name.

    Parameters
    ----------
    y, probabilities
        As in :func:`accuracy`, with its errors.

    Returns
    -------
    dict of str to float
        ``accuracy``, ``log_loss`` (nats per point) and ``ranked_probability_score``.

    Examples
    --------
    >>> import pmgp
    >>> scores = pmgp.scores.ordinal.summarize([0, 1, 2], [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.4, 0.3, 0.3]])
    >>> {name: round(score, 2) for name, score in scores.items()}
    {'accuracy': 0.67, 'log_loss': 0.55, 'ranked_probability_score': 0.12}
    """
    return {
        "accuracy": accuracy(y, probabilities),
        "log_loss": log_loss(y, probabilities),
        "ranked_probability_score": ranked_probability_score(y, probabilities),
    }
