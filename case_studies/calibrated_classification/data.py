"""The data sets of the article's section 5, and balanced training sets drawn from them."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from case_studies.tools import digits
from pmgp import datasets

__all__ = ["NAMES", "SIZES", "Labeled", "Split", "available", "load", "sizes", "split"]

USPS = "USPS"

NAMES = {"Pima": "pima", "Thyroid": "thyroid", "Ionosphere": "ionosphere", "Glass": "glass", USPS: ""}
"""In the order of Figures 6 and 7, with their names in :mod:`pmgp.datasets`, which does not have the digits."""

SIZES = (10, 20, 50, 100)
"""Sizes of training sets. The text names 20 and 50; the axes of the figures could not be read from the copy at hand."""

FEWEST_LEFT = 10
"""Test points of each class that a training set must leave."""


class Labeled(NamedTuple):
    """Inputs of shape (n, d), as the classifiers see them, and labels 0 and 1 of shape (n,)."""

    X: np.ndarray
    y: np.ndarray


class Split(NamedTuple):
    """A training set with the same number of points of each class, and all other points."""

    train: Labeled
    test: Labeled


def available(name: str) -> bool:
    """Whether the data are there; those of :mod:`pmgp.datasets` always are, if need be from the network."""
    return name != USPS or digits.available()


@cache
def load(name: str) -> Labeled:
    """Load a data set.

    Features have mean 0 and standard deviation 1 over all its points, as in section 4.4: no label is used, and training
    sets of ten points have no scales of their own. Pixels have a common unit and stay as they are, between -1 and 1.

    Parameters
    ----------
    name : str
        One of :data:`NAMES`.
    """
    if name == USPS:
        return Labeled(*digits.load())
    data = datasets.load(NAMES[name])
    assert data.y is not None
    return Labeled(datasets.Standardizer.fit(data.X).transform(data.X), data.y)


def sizes(y: np.ndarray) -> list[int]:
    """Those of :data:`SIZES` that leave enough points of each class, of labels of shape (n,)."""
    return [n for n in SIZES if n // 2 + FEWEST_LEFT <= np.bincount(y).min()]


def split(rng: np.random.Generator, data: Labeled, n: int) -> Split:
    """Draw n / 2 training points of each class; with the same generator, smaller training sets are parts of larger."""
    orders = [rng.permutation(np.flatnonzero(data.y == label)) for label in (0, 1)]
    train = np.concatenate([order[: n // 2] for order in orders])
    test = np.concatenate([order[n // 2 :] for order in orders])
    return Split(Labeled(data.X[train], data.y[train]), Labeled(data.X[test], data.y[test]))
