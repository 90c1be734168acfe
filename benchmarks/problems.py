"""The data sets and models that every benchmark uses."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pymc as pm
from scipy.special import ndtr

from pmgp import datasets, models
from pmgp.distributions import BernoulliProbit

__all__ = ["Problem", "load", "whitened"]


class Problem(NamedTuple):
    """A binary classification task with standardized inputs."""

    name: str
    X: np.ndarray
    y: np.ndarray
    kernel: str

    def model(self) -> pm.Model:
        """The model that `pmgp.PseudoMarginal` samples."""
        return models.classifier(self.X, self.y, kernel=self.kernel)


def synthetic(n: int, d: int = 2, kernel: str = "rbf", seed: int = 1) -> Problem:
    """Inputs uniform in the unit cube, labels from the model itself (length-scale 0.35, variance exp(2))."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, d))
    squared = np.square(X[:, None] - X).sum(axis=-1) / 0.35**2
    covariance = np.exp(2.0) * np.exp(-0.5 * squared) + 1e-6 * np.eye(n)
    f = np.linalg.cholesky(covariance) @ rng.standard_normal(n)
    y = (rng.uniform(size=n) < ndtr(f)).astype(int)
    return Problem(f"synthetic n={n} d={d}" + (" ARD" if kernel == "ard" else ""), X, y, kernel)


def load(name: str) -> Problem:
    """A real data set, or ``synthetic-N`` and ``synthetic-N-ard``."""
    if name.startswith("synthetic"):
        _, n, *ard = name.split("-")
        return synthetic(int(n), kernel="ard" if ard else "rbf")
    data = datasets.load(name)
    return Problem(name, datasets.Standardizer.fit(data.X).transform(data.X), data.y, "rbf")


def whitened(problem: Problem) -> pm.Model:
    """The same model with f = L nu, which is what NUTS needs."""
    d = problem.X.shape[1]
    shape = d if problem.kernel == "ard" else None
    with pm.Model() as model:
        lengthscale = pm.Gamma("lengthscale", 1.0, 1.0 / np.sqrt(d), shape=shape)
        variance = pm.Gamma("variance", 1.1, 0.1)
        gp = pm.gp.Latent(cov_func=variance * pm.gp.cov.ExpQuad(d, ls=lengthscale))
        f = gp.prior("f", X=problem.X)
        BernoulliProbit("y", f, observed=problem.y)
    return model
