"""The twenty posteriors as PyMC models: of latent values, of whitened ones, and on inducing inputs.

All hyper-parameters are positive numbers whose logarithms are normal a priori. A process has a Matern kernel of order
3/2, a time series is an autoregression of first order, which is a Matern process of order 1/2 at regular times.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import pymc as pm

import pmgp
from case_studies.approximations import data
from case_studies.approximations.data import Data
from case_studies.approximations.likelihoods import LIKELIHOODS, Likelihood

__all__ = ["POSTERIORS", "Posterior", "exact_model", "sparse_model", "whitened_model"]


class Prior(NamedTuple):
    """Means of the logarithms of a length-scale and a variance, whose deviations are 1."""

    lengthscale: float
    variance: float


class Posterior:
    """One of the twenty.

    Parameters
    ----------
    name : str
    kind : str
        One of :data:`LIKELIHOODS`.
    read : callable
        Returns the data.
    prior : Prior
    series : bool
        Whether f is an autoregression instead of a process of the inputs.
    offset : bool
        Whether the mean of f is the logarithm of the mean observation, instead of zero.
    """

    def __init__(
        self, name: str, kind: str, read: Callable[[], Data], prior: Prior, series: bool = False, offset: bool = False
    ) -> None:
        self.name, self.kind, self.prior, self.series, self.offset = name, kind, prior, series, offset
        self._read = read

    @cached_property
    def data(self) -> Data:
        """Inputs and observations."""
        return self._read()

    @property
    def likelihood(self) -> Likelihood:
        """Its likelihood."""
        return LIKELIHOODS[self.kind]

    @property
    def mean(self) -> float:
        """Prior mean of f."""
        return float(np.log(self.data.y.mean())) if self.offset else 0.0

    @property
    def latents(self) -> list[str]:
        """Names of the latent vectors."""
        count = self.likelihood.latents
        return ["f"] if count == 1 else [f"f_{i}" for i in range(count)]

    @property
    def theta(self) -> dict[str, tuple[float, float]]:
        """Hyper-parameters by name, with mean and deviation of the logarithm."""
        return {
            name: (mean, 1.0)
            for suffix in self._suffixes
            for name, mean in (
                (f"lengthscale{suffix}", self.prior.lengthscale),
                (f"variance{suffix}", self.prior.variance),
            )
        } | self.likelihood.parameters

    @property
    def _suffixes(self) -> list[str]:
        """Suffixes of the kernels' names: a mean and a scale have a kernel each, classes share one."""
        return ["_0", "_1"] if self.kind == "mean and scale" else [""]

    def suffix(self, latent: int) -> str:
        """Return the ending of the names of the hyper-parameters of a latent vector."""
        return self._suffixes[latent % len(self._suffixes)]


def _priors(posterior: Posterior) -> dict[str, Any]:
    return {name: pm.LogNormal(name, *moments) for name, moments in posterior.theta.items()}


def kernel(posterior: Posterior, theta: dict[str, Any], latent: int = 0) -> Any:
    """Return the covariance function of a latent vector, that of a series too."""
    family = pm.gp.cov.Matern12 if posterior.series else pm.gp.cov.Matern32
    end = posterior.suffix(latent)
    return theta[f"variance{end}"] * family(posterior.data.X.shape[1], ls=theta[f"lengthscale{end}"])


def _latent(posterior: Posterior, theta: dict[str, Any], latent: int, whitened: bool) -> Any:
    name = posterior.latents[latent]
    if posterior.series:
        persistence = pm.math.exp(-1.0 / theta["lengthscale"])
        deviation, start = pm.math.sqrt(theta["variance"]), pm.Normal.dist(0.0, pm.math.sqrt(theta["variance"]))
        innovation = deviation * pm.math.sqrt(1.0 - persistence**2)
        return pm.AR(name, rho=[persistence], sigma=innovation, init_dist=start, shape=len(posterior.data.y))
    process = pm.gp.Latent(cov_func=kernel(posterior, theta, latent))
    return process.prior(name, X=posterior.data.X, reparameterize=whitened)


