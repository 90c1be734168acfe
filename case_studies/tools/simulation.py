"""Data from the four Gaussian process models of the comparative evaluation (section 4.1).

X, theta and f of a data set are the same for all four, so that only the likelihood differs. Studies with the same seed
have the same data sets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit, ndtri

from case_studies.tools.stream import stream
from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods import BernoulliLogit, Likelihood, LogGaussianCox, OrdinalProbit, StochasticVolatility

__all__ = [
    "JITTER", "LOG_LENGTHSCALES", "MODELS", "NOISE", "SETTINGS", "THRESHOLDS", "VARIANCE", "Simulated", "covariance",
    "data_set", "likelihood", "observations", "simulate",
]  # fmt: skip

VARIANCE = float(np.exp(2.0))
"""Variance of f, called sigma in the article."""

LOG_LENGTHSCALES = (-3.0, -1.0)
"""Range of the uniform distribution that each length-scale's logarithm is drawn from."""

JITTER = 1e-6
"""Relative to the variance. Without it K is singular to working precision at n = 400, d = 2."""

THRESHOLDS = np.sqrt(VARIANCE) * ndtri([0.2, 0.4, 0.6, 0.8])
"""Five categories with equal probability under the prior: the article gives neither thresholds nor noise."""

NOISE = 0.1
"""Standard deviation of the ordinal model's noise, on the scale of f.

Of 1, 0.5, 0.25, 0.1 and 0.05 the one with which HMC v2 comes closest to the article, on one data set.
"""

SETTINGS = {
    "variance": VARIANCE,
    "log_lengthscales": LOG_LENGTHSCALES,
    "jitter": JITTER,
    "thresholds": THRESHOLDS.tolist(),
    "noise": NOISE,
}
"""Settings that the data depend on besides their seed."""


class Simulated(NamedTuple):
    """Values that a data set's four models share.

    Attributes
    ----------
    X : (n, d) array
        Uniform in the unit cube.
    log_lengthscales : (d,) array
    covariance : (n, n) array
        Fortran order, jitter included.
    f : (n,) array
    """

    X: np.ndarray
    log_lengthscales: np.ndarray
    covariance: np.ndarray
    f: np.ndarray


def covariance(X: np.ndarray, log_lengthscales: np.ndarray, variance: float = VARIANCE) -> np.ndarray:
    """Equation 1, with the jitter: (n, n), Fortran order."""
    scaled = X / np.exp(log_lengthscales)
    squares = np.square(scaled[:, None, :] - scaled[None, :, :]).sum(axis=-1)
    return np.asfortranarray(variance * (np.exp(-0.5 * squares) + JITTER * np.eye(len(X))))


def simulate(n: int, d: int, rng: np.random.Generator, variance: float = VARIANCE) -> Simulated:
    """Draw inputs, length-scales and latent values."""
    X = rng.uniform(size=(n, d))
    log_lengthscales = rng.uniform(*LOG_LENGTHSCALES, size=d)
    K = covariance(X, log_lengthscales, variance)
    f = DensePrior(np.zeros(n), K).sample(rng, 1)[0]
    return Simulated(X, log_lengthscales, K, f)


def _logistic(rng: np.random.Generator, f: np.ndarray) -> BernoulliLogit:
    return BernoulliLogit((rng.uniform(size=f.shape) < expit(f)).astype(int))


def _cox(rng: np.random.Generator, f: np.ndarray) -> LogGaussianCox:
    return LogGaussianCox(rng.poisson(np.exp(f)))


def _volatility(rng: np.random.Generator, f: np.ndarray) -> StochasticVolatility:
    return StochasticVolatility(np.exp(f) * rng.standard_normal(f.shape))


def _ordinal(rng: np.random.Generator, f: np.ndarray) -> OrdinalProbit:
    noisy = f + NOISE * rng.standard_normal(f.shape)
    return OrdinalProbit(np.searchsorted(THRESHOLDS, noisy), THRESHOLDS, NOISE)


MODELS: dict[str, Callable[[np.random.Generator, np.ndarray], Likelihood]] = {
    "LRG": _logistic,
    "LCX": _cox,
    "VLT": _volatility,
    "ORD": _ordinal,
}
"""The models by the article's abbreviations; each draws y given f and returns the likelihood that holds it."""


def likelihood(model: str, f: np.ndarray, rng: np.random.Generator) -> Likelihood:
    """Draw y from one of the models.

    Raises
    ------
    ValueError
        For another model.
    """
    if model not in MODELS:
        raise ValueError(f"model must be one of {', '.join(MODELS)}, not {model!r}")
    return MODELS[model](rng, f)


def data_set(seed: int, n: int, d: int, number: int, variance: float = VARIANCE) -> Simulated:
    """Inputs, length-scales and latent values of one data set of a study, the same for all models.

    With another variance f is the same but for a factor.
    """
    return simulate(n, d, stream(seed, "data", n, d, number), variance)


def observations(data: Simulated, model: str, seed: int, n: int, d: int, number: int) -> Likelihood:
    """The likelihood that holds y of one model, for a data set of :func:`data_set` and what named it."""
    return likelihood(model, data.f, stream(seed, "data", n, d, number, model))
