"""Ordinal labels from thresholds on a noisy latent value, as a PyMC distribution that is stable in both tails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.distribution import Discrete
from pytensor.tensor.random.basic import normal
from pytensor.tensor.variable import TensorVariable

from pmgp.core import likelihoods
from pmgp.core.likelihoods.checks import check_categories, check_positive, check_same_length, check_thresholds
from pmgp.interface.distributions.base import (
    LatentVariable,
    as_parameter,
    known_observations,
    known_value,
    log_ndtr,
    ndtr,
    resized,
)
from pmgp.interface.distributions.records import Expected, LikelihoodRecord, register

__all__ = ["OrdinalProbit"]


class OrdinalProbitRV(LatentVariable):
    """Random variable of `OrdinalProbit`."""

    name = "ordinal_probit"
    extended_signature = "[rng],[size],(),(r),()->[rng],()"
    _print_name = ("OrdinalProbit", "\\operatorname{OrdinalProbit}")

    @classmethod
    def draw(cls, rng: Any, size: Any, *parameters: TensorVariable) -> tuple[Any, TensorVariable]:
        f, thresholds, noise = parameters
        next_rng, noisy = normal(f, noise, size=size, rng=rng, return_next_rng=True)
        return next_rng, _thresholds_below(noisy, thresholds)

    @classmethod
    def mean(cls, *parameters: TensorVariable) -> TensorVariable:
        """Return the sum over s > 0 of P(y >= s|f)."""
        f, thresholds, noise = parameters
        return ndtr((pt.expand_dims(f, -1) - thresholds) / pt.expand_dims(noise, -1)).sum(axis=-1)


def _thresholds_below(f: TensorVariable, thresholds: TensorVariable) -> TensorVariable:
    """Return the category of f, which is the number of smaller thresholds."""
    return pt.gt(pt.expand_dims(f, -1), thresholds).sum(axis=-1).astype("int64")


class OrdinalProbit(Discrete):
    r"""Ordinal labels with :math:`P(y = s \mid f) = \Phi((b_{s+1} - f) / \sigma) - \Phi((b_s - f) / \sigma)`.

    Parameters
    ----------
    name : str
    f : tensor_like of float
        Latent values, one for each label.
    thresholds : tensor_like of float
        :math:`b_1 < \dots < b_{r-1}` for the labels 0, ..., r - 1; :math:`b_0` and :math:`b_r` are infinite. Numbers,
        or a random variable with ``transform=pm.distributions.transforms.ordered`` and an increasing ``initval``.
    noise : tensor_like of float
        The standard deviation :math:`\sigma`, on the scale of f; positive.
    **kwargs
        Arguments of every PyMC distribution: ``observed`` (labels), ``dims``, ``shape``.

    Raises
    ------
    ValueError
        If an observed label is not among 0, ..., r - 1; if constant thresholds are not finite and strictly increasing;
        if a constant noise is not positive and finite, or differs in length from the labels.

    Notes
    -----
    ``pm.OrderedProbit(eta=f, cutpoints=thresholds, sigma=noise)`` is the same model, but loses all accuracy of the
    probability where f is far from the observed category.

    Examples
    --------
    Two thresholds give three categories:

    >>> import numpy as np, pymc as pm, pmgp
    >>> category = pmgp.OrdinalProbit.dist(f=[0.0, 0.0, 0.0], thresholds=[-1.0, 1.0])
    >>> np.exp(pm.logp(category, [0, 1, 2]).eval()).round(3)
    array([0.159, 0.683, 0.159])
    """

    rv_type = OrdinalProbitRV
    rv_op = OrdinalProbitRV.rv_op

    def __new__(cls, name: str, f: Any, thresholds: Any, noise: Any = 1.0, **kwargs: Any) -> TensorVariable:  # noqa: D102
        labels, known = known_observations(kwargs.get("observed")), known_value(noise, "noise")
        number = pt.as_tensor(thresholds).type.shape[-1:]
        if labels is not None and number and number[0] is not None:
            check_categories(labels, number[0] + 1)
        if labels is not None and known is not None:
            check_same_length("noise", known, labels)
        return super().__new__(cls, name, f, thresholds, noise, **kwargs)

    @classmethod
    def dist(cls, f: Any, thresholds: Any, noise: Any = 1.0, **kwargs: Any) -> TensorVariable:  # noqa: D102
        known_thresholds, known_noise = known_value(thresholds, "thresholds"), known_value(noise, "noise")
        if known_thresholds is not None:
            for batch in np.ndindex(known_thresholds.shape[:-1]):
                check_thresholds(known_thresholds[batch])
        if known_noise is not None:
            check_positive("noise", known_noise)
        return super().dist([as_parameter(f), as_parameter(thresholds), as_parameter(noise)], **kwargs)

    def support_point(rv: Any, size: Any, f: Any, thresholds: Any, noise: Any) -> TensorVariable:  # noqa: D102, N805
        return resized(_thresholds_below(f, thresholds), size)

    def logp(  # noqa: D102
        value: TensorVariable,  # noqa: N805
        f: TensorVariable,
        thresholds: TensorVariable,
        noise: TensorVariable,
    ) -> TensorVariable:
        last = thresholds.shape[-1]
        first_category, last_category = pt.eq(value, 0), pt.eq(value, last)
        upper = (_selected(thresholds, value) - f) / noise
        lower = (_selected(thresholds, value - 1) - f) / noise
        outermost = pt.or_(first_category, last_category)
        log_probability = pt.switch(
            outermost,
            log_ndtr(pt.switch(first_category, upper, -lower)),
            # A harmless interval where this branch is not taken.
            _log_interval(pt.switch(outermost, -1.0, lower), pt.switch(outermost, 1.0, upper)),
        )
        outside = pt.or_(pt.or_(pt.lt(value, 0), pt.gt(value, last)), pt.neq(value, pt.floor(value)))
        return check_parameters(
            pt.switch(outside, -np.inf, log_probability),
            noise > 0,
            pt.gt(thresholds[..., 1:], thresholds[..., :-1]),
            msg="noise > 0, thresholds strictly increasing",
        )


def _selected(thresholds: TensorVariable, index: TensorVariable) -> TensorVariable:
    """Return each label's threshold, or zero if there is none with this index."""
    chosen = pt.eq(pt.expand_dims(index, -1), pt.arange(thresholds.shape[-1]))
    return pt.switch(chosen, thresholds, 0.0).sum(axis=-1)


