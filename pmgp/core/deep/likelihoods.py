"""Likelihoods p(y | f) as JAX functions of the last layer's values, with their predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln, ndtr
from jax.scipy.stats import norm


@dataclass(frozen=True)
class JaxLikelihood:
    """A density of y given f, and its hyper-parameters.

    Attributes
    ----------
    log_density : callable
        From y, shape (n,), f, shape (n, C), and the hyper-parameters, a tuple, to log densities, shape (n,).
    expectation, draw : callable or None
        From f and the hyper-parameters to E[y | f]; from a key, f and the hyper-parameters to draws of y.
    expected : str
        The name of the expectation among the predictions.
    labels : str or None
        Allowed values of y: "binary", "classes", "counts", or None for any number.
    start : tuple of float
        Initial hyper-parameters, on an unconstrained scale.
    """

    log_density: Callable[[Any, Any, Any], Any]
    expectation: Callable[[Any, Any], Any] | None = None
    draw: Callable[[Any, Any, Any], Any] | None = None
    expected: str = "mean"
    labels: str | None = None
    start: tuple[float, ...] = ()


def _gaussian(y: Any, f: Any, theta: Any) -> Any:
    return norm.logpdf(y, f[:, 0], jnp.exp(theta[0] / 2))


def _gaussian_draw(key: Any, f: Any, theta: Any) -> Any:
    return f[:, 0] + jnp.exp(theta[0] / 2) * jax.random.normal(key, f[:, 0].shape, f.dtype)


def _probit(y: Any, f: Any, theta: Any) -> Any:
    return norm.logcdf((2 * y - 1) * f[:, 0])


def _logit(y: Any, f: Any, theta: Any) -> Any:
    return jax.nn.log_sigmoid((2 * y - 1) * f[:, 0])


def _softmax(y: Any, f: Any, theta: Any) -> Any:
    return jnp.take_along_axis(jax.nn.log_softmax(f), y.astype(int)[:, None], axis=1)[:, 0]


def _poisson(y: Any, f: Any, theta: Any) -> Any:
    return y * f[:, 0] - jnp.exp(f[:, 0]) - gammaln(y + 1)


def _first(f: Any, theta: Any) -> Any:
    return f[:, 0]


def _cumulative(f: Any, theta: Any) -> Any:
    return ndtr(f[:, 0])


def _sigmoid(f: Any, theta: Any) -> Any:
    return jax.nn.sigmoid(f[:, 0])


def _proportions(f: Any, theta: Any) -> Any:
    return jax.nn.softmax(f)


def _rate(f: Any, theta: Any) -> Any:
    return jnp.exp(f[:, 0])


def _label(probability: Callable[[Any, Any], Any], key: Any, f: Any, theta: Any) -> Any:
    return jax.random.bernoulli(key, probability(f, theta))


def _class(key: Any, f: Any, theta: Any) -> Any:
    return jax.random.categorical(key, f)


def _count(key: Any, f: Any, theta: Any) -> Any:
    return jax.random.poisson(key, _rate(f, theta))


# Of functions with names, so that fitted processes can be pickled.
LIKELIHOODS = {
    "gaussian": JaxLikelihood(_gaussian, _first, _gaussian_draw, start=(-2.0,)),
    "probit": JaxLikelihood(_probit, _cumulative, partial(_label, _cumulative), "probability", "binary"),
    "logit": JaxLikelihood(_logit, _sigmoid, partial(_label, _sigmoid), "probability", "binary"),
    "softmax": JaxLikelihood(_softmax, _proportions, _class, "probabilities", "classes"),
    "poisson": JaxLikelihood(_poisson, _rate, _count, labels="counts"),
}