def _model(posterior: Posterior, whitened: bool) -> pm.Model:
    likelihood = posterior.likelihood
    with pm.Model() as model:
        theta = _priors(posterior)
        f = [_latent(posterior, theta, i, whitened) + posterior.mean for i in range(likelihood.latents)]
        likelihood.observe(f, [theta[name] for name in likelihood.parameters], posterior.data.y)
    return model


def exact_model(posterior: Posterior) -> pm.Model:
    """Return the model with its latent values, for step methods of this package."""
    return _model(posterior, False)


def whitened_model(posterior: Posterior) -> pm.Model:
    """Return the model in which f is a function of standard normal values, or of a series as it is."""
    return _model(posterior, True)


def sparse_model(posterior: Posterior, inducing: int) -> pm.Model:
    """Return the model on a number of inducing inputs, with the moments of f at all inputs as ``f_mean`` and ``f_var``.

    The inducing inputs are centers of clusters, or as many different inputs as there are.
    """
    X, y = posterior.data
    count = min(inducing, len(np.unique(X, axis=0)))
    Z = pmgp.gp.select_inducing(X, count, random_seed=1)
    with pm.Model() as model:
        theta = _priors(posterior)
        process = pmgp.gp.Sparse(mean_func=pm.gp.mean.Constant(posterior.mean), cov_func=kernel(posterior, theta))
        f = process.prior("f", X=X, Xu=Z)
        values = [theta[name] for name in posterior.likelihood.parameters]
        process.observe("y", f, *values, dist=posterior.likelihood.dist, observed=y)
        pm.Deterministic("f_mean", f.mean)
        pm.Deterministic("f_var", f.variance)
    return model


PLANE, STRONG, WEAK = Prior(1.0, 1.0), Prior(0.0, 2.0), Prior(1.0, 0.0)
YEARS, MONTHS, DAYS = Prior(2.5, -1.0), Prior(4.0, -1.0), Prior(4.0, -1.0)

POSTERIORS = {
    one.name: one
    for one in (
        Posterior("few labels", "probit", partial(data.simulated, "few labels"), STRONG),
        Posterior("crabs", "probit", data.crabs, Prior(1.0, 2.0)),
        Posterior("glass", "probit", data.glass, PLANE),
        Posterior("nodal", "logit", data.nodal, PLANE),
        Posterior("Pima", "logit", data.pima, PLANE),
        Posterior("rare labels", "logit", partial(data.simulated, "rare labels"), PLANE),
        Posterior("labels in time", "logit", partial(data.simulated, "labels in time"), Prior(4.0, 0.0), series=True),
        Posterior("coal by year", "counts", partial(data.coal, 12), YEARS, series=True, offset=True),
        Posterior("coal by month", "counts", partial(data.coal, 1), MONTHS, series=True, offset=True),
        Posterior("discoveries", "counts", data.discoveries, YEARS, series=True, offset=True),
        Posterior("quine", "dispersed counts", data.quine, WEAK, offset=True),
        Posterior("wine", "ordered categories", data.wine, PLANE),
        Posterior("ordered", "ordered categories", partial(data.simulated, "ordered"), Prior(0.0, 1.0)),
        Posterior("iris", "classes", data.iris, PLANE),
        Posterior("three classes", "classes", partial(data.simulated, "three classes"), Prior(0.0, 1.0)),
        Posterior("outliers", "heavy tails", partial(data.simulated, "outliers"), Prior(0.0, 0.0)),
        Posterior("mcycle", "heavy tails", data.mcycle, Prior(0.0, 0.0)),
        Posterior("mcycle, scale", "mean and scale", partial(data.mcycle, 2), Prior(0.0, 0.0)),
        Posterior("DAX, a year", "volatility", partial(data.returns, 250), DAYS, series=True),
        Posterior("DAX", "volatility", partial(data.returns, 1859), DAYS, series=True),
    )
}
"""By name."""
