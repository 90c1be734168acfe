"""What is expected of an observed variable at new points, for a normal latent value there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.moments import mean as conditional_mean
from pymc.exceptions import UndefinedMomentException
from pytensor.tensor.random.basic import BernoulliRV, CategoricalRV
from pytensor.tensor.variable import TensorVariable
from scipy.special import ndtr

from pmgp.core import likelihoods
from pmgp.core.numerics.quadrature import normal_expectation
from pmgp.interface.distributions.base import ndtr as symbolic_ndtr
from pmgp.interface.distributions.bernoulli import BernoulliLogitRV, BernoulliProbitRV
from pmgp.interface.distributions.ordinal import OrdinalProbitRV
from pmgp.interface.prediction.point_function import PointModel
from pmgp.interface.prediction.rules import NotPointwiseError

__all__ = ["Expectation", "expectations_of"]

# Of the mean and variance of f at the new points of a slice, and theta; of shape (m,), or (m, categories).
Expectation = Callable[[np.ndarray, np.ndarray, list[np.ndarray], slice], np.ndarray]

CLOSED_FORMS: dict[type, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    BernoulliProbitRV: likelihoods.BernoulliProbit.probability,
    BernoulliLogitRV: likelihoods.BernoulliLogit.probability,
}
BINARY = (*CLOSED_FORMS, BernoulliRV)


def expectations_of(points: PointModel, observed: TensorVariable) -> dict[str, Expectation]:
    """What is expected of an observed variable, by name: "probability", "mean" or "probabilities".

    Raises
    ------
    NotPointwiseError
        If there is no such thing at a new point; the message says why.
    """
    op = observed.owner.op
    if isinstance(op, OrdinalProbitRV):
        return _ordinal(points, observed)
    if isinstance(op, CategoricalRV):
        probabilities = op.dist_params(observed.owner)[0]
        return {"probabilities": _by_quadrature(points, observed, probabilities, core=1)}
    if isinstance(op, tuple(CLOSED_FORMS)) and _is_latent(points, observed):
        closed_form = CLOSED_FORMS[type(op)]
        return {"probability": lambda mean, variance, theta, where: closed_form(mean, variance)}
    if 0 < op.ndim_supp < observed.ndim:
        raise NotPointwiseError("each of its observations is a vector")
    name = "probability" if isinstance(op, BINARY) else "mean"
    return {name: _by_quadrature(points, observed, _mean(observed))}


def _mean(observed: TensorVariable) -> TensorVariable:
    try:
        return conditional_mean(observed)
    except UndefinedMomentException as error:
        raise NotPointwiseError(f"its distribution has no mean: {error}") from error
    except NotImplementedError as error:
        raise NotPointwiseError(f"PyMC does not know its mean: {error}") from error


def _is_latent(points: PointModel, observed: TensorVariable) -> bool:
    """Whether the first parameter is the latent value itself."""
    first = observed.owner.op.dist_params(observed.owner)[0]
    graph = points.new_points(observed)
    return observed.ndim == 1 and first.ndim == 1 and graph(first, 0) is graph.points


def _by_quadrature(points: PointModel, observed: TensorVariable, given_f: TensorVariable, core: int = 0) -> Expectation:
    function = points.function(observed, given_f, core)

    def expectation(mean: np.ndarray, variance: np.ndarray, theta: list[np.ndarray], where: slice) -> np.ndarray:
        return normal_expectation(lambda latent: function(latent, theta, where), mean, variance)

    return expectation


def _ordinal(points: PointModel, observed: TensorVariable) -> dict[str, Expectation]:
    """Probabilities of each label, and the expected label."""
    f, thresholds, noise = observed.owner.op.dist_params(observed.owner)
    if thresholds.ndim == 1 and _is_latent(points, observed):
        probabilities = _ordinal_closed_form(points, observed)
    else:
        probabilities = _by_quadrature(points, observed, _label_probabilities(f, thresholds, noise), core=1)

    def mean(mean: np.ndarray, variance: np.ndarray, theta: list[np.ndarray], where: slice) -> np.ndarray:
        each = probabilities(mean, variance, theta, where)
        return each @ np.arange(each.shape[-1])

    return {"mean": mean, "probabilities": probabilities}


def _label_probabilities(f: TensorVariable, thresholds: TensorVariable, noise: TensorVariable) -> TensorVariable:
    below = symbolic_ndtr((thresholds - pt.expand_dims(f, -1)) / pt.expand_dims(noise, -1))
    return pt.concatenate([below[..., :1], below[..., 1:] - below[..., :-1], 1.0 - below[..., -1:]], axis=-1)


def _ordinal_closed_form(points: PointModel, observed: TensorVariable) -> Expectation:
    """Normal noise on a normal f: P(y <= s) = Phi((b_(s+1) - mean) / sqrt(noise^2 + variance))."""
    f, thresholds, noise = observed.owner.op.dist_params(observed.owner)
    limits = points.constant(thresholds)
    noise_at = points.function(observed, noise + pt.zeros_like(f))

    def expectation(mean: np.ndarray, variance: np.ndarray, theta: list[np.ndarray], where: slice) -> np.ndarray:
        scale = np.sqrt(np.square(noise_at(mean[None], theta, where)[0]) + variance)
        below = ndtr((limits(*theta) - mean[:, None]) / scale[:, None])
        return np.diff(np.pad(below, ((0, 0), (1, 1)), constant_values=(0.0, 1.0)), axis=1)

    return expectation
