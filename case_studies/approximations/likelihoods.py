"""The likelihoods of the twenty posteriors: a distribution given f, its parameters' priors, and what is predicted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.special import expit, ndtr, softmax

import pmgp

__all__ = ["LIKELIHOODS", "Likelihood"]

FLOOR = 0.1
"""Smallest noise of a mean and a scale, without which the density has no bound where an observation is met exactly."""

Draws = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Likelihood:
    """A likelihood of one or several latent vectors.

    Parameters
    ----------
    distribution : class
        Of PyMC or of this package.
    arguments : callable
        From the list of latent vectors and the values of the parameters to keyword arguments of the distribution.
    response : callable
        From draws (k, c, n) of c latent vectors and (k,) of each hyper-parameter to the quantity that is predicted:
        (k, m) probabilities, or expectations.
    parameters : dict
        The parameters by name, with the mean and the deviation of their logarithms, which are normal.
    latents : int
        How many latent vectors there are.
    """

    distribution: Any
    arguments: Callable[..., dict[str, Any]]
    response: Callable[[np.ndarray, Draws], np.ndarray]
    parameters: dict[str, tuple[float, float]] = field(default_factory=dict)
    latents: int = 1

    def observe(self, f: list[Any], values: list[Any], y: np.ndarray) -> None:
        """Add the observations to the open model."""
        self.distribution("y", **self.arguments(f, *values), observed=y)

    def dist(self, f: Any, *values: Any) -> Any:
        """Return the distribution given one latent vector, not registered in a model."""
        return self.distribution.dist(**self.arguments([f], *values))


def _first(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray, Draws], np.ndarray]:
    return lambda f, theta: function(f[:, 0])


def _expected_category(f: np.ndarray, theta: Draws) -> np.ndarray:
    spacing = theta["spacing"][:, None]
    return np.asarray(ndtr(f[:, 0] + spacing) + ndtr(f[:, 0] - spacing))


def _mean_and_scale(f: np.ndarray, theta: Draws) -> np.ndarray:
    return np.concatenate([f[:, 0], FLOOR + np.exp(f[:, 1])], axis=1)


def _class_probabilities(f: np.ndarray, theta: Draws) -> np.ndarray:
    return np.asarray(softmax(f, axis=1)).reshape(len(f), -1)


LIKELIHOODS = {
    "probit": Likelihood(pmgp.BernoulliProbit, lambda f: {"f": f[0]}, _first(ndtr)),
    "logit": Likelihood(pmgp.BernoulliLogit, lambda f: {"f": f[0]}, _first(expit)),
    "counts": Likelihood(pm.Poisson, lambda f: {"mu": pt.exp(f[0])}, _first(np.exp)),
    "dispersed counts": Likelihood(
        pm.NegativeBinomial,
        lambda f, dispersion: {"mu": pt.exp(f[0]), "alpha": dispersion},
        _first(np.exp),
        {"dispersion": (0.0, 1.0)},
    ),
    "ordered categories": Likelihood(
        pmgp.OrdinalProbit,
        lambda f, spacing: {"f": f[0], "thresholds": pt.stack([-spacing, spacing])},
        _expected_category,
        {"spacing": (0.0, 1.0)},
    ),
    "classes": Likelihood(
        pmgp.MultinomialLogit, lambda *f: {"f": pt.stack(f[0], axis=-1)}, _class_probabilities, latents=3
    ),
    "heavy tails": Likelihood(
        pm.StudentT,
        lambda f, noise: {"nu": 4.0, "mu": f[0], "sigma": noise},
        _first(np.array),
        {"noise": (-1.0, 1.0)},
    ),
    "mean and scale": Likelihood(
        pm.Normal, lambda f: {"mu": f[0], "sigma": FLOOR + pt.exp(f[1])}, _mean_and_scale, latents=2
    ),
    "volatility": Likelihood(pmgp.likelihoods.StochasticVolatility, lambda f: {"f": f[0]}, _first(np.exp)),
}
"""By name. Ordered categories have the thresholds minus and plus `spacing`; heavy tails are those of four degrees of
freedom; the volatility is that of standardized returns."""
