"""The posteriors that are sampled, and where their chains start.

Eq. 1 of the comparative evaluation, K = sigma Q with a length-scale for each input, and the priors of its section 4.1.
A jitter in units of sigma keeps K proportional to sigma, so that sigma can be drawn from its full conditional given f.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm

import pmgp
from case_studies.tools import simulation
from case_studies.tools.problem import Problem, latent_from_prior
from pmgp import datasets
from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods import Likelihood

__all__ = [
    "OBSERVE", "REAL", "covariance_model", "given_latent", "given_whitened", "jointly", "lengthscales_from_prior",
    "on_real_data", "uniform",
]  # fmt: skip

REAL = {"SPECT": "spect", "Ionosphere": "ionosphere", "Wisconsin": "breast", "Pima": "pima"}
"""Names of the data sets in Table 6, and in :mod:`pmgp.datasets`; in order of the time they take."""

Observe = Callable[[str, Any], Any]


def _logistic(likelihood: Any) -> Observe:
    return lambda name, f: pmgp.BernoulliLogit(name, f, observed=(likelihood.sign > 0.0).astype(int))


def _cox(likelihood: Any) -> Observe:
    return lambda name, f: pmgp.likelihoods.LogGaussianCox(name, f, observed=likelihood.y)


def _volatility(likelihood: Any) -> Observe:
    # The sign of an observation says nothing about its standard deviation.
    return lambda name, f: pmgp.likelihoods.StochasticVolatility(name, f, observed=np.exp(0.5 * likelihood.log_square))


def _ordinal(likelihood: Any) -> Observe:
    labels = np.searchsorted(likelihood.limits, likelihood.lower)
    thresholds, noise = simulation.THRESHOLDS, simulation.NOISE
    return lambda name, f: pmgp.OrdinalProbit(name, f, thresholds, noise, observed=labels)


OBSERVE: dict[str, Callable[[Likelihood], Observe]] = {
    "LRG": _logistic,
    "LCX": _cox,
    "VLT": _volatility,
    "ORD": _ordinal,
}
"""From a likelihood with its data to the same as an observed variable of PyMC."""


def covariance_model(
    X: np.ndarray, observe: Observe, variance: float | None = None, isotropic: bool = False
) -> pm.Model:
    """The model of the article.

    Parameters
    ----------
    X : (n, d) array
    observe : callable
        From a name and f to the observed variable.
    variance : float, optional
        Sigma where it is known; otherwise it has an inverse-gamma prior with shape and scale 1.
    isotropic : bool
        One length-scale for all inputs instead of one for each.
    """
    d = X.shape[1]
    with pm.Model() as model:
        lengthscale = pm.Gamma("lengthscale", 1.0, 1.0, shape=None if isotropic else d)
        sigma = pm.InverseGamma("variance", 1.0, 1.0) if variance is None else variance
        kernel = pm.gp.cov.ExpQuad(d, ls=lengthscale) + pm.gp.cov.WhiteNoise(np.sqrt(simulation.JITTER))
        process = pm.gp.Latent(cov_func=sigma * kernel)
        observe("y", process.prior("f", X=X, reparameterize=False, jitter=0.0))
    return model


def uniform(rng: np.random.Generator, count: int) -> np.ndarray:
    """As section 4.1 starts chains: the range that the data's own length-scales are drawn from."""
    return rng.uniform(*simulation.LOG_LENGTHSCALES, size=count)


def lengthscales_from_prior(rng: np.random.Generator, count: int) -> np.ndarray:
    """Logarithms of draws from the gamma distribution with shape and rate 1."""
    return np.log(rng.gamma(1.0, size=count))


def _simulated(
    seed: int, n: int, d: int, dataset: int, model: str, variance: float = simulation.VARIANCE
) -> tuple[simulation.Simulated, Observe]:
    """X, theta and f, and y as an observed variable."""
    data = simulation.data_set(seed, n, d, dataset, variance)
    return data, OBSERVE[model](simulation.observations(data, model, seed, n, d, dataset))


def given_latent(seed: int, n: int, d: int, dataset: int, model: str, variance: float = simulation.VARIANCE) -> Problem:
    """p(length-scales|f): Table 3. Sigma and f are those that made the data, with a variance of f."""
    data, observe = _simulated(seed, n, d, dataset, model, variance)
    pymc_model = covariance_model(data.X, observe, variance)
    return Problem(pymc_model, uniform, lambda rng, prior: data.f.copy(), derivatives=True)


def given_whitened(
    seed: int, n: int, d: int, dataset: int, model: str, variance: float = simulation.VARIANCE
) -> Problem:
    """p(theta|nu, y): Table 4. Nu is the one that made the data, with a variance of f."""
    data, observe = _simulated(seed, n, d, dataset, model, variance)
    nu = DensePrior(np.zeros(n), data.covariance.copy(order="F")).whiten(data.f)
    return Problem(covariance_model(data.X, observe), uniform, lambda rng, prior: prior.unwhiten(nu), derivatives=True)


def jointly(seed: int, n: int, d: int, dataset: int, model: str, variance: float = simulation.VARIANCE) -> Problem:
    """p(theta, f|y) of data that were simulated with a variance of f: Table 5."""
    data, observe = _simulated(seed, n, d, dataset, model, variance)
    return Problem(covariance_model(data.X, observe), uniform, latent_from_prior)


def on_real_data(name: str) -> Problem:
    """p(theta, f|y) of one of :data:`REAL`, its inputs standardized as in the article's section 5: Table 6."""
    data = datasets.load(REAL[name])
    X = datasets.Standardizer.fit(data.X).transform(data.X)
    observe = lambda label, f: pmgp.BernoulliLogit(label, f, observed=data.y)  # noqa: E731
    return Problem(covariance_model(X, observe), lengthscales_from_prior, latent_from_prior)
