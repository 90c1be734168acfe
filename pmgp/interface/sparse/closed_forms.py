"""Closed forms of expectations under f ~ N(mean, variance), for the likelihoods that have them.

Section 2 of the article names Gaussian and Poisson likelihoods. The robust-max likelihood for classes is from its
section 4.4, where the printed formula has p and 1 - p exchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.random.basic import NormalRV, PoissonRV
from pytensor.tensor.variable import TensorVariable

from pmgp.core.numerics.quadrature import normal_rule
from pmgp.interface.distributions.base import log_ndtr
from pmgp.interface.distributions.log_gaussian_cox import LogGaussianCoxRV
from pmgp.interface.distributions.robust_max import RobustMaxRV
from pmgp.interface.sparse.linear import Linear, linear, log_linear

# Latent values with variances of their own are integrated in panels that end at these deviations of each one from its
# mean, with so many nodes each: the probability has no error over 2e-8, however much narrower one is than another.
ENDS, IN_PANEL = np.array([-4.5, -1.5, 1.5, 4.5]), 8
# Beyond so many standard deviations of the labeled value nothing is left to integrate.
REACH = 7.0

# A function of the value, the mean and the variance.
Expectation = Callable[[TensorVariable, TensorVariable, TensorVariable], TensorVariable]
# The same for a label, with whether its class exists.
Largest = Callable[[TensorVariable, TensorVariable, TensorVariable], tuple[TensorVariable, TensorVariable]]


class ClosedForm(NamedTuple):
    """The known closed forms of a likelihood, E log p(y|f) and perhaps log E p(y|f)."""

    expected_log: Expectation
    log_expected: Expectation | None = None


def closed_form(rv: TensorVariable, f: TensorVariable, order: int, alike: bool = True) -> ClosedForm | None:
    """Return the closed form for a random variable whose parameters are functions of f, or None.

    `order` is the number of nodes for a likelihood that leaves one dimension to integrate, if outputs have variances
    that are `alike`.
    """
    op: Any = rv.owner.op
    if isinstance(op, RobustMaxRV):
        largest = partial(largest_probability, order=order) if alike else largest_of_unlike
        return _robust_max(op.dist_params(rv.owner), f, largest)
    rules = [rule for kind, rule in _RULES.items() if isinstance(op, kind)]
    return rules[0](op.dist_params(rv.owner), f) if rules else None


def _gaussian(parameters: list[TensorVariable], f: TensorVariable) -> ClosedForm | None:
    location, scale = linear(parameters[0], f), linear(parameters[1], f)
    if location is None or scale is None or not scale.constant:
        return None
    noise = pt.square(scale.intercept)

    def expected_log(value: TensorVariable, mean: TensorVariable, variance: TensorVariable) -> TensorVariable:
        spread = pt.square(location.slope) * variance
        return _normal_log_density(value, _at(location, mean), noise) - 0.5 * spread / noise

    def log_expected(value: TensorVariable, mean: TensorVariable, variance: TensorVariable) -> TensorVariable:
        spread = pt.square(location.slope) * variance
        return _normal_log_density(value, _at(location, mean), noise + spread)

    return ClosedForm(expected_log, log_expected)


def _poisson(parameters: list[TensorVariable], f: TensorVariable) -> ClosedForm | None:
    return _poisson_of(log_linear(parameters[0], f))


def _log_gaussian_cox(parameters: list[TensorVariable], f: TensorVariable) -> ClosedForm | None:
    latent, exposure = linear(parameters[0], f), log_linear(parameters[1], f)
    if latent is None or exposure is None:
        return None
    return _poisson_of(Linear(latent.slope + exposure.slope, latent.intercept + exposure.intercept))


def _poisson_of(log_rate: Linear | None) -> ClosedForm | None:
    if log_rate is None:
        return None

    def expected_log(value: TensorVariable, mean: TensorVariable, variance: TensorVariable) -> TensorVariable:
        center = _at(log_rate, mean)
        rate = pt.exp(center + 0.5 * pt.square(log_rate.slope) * variance)
        outside = pt.or_(pt.lt(value, 0), pt.neq(value, pt.floor(value)))
        count = pt.switch(outside, 0, value)
        # With an exposure of zero the rate is zero, and so is the count.
        logs = pt.switch(pt.eq(count, 0.0), 0.0, count * center)
        return pt.switch(outside, -np.inf, logs - rate - pt.gammaln(count + 1.0))

    return ClosedForm(expected_log)


def _robust_max(parameters: list[TensorVariable], f: TensorVariable, largest: Largest) -> ClosedForm | None:
    by_class, epsilon = parameters
    if by_class.owner is None or not isinstance(by_class.owner.op, DimShuffle) or by_class.owner.inputs[0] is not f:
        return None

    def log_probabilities(classes: Any) -> tuple[Any, Any]:
        return pt.log1p(-epsilon), pt.log(epsilon / (classes - 1))

    def expected_log(value: TensorVariable, mean: TensorVariable, variance: TensorVariable) -> TensorVariable:
        p, right, (hit, miss) = *largest(value, mean, variance), log_probabilities(mean.shape[0])
        return pt.switch(right, p * hit + (1.0 - p) * miss, -np.inf)

    def log_expected(value: TensorVariable, mean: TensorVariable, variance: TensorVariable) -> TensorVariable:
        p, right, (hit, miss) = *largest(value, mean, variance), log_probabilities(mean.shape[0])
        return pt.switch(right, pt.log(p * pt.exp(hit) + (1.0 - p) * pt.exp(miss)), -np.inf)

    return ClosedForm(expected_log, log_expected)


def largest_probability(
    label: TensorVariable, mean: TensorVariable, variance: TensorVariable, order: int
) -> tuple[TensorVariable, TensorVariable]:
    """Return the probability that the labeled class has the largest latent value, and whether that class exists.

    The label is (n,); mean and variance are those of independent latent values, (k, n). Gauss-Hermite quadrature over
    the labeled value, which fails where another one is much narrower.
    """
    nodes, weights = normal_rule(order)
    labeled, center, deviation = _labeled(label, mean, variance)
    own = center + deviation * nodes[:, None]
    return pt.tensordot(weights, _above_others(own, labeled, mean, variance), axes=1), labeled.any(axis=0)


def largest_of_unlike(
    label: TensorVariable, mean: TensorVariable, variance: TensorVariable
) -> tuple[TensorVariable, TensorVariable]:
    """Return what :func:`largest_probability` does, for latent values with any variances.

    Gauss-Legendre quadrature over the labeled value, in panels at whose scale each normal distribution is smooth.
    """
    nodes, weights = np.polynomial.legendre.leggauss(IN_PANEL)
    labeled, center, deviation = _labeled(label, mean, variance)
    ends = pt.concatenate([mean + end * pt.sqrt(variance) for end in ENDS])
    low, high = center - REACH * deviation, center + REACH * deviation
    # The integral does not depend on where its panels end.
    ends = disconnected_grad(pt.sort(pt.concatenate([pt.clip(ends, low, high), low[None], high[None]]), axis=0))
    half = 0.5 * (ends[1:] - ends[:-1])
    own = ends[:-1] + half + half * nodes[:, None, None]
    density = pt.exp(_normal_log_density(own, center, pt.square(deviation)))
    above = _above_others(own.reshape((-1, mean.shape[1])), labeled, mean, variance).reshape(own.shape)
    return (weights[:, None, None] * half * density * above).sum(axis=(0, 1)), labeled.any(axis=0)


def _labeled(
    label: TensorVariable, mean: TensorVariable, variance: TensorVariable
) -> tuple[TensorVariable, TensorVariable, TensorVariable]:
    """Return where the labeled values are, (k, n), and their means and standard deviations, (n,)."""
    labeled = pt.eq(pt.arange(mean.shape[0])[:, None], label)
    center, spread = ((part * labeled).sum(axis=0) for part in (mean, variance))
    return labeled, center, pt.sqrt(pt.switch(labeled.any(axis=0), spread, 1.0))


def _above_others(
    own: TensorVariable, labeled: TensorVariable, mean: TensorVariable, variance: TensorVariable
) -> TensorVariable:
    """Return the probability that labeled values (q, n) exceed all others: (q, n)."""
    below = log_ndtr((own[:, None, :] - mean) / pt.sqrt(variance))
    return pt.exp(pt.switch(labeled, 0.0, below).sum(axis=1))


def _at(part: Linear, mean: TensorVariable) -> TensorVariable:
    return part.slope * mean + part.intercept


def _normal_log_density(value: TensorVariable, mean: TensorVariable, variance: TensorVariable) -> TensorVariable:
    return -0.5 * (pt.square(value - mean) / variance + pt.log(2.0 * np.pi * variance))


_RULES: dict[type, Callable[[list[TensorVariable], TensorVariable], ClosedForm | None]] = {
    NormalRV: _gaussian,
    PoissonRV: _poisson,
    LogGaussianCoxRV: _log_gaussian_cox,
}
