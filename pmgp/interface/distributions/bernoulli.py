"""Binary labels given latent values, as PyMC distributions with log-densities that are stable in both tails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.distribution import Discrete
from pytensor.tensor.random.basic import uniform
from pytensor.tensor.variable import TensorVariable

from pmgp.core import likelihoods
from pmgp.core.likelihoods.checks import check_binary
from pmgp.interface.distributions.base import LatentVariable, as_parameter, known_observations, log_ndtr, ndtr, resized
from pmgp.interface.distributions.records import Expected, LikelihoodRecord, register

__all__ = ["BernoulliLogit", "BernoulliProbit"]


def _binary_logp(value: TensorVariable, log_probability: TensorVariable) -> TensorVariable:
    outside = pt.and_(pt.neq(value, 0), pt.neq(value, 1))
    return pt.switch(outside, -np.inf, log_probability)


class _BernoulliLatent(LatentVariable):
    """A Bernoulli variable driven by a latent value through an inverse link."""

    extended_signature = "[rng],[size],()->[rng],()"

    @staticmethod
    def inverse_link(f: TensorVariable) -> TensorVariable:
        raise NotImplementedError

    @classmethod
    def draw(cls, rng: Any, size: Any, *parameters: TensorVariable) -> tuple[Any, TensorVariable]:
        (f,) = parameters
        next_rng, u = uniform(size=size, rng=rng, return_next_rng=True)
        return next_rng, pt.lt(u, cls.inverse_link(f)).astype("int64")

    @classmethod
    def mean(cls, *parameters: TensorVariable) -> TensorVariable:
        return cls.inverse_link(*parameters)


class BernoulliProbitRV(_BernoulliLatent):
    """Random variable of `BernoulliProbit`."""

    name = "bernoulli_probit"
    _print_name = ("BernoulliProbit", "\\operatorname{BernoulliProbit}")

    @staticmethod
    def inverse_link(f: TensorVariable) -> TensorVariable:
        return ndtr(f)


class BernoulliLogitRV(_BernoulliLatent):
    """Random variable of `BernoulliLogit`."""

    name = "bernoulli_logit"
    _print_name = ("BernoulliLogit", "\\operatorname{BernoulliLogit}")

    @staticmethod
    def inverse_link(f: TensorVariable) -> TensorVariable:
        return pt.sigmoid(f)


class _LatentBernoulli(Discrete):
    """Base class of the two links."""

    def __new__(cls, name: str, *args: Any, **kwargs: Any) -> TensorVariable:
        labels = known_observations(kwargs.get("observed"))
        if labels is not None:
            check_binary(labels)
        return super().__new__(cls, name, *args, **kwargs)

    @classmethod
    def dist(cls, f: Any, **kwargs: Any) -> TensorVariable:
        return super().dist([as_parameter(f)], **kwargs)

    def support_point(rv: Any, size: Any, f: Any) -> TensorVariable:  # noqa: N805
        return pt.ge(resized(f, size), 0.0).astype("int64")


class BernoulliProbit(_LatentBernoulli):
    r"""Binary labels with :math:`P(y = 1 \mid f) = \Phi(f)`.

    Parameters
    ----------
    name : str
    f : tensor_like of float
        Latent values, one for each label.
    **kwargs
        Arguments of every PyMC distribution: ``observed`` (labels 0 or 1), ``dims``, ``shape``.

    Raises
    ------
    ValueError
        If an observed label is neither 0 nor 1.

    Notes
    -----
    ``pm.Bernoulli(p=pm.math.invprobit(f))`` is the same model, but rounds to p = 1 from f = 8.3 on.

    Examples
    --------
    The log-density is accurate far into the tail:

    >>> import pymc as pm, pmgp
    >>> label = pmgp.BernoulliProbit.dist(f=-40.0)
    >>> float(pm.logp(label, 1).eval().round(3))
    -804.608
    """

    rv_type = BernoulliProbitRV
    rv_op = BernoulliProbitRV.rv_op

    def logp(value: TensorVariable, f: TensorVariable) -> TensorVariable:  # noqa: D102, N805
        return _binary_logp(value, log_ndtr(pt.switch(pt.eq(value, 1), f, -f)))


class BernoulliLogit(_LatentBernoulli):
    r"""Binary labels with :math:`P(y = 1 \mid f) = 1 / (1 + e^{-f})`.

    Parameters
    ----------
    name : str
    f : tensor_like of float
        Latent values, one for each label.
    **kwargs
        Arguments of every PyMC distribution: ``observed`` (labels 0 or 1), ``dims``, ``shape``.

    Raises
    ------
    ValueError
        If an observed label is neither 0 nor 1.

    Examples
    --------
    >>> import pymc as pm, pmgp
    >>> label = pmgp.BernoulliLogit.dist(f=[0.0, 2.0])
    >>> pm.logp(label, [1, 0]).eval().round(3)
    array([-0.693, -2.127])
    """

    rv_type = BernoulliLogitRV
    rv_op = BernoulliLogitRV.rv_op

    def logp(value: TensorVariable, f: TensorVariable) -> TensorVariable:  # noqa: D102, N805
        return _binary_logp(value, -pt.softplus(pt.switch(pt.eq(value, 1), -f, f)))


def _expected(kind: type[_BernoulliLatent], probability: Callable[..., np.ndarray]) -> dict[str, Expected]:
    """Return the probabilities of both labels; by symmetry, label 0 given f is label 1 given minus f."""
    return {
        "probability": Expected(under_normal=probability),
        "complement": Expected(
            given_f=lambda f: kind.inverse_link(-f), under_normal=lambda mean, variance: probability(-mean, variance)
        ),
    }


register(
    LikelihoodRecord(
        BernoulliProbitRV,
        likelihoods.BernoulliProbit,
        _expected(BernoulliProbitRV, likelihoods.BernoulliProbit.probability),
    )
)
register(
    LikelihoodRecord(
        BernoulliLogitRV,
        likelihoods.BernoulliLogit,
        _expected(BernoulliLogitRV, likelihoods.BernoulliLogit.probability),
    )
)
