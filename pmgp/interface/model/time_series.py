"""Time series and fields as priors of f: how they are recognized, and graphs of their parameters.

`pymc.AR` and `pymc.GaussianRandomWalk` are both autoregressions with a normal distribution of the first values. The
processes of :class:`pmgp.gp.Markov` are series at arbitrary times.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.timeseries import AutoRegressiveRV, RandomWalkRV
from pytensor.tensor.random.basic import MvNormalRV, NormalRV
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.distributions.markov_process import MarkovProcessRV
from pmgp.interface.model.fields import field_of, is_field


class Autoregression(NamedTuple):
    """Graphs of the parameters of x_t = drift + sum_k rho_k x_{t-k} + sigma e_t, with p normal first values.

    `coefficients` are the p rho, `deviation` is sigma, and `length` the number of values.
    """

    coefficients: TensorVariable
    drift: TensorVariable
    deviation: TensorVariable
    initial_mean: TensorVariable
    initial_covariance: TensorVariable
    length: TensorVariable


class MarkovProcess(NamedTuple):
    """Graphs of the parameters of a sum of Matern processes in time, perhaps times cosines.

    `periods` and `widths` (p,) are those of the factors of the k kernels.
    """

    mean: TensorVariable
    times: TensorVariable
    lengthscales: TensorVariable
    variances: TensorVariable
    periods: TensorVariable
    widths: TensorVariable


def is_process(rv: TensorVariable) -> bool:
    """Return whether a variable is a Matern process in time, made by :class:`pmgp.gp.Markov`."""
    return rv.owner is not None and isinstance(rv.owner.op, MarkovProcessRV)


def is_markov(rv: TensorVariable) -> bool:
    """Return whether a variable is a time series, Gaussian or not, a process in time, or a field."""
    series = rv.owner is not None and isinstance(rv.owner.op, AutoRegressiveRV | RandomWalkRV | MarkovProcessRV)
    return series or is_field(rv)


def kind_of(rv: TensorVariable) -> str:
    """Return the name of a variable's kind for messages."""
    return "field" if is_field(rv) else "time series"


def why_not_gaussian(model: pm.Model, rv: TensorVariable) -> str | None:
    """Return why a time series or field cannot be a Gaussian latent vector, with advice, or None if it can."""
    if model.rvs_to_transforms[rv] is not None:
        return "it has a transform: leave that out"
    if rv.ndim != 1:
        return f"it has {rv.ndim} dimensions: give it shape=n, as only one {kind_of(rv)} in a variable is supported"
    if is_process(rv) or is_field(rv):
        return None
    if isinstance(rv.owner.op, RandomWalkRV) and rv.type.shape == (1,):
        return "with shape=1 PyMC has no density for a walk: give dims=..., or write pm.Normal(..., shape=1)"
    first, *rest = _distributions(rv)
    if not isinstance(first.owner.op, NormalRV | MvNormalRV):
        return (
            f"its first values are {_name(first)}, and only normal ones can be integrated out: "
            f"write init_dist=pm.Normal.dist(...), with a small sigma where they are known"
        )
    others = [_name(one) for one in rest if not isinstance(one.owner.op, NormalRV)]
    return f"its innovations are {others[0]}, and only normal ones can be integrated out" if others else None


def parameters_of(rv: TensorVariable) -> Any:
    """Return the parameters of a series or field that `why_not_gaussian` accepts, as graphs of random variables."""
    if is_field(rv):
        return field_of(rv).parameters(rv)
    if is_process(rv):
        return process_of(rv)
    return _of_walk(rv) if isinstance(rv.owner.op, RandomWalkRV) else _of_autoregression(rv)


def process_of(rv: TensorVariable) -> MarkovProcess:
    """Return the parameters of a process in time, as graphs of random variables."""
    return MarkovProcess(*rv.owner.op.dist_params(rv.owner))


def _distributions(rv: TensorVariable) -> list[TensorVariable]:
    """Return the distribution of the first values, and for a random walk also that of the innovations."""
    inputs = rv.owner.inputs
    return inputs[:2] if isinstance(rv.owner.op, RandomWalkRV) else [inputs[2]]


def _name(rv: TensorVariable) -> str:
    return getattr(rv.owner.op, "_print_name", [type(rv.owner.op).__name__])[0]


def _of_autoregression(rv: TensorVariable) -> Autoregression:
    rhos, deviation, first, steps, *_ = rv.owner.inputs
    order, constant = rv.owner.op.ar_order, rv.owner.op.constant_term
    drift = rhos[0] if constant else pt.constant(0.0)
    return Autoregression(rhos[int(constant) :], drift, deviation, *_moments(first, order), steps + order)


def _of_walk(rv: TensorVariable) -> Autoregression:
    first, innovation, steps = rv.owner.inputs
    drift, deviation = (parameter.flatten()[0] for parameter in innovation.owner.op.dist_params(innovation.owner))
    return Autoregression(pt.ones(1), drift, deviation, *_moments(first, 1), steps + 1)


def _moments(first: TensorVariable, order: int) -> tuple[TensorVariable, TensorVariable]:
    """Return mean and covariance of the first values: (p,) and (p, p)."""
    mean, spread = first.owner.op.dist_params(first.owner)
    if isinstance(first.owner.op, MvNormalRV):
        return pt.broadcast_to(mean, (order,)), spread
    # With a negative deviation there is no density, which its square would hide.
    variance = pt.switch(pt.gt(spread, 0.0), pt.sqr(spread.astype("float64")), np.nan)
    return pt.broadcast_to(mean, (order,)), pt.diag(pt.broadcast_to(variance, (order,)))