def _log_interval(lower: TensorVariable, upper: TensorVariable) -> TensorVariable:
    """Return log(Phi(upper) - Phi(lower)), reflected into the lower tail, with log(1 - exp(x)) for x < 0."""
    reflect = pt.gt(lower + upper, 0.0)
    left, right = pt.switch(reflect, -upper, lower), pt.switch(reflect, -lower, upper)
    log_upper = log_ndtr(right)
    log_ratio = log_ndtr(left) - log_upper
    near = pt.gt(log_ratio, -np.log(2.0))
    small = pt.log(-pt.expm1(pt.switch(near, log_ratio, -1.0)))
    large = pt.log1p(-pt.exp(pt.switch(near, -1.0, log_ratio)))
    return log_upper + pt.switch(near, small, large)


def _probabilities(f: TensorVariable, thresholds: TensorVariable, noise: TensorVariable) -> TensorVariable:
    """Return the probability of each label, along a last axis."""
    limits = (thresholds - pt.expand_dims(f, -1)) / pt.expand_dims(noise, -1)
    below, above = ndtr(limits), ndtr(-limits)
    reflect = pt.gt(limits[..., :-1] + limits[..., 1:], 0.0)
    between = pt.switch(reflect, above[..., :-1] - above[..., 1:], below[..., 1:] - below[..., :-1])
    return pt.concatenate([below[..., :1], between, above[..., -1:]], axis=-1)


register(
    LikelihoodRecord(
        OrdinalProbitRV,
        likelihoods.OrdinalProbit,
        {
            "mean": Expected(under_normal=likelihoods.OrdinalProbit.expected_label),
            "probabilities": Expected(_probabilities, likelihoods.OrdinalProbit.probabilities),
        },
    )
)
