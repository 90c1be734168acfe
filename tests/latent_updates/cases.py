"""Every variant of every operator, and the four models that the comparative evaluation runs them on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.special import expit

from pmgp.core.latent_updates import (
    EllipticalSliceUpdate,
    HamiltonianUpdate,
    LangevinUpdate,
    MetropolisUpdate,
    RiemannianUpdate,
)
from pmgp.core.likelihoods import BernoulliLogit, Likelihood, LogGaussianCox, OrdinalProbit, StochasticVolatility

VARIANTS: dict[str, list[Any]] = {
    "EllipticalSliceUpdate": [EllipticalSliceUpdate(), EllipticalSliceUpdate(reference="laplace")],
    "HamiltonianUpdate": [HamiltonianUpdate("identity"), HamiltonianUpdate("posterior"), HamiltonianUpdate("prior")],
    "MetropolisUpdate": [
        MetropolisUpdate("isotropic"),
        MetropolisUpdate("random_walk"),
        MetropolisUpdate("autoregressive"),
    ],
    "LangevinUpdate": [LangevinUpdate()],
    "RiemannianUpdate": [RiemannianUpdate(metric, max_leapfrog=3) for metric in ("identity", "fixed", "local")],
}
OPERATORS = [operator for variants in VARIANTS.values() for operator in variants]
# So many transitions reject the operator's twins at twice the bound or more.
LENGTHS = {
    "EllipticalSliceUpdate": 7_500,
    "HamiltonianUpdate": 7_500,
    "MetropolisUpdate": 11_250,
    "LangevinUpdate": 7_500,
    "RiemannianUpdate": 2_500,
}

THRESHOLDS = np.array([-1.0, 0.5, 2.0])


def name_of(operator: Any) -> str:
    """A test's identifier: the class, and what it is configured by."""
    kind = next(
        (getattr(operator, name) for name in ("proposal", "mass", "reference", "metric") if hasattr(operator, name)), ""
    )
    return type(operator).__name__ + (f"-{kind}" if kind else "")


def length_of(operator: Any) -> int:
    return LENGTHS[type(operator).__name__]


def shortened(operator: Any, steps: int) -> int:
    """Half of the steps for implicit ones, which take some fifty times as long."""
    return steps // 2 if getattr(operator, "metric", "") == "local" else steps


every_operator = pytest.mark.parametrize("operator", OPERATORS, ids=name_of)
tuned_operators = pytest.mark.parametrize(
    "operator", [operator for operator in OPERATORS if not isinstance(operator, EllipticalSliceUpdate)], ids=name_of
)


class Model(NamedTuple):
    """A likelihood, and how its data are drawn."""

    name: str

    def likelihood(self, y: np.ndarray) -> Likelihood:
        """The likelihood with its data."""
        if self.name == "ordinal":
            return OrdinalProbit(y, THRESHOLDS, 0.7)
        return {"logit": BernoulliLogit, "cox": LogGaussianCox, "volatility": StochasticVolatility}[self.name](y)

    def draw(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        """Data given f of any shape."""
        if self.name == "logit":
            return (rng.uniform(size=f.shape) < expit(f)).astype(int)
        if self.name == "cox":
            return rng.poisson(np.exp(f))
        if self.name == "volatility":
            return np.exp(f) * rng.standard_normal(f.shape)
        return np.searchsorted(THRESHOLDS, f + 0.7 * rng.standard_normal(f.shape))


MODELS = [Model(name) for name in ("logit", "cox", "volatility", "ordinal")]
every_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)


class GaussianLikelihood:
    """y_i ~ N(f_i, noise_i^2): the posterior is known.

    Parameters
    ----------
    y, noise : (n,) array
    """

    def __init__(self, y: np.ndarray, noise: np.ndarray) -> None:
        self.y, self.precision = y, noise**-2.0

    def log_likelihood(self, f: np.ndarray) -> np.ndarray:
        return -0.5 * np.square(self.y - f) @ self.precision

    def gradient(self, f: np.ndarray) -> np.ndarray:
        return self.precision * (self.y - f)

    def curvature(self, f: np.ndarray) -> np.ndarray:
        return np.broadcast_to(self.precision, f.shape)

    def derivatives(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.gradient(f), self.curvature(f)

    def third_derivative(self, f: np.ndarray) -> np.ndarray:
        return np.zeros_like(f)

    def fisher_information(self, f: np.ndarray) -> np.ndarray:
        return self.curvature(f)
