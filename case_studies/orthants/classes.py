"""The nine problems of experiment 4: two Gaussian classes, or real data, and a squared exponential covariance.

The article's covariance is beta exp(-r^2 / alpha^2). Its splits are not given; here they are drawn. Features of crabs
and breast get mean zero and standard deviation one on the training part, which the article does not mention.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import expit
from scipy.stats import multivariate_normal

from case_studies.orthants.problems import Problem
from case_studies.tools import digits
from pmgp import datasets

__all__ = ["HYPERS", "NUMBERS", "Data", "available", "data", "problem"]

HYPERS = ((5.0, 1.0), (5.0, 5.0), (3.0, 2.0), (0.5, 0.5), (3.0, 1.0), (0.5, 3.0))
"""Alpha and beta, in the article's order."""


class Data(NamedTuple):
    """Training and test inputs, training labels, and where it is known the probability of label 1 behind the test data.

    Attributes
    ----------
    X : (n, d) array
    y : (n,) array
    new : (m, d) array
    posterior : (m,) array or None
        By Bayes' rule from the densities of the classes.
    """

    X: np.ndarray
    y: np.ndarray
    new: np.ndarray
    posterior: np.ndarray | None


class Gaussians(NamedTuple):
    """The second class of a synthetic problem, beside a standard normal one: size, mean of each feature, covariance."""

    n: int
    mean: float
    covariance: np.ndarray

    def draw(self, rng: np.random.Generator) -> Data:
        """Draw the same number of points of each class, in random order, for training and again for testing."""
        X, y = self._part(rng)
        new, _ = self._part(rng)
        return Data(X, y, new, self._posterior(new))

    def _part(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        second = rng.permutation(np.arange(self.n) % 2)
        noise = rng.standard_normal((self.n, len(self.covariance)))
        other = self.mean + noise @ np.linalg.cholesky(self.covariance).T
        return np.where(second[:, None] == 1, other, noise), 1 - second

    def _posterior(self, X: np.ndarray) -> np.ndarray:
        d = len(self.covariance)
        first = multivariate_normal(np.zeros(d)).logpdf(X)
        return expit(first - multivariate_normal(np.full(d, self.mean), self.covariance).logpdf(X))


CORRELATED = np.array([[1.0, 0.25], [0.25, 1.0]])
BANDED = 0.5 * np.eye(10) + 0.2 * (np.eye(10, k=1) + np.eye(10, k=-1))


def _real(
    load: Callable[[], tuple[np.ndarray, np.ndarray]], n: int, standardized: bool, rng: np.random.Generator
) -> Data:
    X, y = load()
    order = rng.permutation(len(y))
    train, test = X[order[:n]], X[order[n:]]
    if standardized:
        scaled = datasets.Standardizer.fit(train)
        train, test = scaled.transform(train), scaled.transform(test)
    return Data(train, y[order[:n]], test, None)


def _crabs() -> tuple[np.ndarray, np.ndarray]:
    loaded = datasets.load("crabs")
    return loaded.X, np.asarray(loaded.y)


def _breast() -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows."""
    loaded = datasets.load("breast")
    rows = np.unique(np.column_stack([loaded.X, np.asarray(loaded.y)]), axis=0)
    return rows[:, :-1], rows[:, -1].astype(int)


DRAW: dict[int, Callable[[np.random.Generator], Data]] = {
    1: Gaussians(50, 1.0, CORRELATED).draw,
    2: Gaussians(200, 1.0, CORRELATED).draw,
    3: Gaussians(50, 0.5, CORRELATED).draw,
    4: Gaussians(50, 2.0, CORRELATED).draw,
    5: Gaussians(50, 1.0, BANDED).draw,
    6: Gaussians(1000, 1.0, CORRELATED).draw,
    7: partial(_real, _crabs, 100, True),
    8: partial(_real, _breast, 200, True),
    9: partial(_real, digits.load, 750, False),
}
NUMBERS = tuple(DRAW)
"""Numbers of the problems: 1 to 6 are synthetic; then crabs, breast and the digits three and five."""


def available(number: int) -> bool:
    """Whether the data can be had; the digits are files of the user's."""
    return number != 9 or digits.available()


def data(rng: np.random.Generator, number: int) -> Data:
    """Draw, or divide, the data of one problem."""
    return DRAW[number](rng)


def problem(given: Data, alpha: float, beta: float) -> Problem:
    """With these hyper-parameters."""
    return Problem(
        beta * np.exp(-_squares(given.X, given.X) / alpha**2),
        given.y,
        beta * np.exp(-_squares(given.X, given.new) / alpha**2),
        np.full(len(given.new), beta),
    )


def _squares(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Squared distances between rows."""
    sums = np.square(one).sum(axis=1)[:, None] + np.square(other).sum(axis=1)
    return np.maximum(sums - 2.0 * one @ other.T, 0.0)
