"""Probabilities of orthants that are known otherwise, for any number of variables."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import betaln, log_ndtr, logsumexp
from scipy.stats import norm


class Known(NamedTuple):
    """A Gaussian between limits, and the logarithm of its probability."""

    lower: np.ndarray | float
    upper: np.ndarray | float
    covariance: np.ndarray
    log_probability: float


def correlated(off_diagonal: list[float]) -> np.ndarray:
    """A correlation matrix of two or three variables."""
    n = 2 if len(off_diagonal) == 1 else 3
    matrix = np.eye(n)
    matrix[np.tril_indices(n, -1)] = off_diagonal
    return matrix + np.tril(matrix, -1).T


def two_or_three(*correlations: float) -> Known:
    """Closed forms by arcsines."""
    n = 2 if len(correlations) == 1 else 3
    total = np.arcsin(correlations).sum()
    probability = 0.25 + total / (2.0 * np.pi) if n == 2 else 0.125 + total / (4.0 * np.pi)
    return Known(0.0, np.inf, correlated(list(correlations)), float(np.log(probability)))


def independent(n: int) -> Known:
    """Half for each."""
    return Known(0.0, np.inf, np.diag(np.geomspace(1e-6, 1e6, n)), -n * np.log(2.0))


def equicorrelated(n: int) -> Known:
    """Correlations of one half: that one of n + 1 exchangeable variables is the smallest."""
    return Known(0.0, np.inf, 0.5 * np.eye(n) + 0.5, -float(np.log(n + 1)))


def constant_process(positive: int, negative: int) -> Known:
    """Labels of a constant latent value with variance one and unit noise: Phi of it is uniform."""
    signs = np.repeat([1.0, -1.0], [positive, negative])
    covariance = np.outer(signs, signs) + np.eye(len(signs))
    return Known(0.0, np.inf, covariance, float(betaln(positive + 1, negative + 1)))


def one_factor(n: int, seed: int = 0) -> Known:
    """R_ij = d_i d_j with d uniform in (-1, 1): given the factor the variables are independent."""
    loading = np.random.default_rng(seed).uniform(-1.0, 1.0, n)
    covariance = np.outer(loading, loading)
    np.fill_diagonal(covariance, 1.0)
    t = np.linspace(-12.0, 12.0, 24_001)
    terms = norm.logpdf(t)
    for one in loading / np.sqrt(1.0 - np.square(loading)):
        terms = terms + log_ndtr(one * t)
    return Known(0.0, np.inf, covariance, float(logsumexp(terms) + np.log(t[1] - t[0])))


def line(n: int, variance: float, seed: int = 0) -> Known:
    """Labels of a process with an exponential kernel on a line, by a filter on a grid."""
    rng = np.random.default_rng(seed)
    x = np.cumsum(rng.uniform(0.1, 0.6, n))
    decay = np.exp(-np.diff(x))
    signs = np.where(rng.uniform(size=n) < norm.cdf(3.0 * np.sin(x)), 1.0, -1.0)
    covariance = variance * np.exp(-np.abs(x[:, None] - x)) * np.outer(signs, signs) + np.eye(n)
    grid = np.linspace(-8.0, 8.0, 500)
    mass = np.exp(-0.5 * np.square(grid))
    mass /= mass.sum()
    log_probability = 0.0
    for i in range(n):
        if i:
            rho = decay[i - 1]
            transition = np.exp(-0.5 * np.square(grid[:, None] - rho * grid) / (1.0 - rho**2))
            mass = transition @ mass * (grid[1] - grid[0]) / np.sqrt(2.0 * np.pi * (1.0 - rho**2))
        mass = mass * norm.cdf(signs[i] * np.sqrt(variance) * grid)
        log_probability += np.log(mass.sum())
        mass /= mass.sum()
    return Known(0.0, np.inf, covariance, float(log_probability))


def blocks(*parts: Known) -> Known:
    """Independent of each other, shuffled."""
    sizes = [len(part.covariance) for part in parts]
    covariance = np.zeros((sum(sizes), sum(sizes)))
    start = 0
    for part, size in zip(parts, sizes, strict=True):
        covariance[start : start + size, start : start + size] = part.covariance
        start += size
    order = np.random.default_rng(4).permutation(start)
    return Known(0.0, np.inf, covariance[np.ix_(order, order)], sum(part.log_probability for part in parts))
