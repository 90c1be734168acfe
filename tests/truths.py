"""Exact answers that the statistical tests compare with."""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, logsumexp

from pmgp.core.gaussians import DensePrior


def low_rank_problem(n: int, noise: float = 0.3, seed: int = 0) -> tuple[DensePrior, np.ndarray, float]:
    """Probit classification whose evidence is a one-dimensional integral.

    For K = x x' + noise I, p(y) is the integral of N(u|0, 1) prod_i Phi(y_i x_i u / sqrt(1 + noise)) over u. The
    integrand is summed in logs on a grid a thousand times finer than its width.

    Returns
    -------
    prior : DensePrior
    y : (n,) array
        Labels 0 or 1.
    log_evidence : float
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    covariance = np.outer(x, x) + noise * np.eye(n)
    f = 1.3 * x + np.sqrt(noise) * rng.normal(size=n)
    y = (f + rng.normal(size=n) > 0).astype(int)
    slopes = (2 * y - 1) * x / np.sqrt(1.0 + noise)
    u = np.linspace(-12.0, 12.0, 24_001)
    integrand = log_ndtr(np.outer(u, slopes)).sum(axis=1) - 0.5 * u**2 - 0.5 * np.log(2.0 * np.pi)
    return DensePrior(np.zeros(n), np.asfortranarray(covariance)), y, float(logsumexp(integrand) + np.log(u[1] - u[0]))


class ScaledLowRank:
    """Probit classification with K = scale (x x' + noise I) and a log-normal scale: everything by summation.

    Parameters
    ----------
    n : int
    noise : float
    seed : int

    Attributes
    ----------
    covariance : (n, n) array
        K at scale 1.
    y : (n,) array
        Labels 0 or 1.
    grid : (k,) array
        Of log scale, equally spaced.
    log_likelihood : (k,) array
        Log p(y|scale) on the grid.
    log_likelihood_left_out : (n, k) array
        The same without each of the labels.
    """

    def __init__(self, n: int, noise: float = 0.3, seed: int = 0) -> None:
        prior, self.y, _ = low_rank_problem(n, noise, seed)
        self.covariance = prior.covariance
        self.grid = np.linspace(-7.0, 7.0, 141)
        signed = (2 * self.y - 1) * np.random.default_rng(seed).normal(size=n)
        values = [_with_and_without(signed * np.sqrt(s / (1.0 + s * noise))) for s in np.exp(self.grid)]
        self.log_likelihood, *left_out = np.array(values).T
        self.log_likelihood_left_out = np.array(left_out)

    @property
    def log_evidence(self) -> float:
        """Log p(y), the scale integrated out."""
        return float(self._integrated(self.log_likelihood))

    @property
    def log_evidence_left_out(self) -> np.ndarray:
        """The same without each of the labels: (n,)."""
        return self._integrated(self.log_likelihood_left_out)

    def _integrated(self, log_likelihood: np.ndarray) -> np.ndarray:
        log_prior = -0.5 * (self.grid**2 + np.log(2.0 * np.pi))
        return logsumexp(log_prior + log_likelihood, axis=-1) + np.log(self.grid[1] - self.grid[0])

    def posterior_scales(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Independent draws of the scale, from a histogram: (size,)."""
        weights = np.exp(self.log_likelihood - self.log_likelihood.max() - 0.5 * self.grid**2)
        chosen = rng.choice(len(self.grid), size, p=weights / weights.sum())
        return np.exp(self.grid[chosen] + (self.grid[1] - self.grid[0]) * rng.uniform(-0.5, 0.5, size))


def _with_and_without(slopes: np.ndarray) -> np.ndarray:
    """Log of the integral of N(u|0, 1) prod_i Phi(s_i u) over u, with all factors and without each: (1 + n,)."""
    u = np.linspace(-10.0, 10.0, 1001)
    terms = log_ndtr(np.outer(u, slopes))
    complete = terms.sum(axis=1, keepdims=True) - 0.5 * u[:, None] ** 2 - 0.5 * np.log(2.0 * np.pi)
    return logsumexp(np.hstack([complete, complete - terms]), axis=0) + np.log(u[1] - u[0])


def posterior_by_summation(prior: DensePrior, likelihood, points: int = 81) -> tuple[float, np.ndarray, np.ndarray]:
    """Log-evidence, means and variances by summation on a grid in the whitened values; n up to 3."""
    n = prior.size
    axis = np.linspace(-7.0, 7.0, points)
    nu = np.stack(np.meshgrid(*[axis] * n, indexing="ij"), axis=-1).reshape(-1, n)
    f = prior.mean + nu @ np.linalg.cholesky(prior.covariance).T
    terms = likelihood.log_likelihood(f) - 0.5 * np.square(nu).sum(axis=1)
    log_evidence = logsumexp(terms) + n * np.log((axis[1] - axis[0]) / np.sqrt(2.0 * np.pi))
    weights = np.exp(terms - logsumexp(terms))
    mean = weights @ f
    return float(log_evidence), mean, weights @ np.square(f - mean)


def standard_errors_from(sample: np.ndarray, truth: float) -> float:
    """Distance of a mean of independent draws from its true value, in standard errors."""
    return float(abs(sample.mean() - truth) / (sample.std(ddof=1) / np.sqrt(len(sample))))
