"""The article's count for labels of one feature, in O(n M) operations and O(M) numbers of memory.

There f = u x with u standard normal. All that a particle's past v_<i says about the next variable is u's posterior,
of which the precision P = 1 + sum a_j^2 is the same for all particles, and the mean is h / P with h = sum a_j v_j;
a has the features with the labels' signs. So v_i given v_<i is normal with mean a_i h / P and variance 1 + a_i^2 / P,
and a particle is one number, h, where the count for any covariance keeps n. With the same random numbers the two
give the same estimates.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from case_studies.orthants.problems import Problem

__all__ = ["counted"]

# Particles whose probabilities of new labels are in memory together.
TOGETHER = 10_000


def counted(rng: np.random.Generator, problem: Problem, particles: int) -> tuple[float, np.ndarray]:
    """Return the log of the estimate, and the counted shares of the new labels 1: (m,)."""
    x, new = _features(problem)
    order = rng.permutation(problem.size)
    log_estimate, precision, h = _survivors(rng, (problem.signs * x)[order], particles)
    if log_estimate == -np.inf or not new.size:
        return log_estimate, np.full(new.size, np.nan)
    scale = np.sqrt(1.0 + np.square(new) / precision)
    labels = np.zeros(new.size)
    for part in np.array_split(h / precision, -(-particles // TOGETHER)):
        chances = ndtr(np.outer(part, new) / scale)
        labels += (rng.uniform(size=chances.shape) < chances).sum(axis=0)
    return log_estimate, labels / particles


def _survivors(rng: np.random.Generator, a: np.ndarray, particles: int) -> tuple[float, float, np.ndarray]:
    """Return the log of the estimate, u's precision given all variables, and h of each particle."""
    h, log_estimate, precision = np.zeros(particles), 0.0, 1.0
    for loading in a:
        v = rng.standard_normal(particles)
        v *= np.sqrt(1.0 + loading * loading / precision)
        v += (loading / precision) * h
        alive = v >= 0.0
        survivors = np.flatnonzero(alive)
        if not survivors.size:
            return -np.inf, precision, h
        log_estimate += np.log(survivors.size / particles)
        v *= loading
        h += v
        precision += loading * loading
        dead = np.flatnonzero(~alive)
        h[dead] = h[rng.choice(survivors, size=len(dead))]
    return float(log_estimate), precision, h


def _features(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Return the features of the labels and of the new points, up to a common sign, from their products."""
    k = int(problem.covariance.diagonal().argmax())
    size = np.sqrt(problem.covariance[k, k])
    return problem.covariance[k] / size, problem.cross[k] / size
