"""Binary labels given latent values, as PyMC distributions with log-densities that are stable in both tails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.distribution import Discrete, SymbolicRandomVariable
from pymc.distributions.moments.means import _mean, maybe_resize
from pymc.distributions.shape_utils import implicit_size_from_params, rv_size_is_none
from pymc.pytensorf import normalize_rng_param
from pytensor.tensor.random.basic import uniform
from pytensor.tensor.random.utils import normalize_size_param
from pytensor.tensor.variable import TensorVariable

__all__ = ["BernoulliLogit", "BernoulliProbit"]


def log_ndtr(z: TensorVariable) -> TensorVariable:
    """Log of the normal distribution function, with derivatives that stay finite.

    Each branch sees only the part of the line where it is accurate: a gradient through the branch that is not
    taken would otherwise be infinite times zero.
    """
    left = pt.minimum(z, -1.0)
    right = pt.maximum(z, -1.0)
    return pt.switch(
        pt.lt(z, -1.0),
        pt.log(0.5 * pt.erfcx(-left / np.sqrt(2.0))) - 0.5 * pt.square(left),
        pt.log1p(-0.5 * pt.erfc(right / np.sqrt(2.0))),
    )


def _binary_logp(value: TensorVariable, log_probability: TensorVariable) -> TensorVariable:
    outside = pt.and_(pt.neq(value, 0), pt.neq(value, 1))
    return pt.switch(outside, -np.inf, log_probability)


def _check_labels(observed: Any) -> None:
    if observed is None or isinstance(observed, TensorVariable) or hasattr(observed, "owner"):
        return
    values = np.ma.getdata(np.asanyarray(observed))[~np.ma.getmaskarray(np.asanyarray(observed))]
    wrong = np.unique(values[~np.isin(values, (0, 1))])
    if wrong.size:
        shown = ", ".join(str(value) for value in wrong[:5])
        raise ValueError(f"labels must be 0 or 1, found {shown}; recode them, for example (y > 0).astype(int)")


class _BernoulliLatent(SymbolicRandomVariable):
    """A Bernoulli variable driven by a latent value through an inverse link."""

    extended_signature = "[rng],[size],()->[rng],()"

    @staticmethod
    def inverse_link(f: TensorVariable) -> TensorVariable:
        raise NotImplementedError

    @classmethod
    def rv_op(cls, f: Any, *, size: Any = None, rng: Any = None) -> TensorVariable:
        f = pt.as_tensor(f)
        rng = normalize_rng_param(rng)
        size = normalize_size_param(size)
        if rv_size_is_none(size):
            size = implicit_size_from_params(f, ndims_params=cls.ndims_params)
        next_rng, u = uniform(size=size, rng=rng, return_next_rng=True)
        draws = pt.lt(u, cls.inverse_link(f)).astype("int64")
        return cls(inputs=[rng, size, f], outputs=[next_rng, draws])(rng, size, f)


class BernoulliProbitRV(_BernoulliLatent):
    """Random variable of `BernoulliProbit`."""

    name = "bernoulli_probit"
    _print_name = ("BernoulliProbit", "\\operatorname{BernoulliProbit}")

    @staticmethod
    def inverse_link(f: TensorVariable) -> TensorVariable:
        return 0.5 * pt.erfc(-f / np.sqrt(2.0))


class BernoulliLogitRV(_BernoulliLatent):
    """Random variable of `BernoulliLogit`."""

    name = "bernoulli_logit"
    _print_name = ("BernoulliLogit", "\\operatorname{BernoulliLogit}")

    @staticmethod
    def inverse_link(f: TensorVariable) -> TensorVariable:
        return pt.sigmoid(f)


@_mean.register(_BernoulliLatent)
def latent_bernoulli_mean(
    op: _BernoulliLatent, rv: TensorVariable, rng: Any, size: Any, f: TensorVariable
) -> TensorVariable:
    """E[y|f], for `pymc.distributions.moments.mean`."""
    return maybe_resize(op.inverse_link(f), size)


class _LatentBernoulli(Discrete):
    """What the two links share."""

    def __new__(cls, name: str, *args: Any, **kwargs: Any) -> TensorVariable:
        _check_labels(kwargs.get("observed"))
        return super().__new__(cls, name, *args, **kwargs)

    @classmethod
    def dist(cls, f: Any, **kwargs: Any) -> TensorVariable:
        return super().dist([pt.as_tensor(f)], **kwargs)

    def support_point(rv: Any, size: Any, f: Any) -> TensorVariable:  # noqa: N805
        if not rv_size_is_none(size):
            f = pt.full(size, f)
        return pt.ge(f, 0.0).astype("int64")


class BernoulliProbit(_LatentBernoulli):
    r"""Binary labels with :math:`P(y = 1 \mid f) = \Phi(f)`.

    Parameters
    ----------
    name : str
    f : tensor_like of float
        Latent values, one a label.
    **kwargs
        As of every PyMC distribution: ``observed`` (labels 0 or 1), ``dims``, ``shape``.

    Raises
    ------
    ValueError
        If an observed label is neither 0 nor 1.

    Notes
    -----
    ``pm.Bernoulli(p=pm.math.invprobit(f))`` is the same model, but rounds to p = 1 from f = 8.3 on.
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
        Latent values, one a label.
    **kwargs
        As of every PyMC distribution: ``observed`` (labels 0 or 1), ``dims``, ``shape``.

    Raises
    ------
    ValueError
        If an observed label is neither 0 nor 1.
    """

    rv_type = BernoulliLogitRV
    rv_op = BernoulliLogitRV.rv_op

    def logp(value: TensorVariable, f: TensorVariable) -> TensorVariable:  # noqa: D102, N805
        return _binary_logp(value, -pt.softplus(pt.switch(pt.eq(value, 1), -f, f)))
