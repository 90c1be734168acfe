"""Models of the article's experiments, on inducing inputs and whole: priors and likelihoods as in its public code."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pymc as pm

import pmgp
from case_studies.sparse.data import Data
from pmgp.gp import Sparse, select_inducing

__all__ = ["Problem", "inducing_inputs", "problem", "sparse"]


class Priors(NamedTuple):
    """Shapes and rates of gamma distributions."""

    lengthscale: tuple[float, float]
    variance: tuple[float, float]


PRIORS = {
    "coal": Priors((1.1, 0.1), (1.0, 0.3)),
    "pines": Priors((1.75, 1.0), (1.2, 1.0)),
    "toy": Priors((3.0, 2.0), (3.0, 3.0)),
    "mnist": Priors((3.0, 3.0), (3.0, 3.0)),
}
CLASSES = Priors((1.1, 1.0), (1.1, 1.0))
"""Priors for image, and for the other data with two classes."""

OUTPUTS = {"toy": 3, "mnist": 10}


class Problem(NamedTuple):
    """Data with the parts of their model.

    Attributes
    ----------
    name : str
    data : Data
    priors : Priors
    outputs : int
        Number of processes, one per class where there are more than two.
    """

    name: str
    data: Data
    priors: Priors
    outputs: int

    def likelihood(self, f: Any) -> Any:
        """Distribution of the observations given latent values."""
        if self.name in OUTPUTS:
            return pmgp.likelihoods.RobustMax.dist(f)
        if self.name.split()[0] in PRIORS:
            return pm.Poisson.dist(mu=self.data.width * pm.math.exp(f))
        return pmgp.BernoulliProbit.dist(f)

    def start(self, rng: np.random.Generator, kernel: str) -> dict[str, Any]:
        """Where a chain starts: a length-scale about that over which inputs differ, twice it or half."""
        lengthscale = typical_lengthscale(self.data) * np.exp(rng.uniform(-np.log(2.0), np.log(2.0)))
        return {"lengthscale": np.full(self.data.d, lengthscale) if kernel == "ARD" else lengthscale}


def problem(name: str, data: Data) -> Problem:
    """The problem of a data set."""
    return Problem(name, data, PRIORS.get(name.split()[0], CLASSES), OUTPUTS.get(name, 1))


def typical_lengthscale(data: Data) -> float:
    """Half of the root mean square distance between inputs, or a quarter in one or two dimensions."""
    spread = float(np.sqrt(2.0 * data.X.var(axis=0).sum()))
    return 0.5 * spread if data.d > 2 else 0.25 * spread


def inducing_inputs(rng: np.random.Generator, data: Data, kind: str, points: int) -> np.ndarray:
    """A number of inducing inputs: evenly spaced ones ("grid"), or as :func:`pmgp.gp.select_inducing` has them."""
    if kind != "grid":
        cov_func = pm.gp.cov.ExpQuad(data.d, ls=typical_lengthscale(data))
        return select_inducing(data.X, points, kind, cov_func=cov_func, random_seed=rng)
    if data.d == 1:
        return np.linspace(data.X.min(), data.X.max(), points)[:, None]
    middles = (np.arange(round(np.sqrt(points))) + 0.5) / round(np.sqrt(points))
    low, high = data.X.min(axis=0), data.X.max(axis=0)
    return low + (high - low) * np.stack(np.meshgrid(middles, middles, indexing="ij"), axis=-1).reshape(-1, 2)


def sparse(given: Problem, kernel: str, Z: np.ndarray) -> tuple[pm.Model, Sparse]:
    """The model on inducing inputs, with one length-scale ("isotropic") or one for each feature ("ARD")."""
    data = given.data
    with pm.Model() as model:
        shape = data.d if kernel == "ARD" else None
        lengthscale = pm.Gamma("lengthscale", *given.priors.lengthscale, shape=shape)
        variance = pm.Gamma("variance", *given.priors.variance)
        process = Sparse(cov_func=variance * pm.gp.cov.ExpQuad(data.d, ls=lengthscale))
        f = process.prior("f", X=data.X, Xu=Z, n_outputs=given.outputs)
        process.observe("y", f, dist=given.likelihood, observed=data.y)
    return model, process
