"""Labels whose evidence and predictions are integrals over a line: experiments 1 and 2 of the article.

With one feature and the covariance x x', f is u x with u standard normal, so the labels are independent given u.
The one-factor orthants of experiment 1 are of this kind too: dividing each variable by its own standard deviation
given the factor leaves the orthant as it is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr

__all__ = ["CLASSES", "Classes", "Problem", "Truth", "linear", "of_one_factor", "on_a_line"]

# For the quadrature: ends and points of the search for the mass, points on it, and how far down in nats it reaches.
REACH, SEARCHED, POINTS, DEPTH = 12.0, 2401, 8001, 40.0


class Truth(NamedTuple):
    """The reference for an estimate.

    Attributes
    ----------
    log_evidence : float
    probability : (m,) array
        Probabilities of label 1 at the new points.
    """

    log_evidence: float
    probability: np.ndarray


class Problem(NamedTuple):
    """Labels of a Gaussian process with mean zero and a probit link, and new points.

    Attributes
    ----------
    covariance : (n, n) array
    y : (n,) array
        Labels 0 and 1.
    cross : (n, m) array
        Covariances with f at the new points.
    variance : (m,) array
        Variances there.
    truth : Truth or None
        Where it is known.
    """

    covariance: np.ndarray
    y: np.ndarray
    cross: np.ndarray
    variance: np.ndarray
    truth: Truth | None = None

    @property
    def size(self) -> int:
        """Number of labels n."""
        return len(self.y)

    @property
    def signs(self) -> np.ndarray:
        """Labels as -1 and 1: (n,)."""
        return 2.0 * self.y - 1.0

    @property
    def orthant(self) -> np.ndarray:
        """Covariance of v, f with the noise of the link and the labels' signs: (n, n)."""
        return np.outer(self.signs, self.signs) * self.covariance + np.eye(self.size)


class Classes(NamedTuple):
    """Two Gaussian classes of one feature: numbers of labels and of new points, means and standard deviations."""

    n: int
    new: int
    means: tuple[float, float]
    scales: tuple[float, float]


CLASSES = {
    1: Classes(100, 50, (0.0, 1.0), (0.2, 0.3)),
    2: Classes(200, 100, (0.0, 1.0), (2.0, 1.0)),
    3: Classes(400, 200, (0.0, 1.5), (0.5, 0.75)),
    4: Classes(800, 400, (0.0, 1.0), (1.0, 0.75)),
}
"""The problems of experiment 2."""


def of_one_factor(rng: np.random.Generator, n: int) -> Problem:
    """Experiment 1: correlations d_i d_j with d uniform in (-1, 1)."""
    loading = rng.uniform(-1.0, 1.0, n)
    return on_a_line(loading / np.sqrt(1.0 - np.square(loading)), np.ones(n, dtype=int), np.empty(0))


def linear(rng: np.random.Generator, number: int) -> Problem:
    """Experiment 2: the same number of labels of each class, in random order."""
    classes = CLASSES[number]
    x, y = _drawn(rng, classes, classes.n)
    return on_a_line(x, y, _drawn(rng, classes, classes.new)[0])


def _drawn(rng: np.random.Generator, classes: Classes, n: int) -> tuple[np.ndarray, np.ndarray]:
    # Class 1 of the article has the label 1.
    second = rng.permutation(np.arange(n) % 2)
    x = np.array(classes.means)[second] + np.array(classes.scales)[second] * rng.standard_normal(n)
    return x, 1 - second


def on_a_line(x: np.ndarray, y: np.ndarray, new: np.ndarray) -> Problem:
    """One feature x, its product for a covariance, and the truth by quadrature (eq. 66)."""
    return Problem(np.outer(x, x), y, np.outer(x, new), np.square(new), _truth((2.0 * y - 1.0) * x, new))


def _truth(signed: np.ndarray, new: np.ndarray) -> Truth:
    u = np.linspace(-REACH, REACH, SEARCHED)
    logs = _log_integrand(signed, u)
    # The integrand is log-concave: what is near its maximum is one interval.
    near = u[logs > logs.max() - DEPTH]
    step = u[1] - u[0]
    u = np.linspace(near[0] - step, near[-1] + step, POINTS)
    logs = _log_integrand(signed, u)
    weights = np.exp(logs - logs.max())
    log_evidence = logs.max() + np.log(weights.sum() * (u[1] - u[0])) - 0.5 * np.log(2.0 * np.pi)
    return Truth(float(log_evidence), weights @ ndtr(np.outer(u, new)) / weights.sum())


def _log_integrand(signed: np.ndarray, u: np.ndarray) -> np.ndarray:
    logs = -0.5 * np.square(u)
    for part in np.array_split(signed, len(signed) // 50 + 1):
        logs = logs + log_ndtr(np.outer(u, part)).sum(axis=1)
    return logs
