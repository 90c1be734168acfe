"""Returns whose log standard deviation is the latent process, as a PyMC distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.distribution import Continuous
from pytensor.tensor.random.basic import normal
from pytensor.tensor.variable import TensorVariable

from pmgp.core import likelihoods
from pmgp.core.likelihoods.checks import check_finite
from pmgp.core.likelihoods.stochastic_volatility import LOG_SQRT_2PI, MAX_LOG_SQUARE
from pmgp.interface.distributions.base import LatentVariable, as_parameter, known_observations, resized
from pmgp.interface.distributions.records import LikelihoodRecord, register

__all__ = ["StochasticVolatility"]


class StochasticVolatilityRV(LatentVariable):
    """Random variable of `StochasticVolatility`."""

    name = "stochastic_volatility"
    extended_signature = "[rng],[size],()->[rng],()"
    _print_name = ("StochasticVolatility", "\\operatorname{StochasticVolatility}")

    @classmethod
    def draw(cls, rng: Any, size: Any, *parameters: TensorVariable) -> tuple[Any, TensorVariable]:
        (f,) = parameters
        next_rng, standard = normal(size=size, rng=rng, return_next_rng=True)
        return next_rng, pt.exp(f) * standard

    @classmethod
    def mean(cls, *parameters: TensorVariable) -> TensorVariable:
        (f,) = parameters
        return pt.zeros_like(f)


class StochasticVolatility(Continuous):
    r"""Observations :math:`y \sim \mathcal N(0, (e^f)^2)`, such as returns with their mean subtracted.

    Parameters
    ----------
    name : str
    f : tensor_like of float
        Latent values: the log of the standard deviation of each observation.
    **kwargs
        Arguments of every PyMC distribution: ``observed`` (finite numbers), ``dims``, ``shape``.

    Raises
    ------
    ValueError
        If an observation is not finite.

    Notes
    -----
    ``pm.Normal(mu=0, sigma=pm.math.exp(f))`` is the same model. Here exp(-f) stops growing at exp(150), where the
    density of every value other than zero is practically zero, so that no f overflows.

    Examples
    --------
    A return of zero at a standard deviation of exp(-4):

    >>> import pymc as pm, pmgp
    >>> r = pmgp.likelihoods.StochasticVolatility.dist(f=-4.0)
    >>> round(float(pm.logp(r, 0.0).eval()), 3)
    3.081
    """

    rv_type = StochasticVolatilityRV
    rv_op = StochasticVolatilityRV.rv_op

    def __new__(cls, name: str, *args: Any, **kwargs: Any) -> TensorVariable:  # noqa: D102
        observations = known_observations(kwargs.get("observed"))
        if observations is not None:
            check_finite(observations)
        return super().__new__(cls, name, *args, **kwargs)

    @classmethod
    def dist(cls, f: Any, **kwargs: Any) -> TensorVariable:  # noqa: D102
        return super().dist([as_parameter(f)], **kwargs)

    def support_point(rv: Any, size: Any, f: Any) -> TensorVariable:  # noqa: D102, N805
        return resized(pt.zeros_like(f), size)

    def logp(value: TensorVariable, f: TensorVariable) -> TensorVariable:  # noqa: D102, N805
        standardized = value * pt.exp(pt.minimum(-f, 0.5 * MAX_LOG_SQUARE))
        return pt.switch(pt.isinf(value), -np.inf, -LOG_SQRT_2PI - f - 0.5 * pt.square(standardized))


register(LikelihoodRecord(StochasticVolatilityRV, likelihoods.StochasticVolatility))
