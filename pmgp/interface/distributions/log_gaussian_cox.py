"""Counts whose log-rate is the latent process, as a PyMC distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.distribution import Discrete
from pytensor.tensor.random.basic import poisson
from pytensor.tensor.variable import TensorVariable

from pmgp.core import likelihoods
from pmgp.core.likelihoods.checks import check_counts, check_positive, check_same_length
from pmgp.core.likelihoods.log_gaussian_cox import MAX_LOG_RATE
from pmgp.interface.distributions.base import LatentVariable, as_parameter, known_observations, known_value, resized
from pmgp.interface.distributions.records import LikelihoodRecord, register

__all__ = ["LogGaussianCox"]

# Counts are integers of 64 bits; beyond this rate a draw could not be stored.
LARGEST_RATE = 2.0**62


class LogGaussianCoxRV(LatentVariable):
    """Random variable of `LogGaussianCox`."""

    name = "log_gaussian_cox"
    extended_signature = "[rng],[size],(),()->[rng],()"
    _print_name = ("LogGaussianCox", "\\operatorname{LogGaussianCox}")

    @classmethod
    def draw(cls, rng: Any, size: Any, *parameters: TensorVariable) -> tuple[Any, TensorVariable]:
        f, exposure = parameters
        rate = pt.minimum(exposure * pt.exp(f), LARGEST_RATE)
        return poisson(rate, size=size, rng=rng, return_next_rng=True)

    @classmethod
    def mean(cls, *parameters: TensorVariable) -> TensorVariable:
        f, exposure = parameters
        return exposure * pt.exp(f)


class LogGaussianCox(Discrete):
    r"""Counts :math:`y \sim \operatorname{Poisson}(\text{exposure} \cdot e^f)`.

    Parameters
    ----------
    name : str
    f : tensor_like of float
        Latent values, one for each count.
    exposure : tensor_like of float
        Area or duration over which each count was collected; positive.
    **kwargs
        Arguments of every PyMC distribution: ``observed`` (counts), ``dims``, ``shape``.

    Raises
    ------
    ValueError
        If an observed count is negative or not a whole number, or if a constant exposure is not positive and finite or
        differs in length from the counts.

    Notes
    -----
    ``pm.Poisson(mu=exposure * pm.math.exp(f))`` is the same model. Here the rate stops growing at exp(300), where the
    density is practically zero, so that no f overflows; and draws are made at a rate of at most 2^62, beyond which
    counts do not fit into integers.

    Examples
    --------
    Three counts over two units of time, at a rate of one:

    >>> import pymc as pm, pmgp
    >>> count = pmgp.likelihoods.LogGaussianCox.dist(f=0.0, exposure=2.0)
    >>> round(float(pm.logp(count, 3).eval()), 3)
    -1.712
    """

    rv_type = LogGaussianCoxRV
    rv_op = LogGaussianCoxRV.rv_op

    def __new__(cls, name: str, f: Any, exposure: Any = 1.0, **kwargs: Any) -> TensorVariable:  # noqa: D102
        counts, known = known_observations(kwargs.get("observed")), known_value(exposure, "exposure")
        if counts is not None:
            check_counts(counts)
            if known is not None:
                check_same_length("exposure", known, counts)
        return super().__new__(cls, name, f, exposure, **kwargs)

    @classmethod
    def dist(cls, f: Any, exposure: Any = 1.0, **kwargs: Any) -> TensorVariable:  # noqa: D102
        known = known_value(exposure, "exposure")
        if known is not None:
            check_positive("exposure", known)
        return super().dist([as_parameter(f), as_parameter(exposure)], **kwargs)

    def support_point(rv: Any, size: Any, f: Any, exposure: Any) -> TensorVariable:  # noqa: D102, N805
        return resized(pt.floor(pt.minimum(exposure * pt.exp(f), LARGEST_RATE)), size).astype("int64")

    def logp(value: TensorVariable, f: TensorVariable, exposure: TensorVariable) -> TensorVariable:  # noqa: D102, N805
        log_rate = f + pt.log(exposure)
        # A value outside the support must not reach functions that are not defined there.
        outside = pt.or_(pt.lt(value, 0), pt.neq(value, pt.floor(value)))
        count = pt.switch(outside, 0, value)
        logp = count * log_rate - pt.exp(pt.minimum(log_rate, MAX_LOG_RATE)) - pt.gammaln(count + 1.0)
        return check_parameters(pt.switch(outside, -np.inf, logp), exposure > 0, msg="exposure > 0")


register(LikelihoodRecord(LogGaussianCoxRV, likelihoods.LogGaussianCox))
