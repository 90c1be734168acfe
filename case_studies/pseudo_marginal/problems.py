"""The posteriors of the pseudo-marginal article's section 4: simulated and real two-class problems with a probit link.

K = sigma exp(-||x - x'||^2 / (2 tau^2)) (equations 4 to 6), one length-scale for all inputs or one for each.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pymc as pm

import pmgp
from case_studies.tools import problem as base
from case_studies.tools.simulation import JITTER
from pmgp import datasets
from pmgp.core.gaussians import DensePrior
from pmgp.core.theta_updates.densities import JointState, LatentPart

__all__ = ["KERNELS", "LENGTHSCALE", "REAL", "SETTINGS", "VARIANCE", "Data", "Problem", "covariance", "simulate"]

KERNELS = ("isotropic", "ARD")

LENGTHSCALE, VARIANCE = 0.35, 2.08
"""Length-scale and variance with which the data are simulated: section 4.1 gives them, and section 4.2 no others."""

REAL = {"Breast": "breast", "Pima": "pima", "Abalone": "abalone"}
"""Names of the data sets in Figures 3 and 4, and in :mod:`pmgp.datasets`."""

SIMULATED_VARIANCE_PRIOR, REAL_VARIANCE_PRIOR = (1.2, 0.2), (1.1, 0.1)
"""Shape and rate of the gamma prior of sigma, in sections 4.2 and 4.4."""

SETTINGS = {"lengthscale": LENGTHSCALE, "variance": VARIANCE, "jitter": JITTER}
"""Settings that the data depend on besides their seed."""


class Data(NamedTuple):
    """Inputs of shape (n, d), and labels 0 and 1 of shape (n,)."""

    X: np.ndarray
    y: np.ndarray


def covariance(squares: np.ndarray, lengthscale: float) -> np.ndarray:
    """K with the variance of the simulation, from squared distances, both (n, n); Fortran order."""
    kernel = np.exp(-0.5 * squares / lengthscale**2)
    return np.asfortranarray(VARIANCE * (kernel + JITTER * np.eye(len(squares))))


def simulate(n: int, d: int, rng: np.random.Generator, lengthscale: float = LENGTHSCALE) -> Data:
    """Draw twice as many points as needed, then take the first n / 2 of each class.

    Parameters
    ----------
    n : int
        Even.
    d : int
    rng : numpy.random.Generator
    lengthscale : float
    """
    while True:
        X = rng.uniform(size=(2 * n, d))
        squares = np.square(X[:, None, :] - X[None, :, :]).sum(axis=-1)
        f = DensePrior(np.zeros(2 * n), covariance(squares, lengthscale)).sample(rng, 1)[0]
        y = (rng.standard_normal(2 * n) < f).astype(int)
        chosen = np.sort(np.concatenate([np.flatnonzero(y == label)[: n // 2] for label in (0, 1)]))
        if len(chosen) == n:
            return Data(X[chosen], y[chosen])


def _model(data: Data, kernel: str, variance_prior: tuple[float, float]) -> pm.Model:
    d = data.X.shape[1]
    with pm.Model() as model:
        lengthscale = pm.Gamma("lengthscale", 1.0, 1.0 / np.sqrt(d), shape=d if kernel == "ARD" else None)
        variance = pm.Gamma("variance", *variance_prior)
        unit = pm.gp.cov.ExpQuad(d, ls=lengthscale) + pm.gp.cov.WhiteNoise(np.sqrt(JITTER))
        process = pm.gp.Latent(cov_func=variance * unit)
        pmgp.BernoulliProbit("y", process.prior("f", X=data.X, reparameterize=False, jitter=0.0), observed=data.y)
    return model


class Problem(base.Problem):
    """A posterior whose chains start from the prior of theta and f.

    Parameters
    ----------
    data : Data
    kernel : {"isotropic", "ARD"}
    variance_prior : (float, float)
        Shape and rate.
    """

    def __init__(self, data: Data, kernel: str, variance_prior: tuple[float, float]) -> None:
        d = data.X.shape[1]
        super().__init__(
            _model(data, kernel, variance_prior),
            lambda rng, count: np.log(rng.gamma(1.0, np.sqrt(d), size=count if kernel == "ARD" else ())),
            base.latent_from_prior,
        )
        self._variance_prior = variance_prior

    def start(self, rng: np.random.Generator) -> JointState:
        """Draw where a chain starts."""
        shape, rate = self._variance_prior
        log_lengthscale = self._lengthscales(rng, self.dimension - 1)
        log_variance = np.array(np.log(rng.gamma(shape, 1.0 / rate)))
        theta = self.model.parts.ravel({"lengthscale_log__": log_lengthscale, "variance_log__": log_variance})
        prior = self.model.parts.prior(theta)
        return JointState(theta, LatentPart(prior, self._latent(rng, prior)))

    @cached_property
    def with_laplace(self) -> Problem:
        """The same with a step method whose importance density is Laplace's."""
        other = copy(self)
        other.pseudo_marginal = pmgp.PseudoMarginal(model=self.pymc_model, approximation="laplace")
        return other

    @classmethod
    def simulated(cls, data: Data, kernel: str) -> Problem:
        """Section 4.2."""
        return cls(data, kernel, SIMULATED_VARIANCE_PRIOR)

    @classmethod
    def real(cls, name: str) -> Problem:
        """Section 4.4: one of :data:`REAL`, its inputs standardized, one length-scale."""
        found = datasets.load(REAL[name])
        X = datasets.Standardizer.fit(found.X).transform(found.X)
        return cls(Data(X, found.y), "isotropic", REAL_VARIANCE_PRIOR)
