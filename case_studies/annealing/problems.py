"""The classifiers of section V of the annealing article: priors, data and where chains start."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pymc as pm

import pmgp
from case_studies.tools.stream import stream
from pmgp import datasets
from pmgp.core.gaussians import DensePrior
from pmgp.interface.model.latent_gaussian import LatentGaussianModel
from pmgp.interface.model.taking_apart import take_apart

__all__ = [
    "KERNELS",
    "REAL",
    "VARIANCE",
    "Problem",
    "Synthetic",
    "classifier",
    "on_real_data",
    "simulate",
    "synthetic",
    "synthetic_prior",
]

REAL = {"Glass": "glass", "Thyroid": "thyroid", "Breast": "breast", "Pima": "pima", "Banknote": "banknote"}
"""Names of the data sets in Table I, and in :mod:`pmgp.datasets`."""

KERNELS = ("isotropic", "ARD")

VARIANCE, LENGTHSCALE = 20.0, 0.255
"""Sigma and tau behind the synthetic data."""

# Gamma priors.
VARIANCE_SHAPE, VARIANCE_RATE, LENGTHSCALE_SHAPE = 1.1, 0.1, 1.0

# PyMC's own default, absolute.
JITTER = 1e-6
# Number of latent functions that are drawn at a time for rejection.
TOGETHER = 64


class Problem(NamedTuple):
    """A posterior of theta, as a PyMC model and taken apart; and the rate of the length-scales' prior."""

    model: pm.Model
    parts: LatentGaussianModel
    rate: float

    def start(self, rng: np.random.Generator) -> np.ndarray:
        """Draw theta from its prior, on the log scale: (dimension,)."""
        lengthscales = rng.gamma(LENGTHSCALE_SHAPE, 1.0 / self.rate, self.parts.dimension - 1)
        variance = rng.gamma(VARIANCE_SHAPE, 1.0 / VARIANCE_RATE)
        values = {"lengthscale_log__": np.log(lengthscales), "variance_log__": np.log(variance)}
        return self.parts.ravel(values)


class Synthetic(NamedTuple):
    """Simulated data.

    Attributes
    ----------
    X : (n, 2) array
    f : (n,) array
    y : (n,) array
        Labels 0 and 1, the same number of each.
    """

    X: np.ndarray
    f: np.ndarray
    y: np.ndarray


def classifier(X: np.ndarray, y: np.ndarray, kernel: str) -> Problem:
    """Probit classification with the covariance of eq. 1 and the priors of section V.

    Sigma is gamma with shape 1.1 and rate 0.1. A length-scale that all inputs share is gamma with shape 1 and rate
    1 / sqrt(d); with one for each input (ARD) their rate is 1.

    Parameters
    ----------
    X : (n, d) array
        Standardized, but for the synthetic data.
    y : (n,) array
        Labels 0 and 1.
    kernel : {"isotropic", "ARD"}
    """
    d = X.shape[1]
    rate, shape = (1.0, d) if kernel == "ARD" else (1.0 / np.sqrt(d), None)
    with pm.Model() as model:
        lengthscale = pm.Gamma("lengthscale", LENGTHSCALE_SHAPE, rate, shape=shape)
        variance = pm.Gamma("variance", VARIANCE_SHAPE, VARIANCE_RATE)
        process = pm.gp.Latent(cov_func=variance * pm.gp.cov.ExpQuad(d, ls=lengthscale))
        f = process.prior("f", X=X, reparameterize=False, jitter=JITTER)
        pmgp.BernoulliProbit("y", f, observed=y)
    return Problem(model, take_apart(model), rate)


@lru_cache(maxsize=1)
def on_real_data(name: str, kernel: str) -> Problem:
    """One of :data:`REAL`, every feature with mean zero and standard deviation one."""
    data = datasets.load(REAL[name])
    X = datasets.Standardizer.fit(data.X).transform(data.X)
    return classifier(X, np.asarray(data.y), kernel)


@lru_cache(maxsize=1)
def synthetic(seed: int, n: int) -> Problem:
    """Section V.A, with one length-scale."""
    data = simulate(stream(seed, "data", n), n)
    return classifier(data.X, data.y, "isotropic")


def simulate(rng: np.random.Generator, n: int) -> Synthetic:
    """Draw inputs in the unit square, and latent functions until exactly half of the labels are one.

    The article does not say how it balances the classes.

    Raises
    ------
    ValueError
        For an odd number n, whose classes cannot be balanced.
    """
    if n % 2:
        raise ValueError(f"classes of the same size need an even n, not {n}")
    X = rng.uniform(size=(n, 2))
    prior = synthetic_prior(X, VARIANCE)
    while True:
        f = prior.sample(rng, TOGETHER)
        y = (f + rng.standard_normal(f.shape) > 0.0).astype(int)
        balanced = np.flatnonzero(2 * y.sum(axis=1) == n)
        if balanced.size:
            return Synthetic(X, f[balanced[0]], y[balanced[0]])


def synthetic_prior(X: np.ndarray, variance: float) -> DensePrior:
    """p(f|theta) at inputs (n, 2), with the length-scale behind the synthetic data."""
    squared = np.square(X[:, None] - X).sum(axis=-1)
    covariance = variance * np.exp(-0.5 * squared / LENGTHSCALE**2) + JITTER * np.eye(len(X))
    return DensePrior(np.zeros(len(X)), np.asfortranarray(covariance))
