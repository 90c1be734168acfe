"""The mean of a random variable given its parameters, if it has one."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.continuous import SkewStudentTRV
from pymc.distributions.mixture import MixtureRV, _HurdleRV
from pymc.distributions.moments import mean
from pymc.distributions.truncated import TruncatedRV
from pymc.exceptions import UndefinedMomentException
from pymc.logprob.basic import logp
from pymc.pytensorf import constant_fold
from pytensor.graph.basic import Variable
from pytensor.tensor.random.basic import (
    BetaBinomialRV,
    BinomialRV,
    GeometricRV,
    NegBinomialRV,
    PoissonRV,
    StudentTRV,
)
from pytensor.tensor.variable import TensorVariable

COUNTS = (BetaBinomialRV, BinomialRV, GeometricRV, NegBinomialRV, PoissonRV)
"""Distributions of whole numbers that are never negative."""

TAILS = {StudentTRV: (1, 1.0), SkewStudentTRV: (2, 0.5)}
"""Distributions with a mean if their first parameters, in this number, are above a bound, which PyMC does not check."""


def conditional_mean(rv: TensorVariable) -> TensorVariable:
    """Return the mean that PyMC knows, or that of counts without zero and of hurdle counts.

    It is not a number where variable parameters leave the distribution without a mean.

    Raises
    ------
    UndefinedMomentException
        If there is none.
    NotImplementedError
        If PyMC does not know it.
    """
    if type(rv.owner.op) in TAILS:
        return _where_tails_allow(rv)
    if isinstance(rv.owner.op, MixtureRV) and any(type(one.owner.op) in TAILS for one in rv.owner.inputs[2:]):
        _, weights, *components = rv.owner.inputs
        means = [conditional_mean(one) for one in components]
        return (weights * (pt.stack(means, axis=-1) if len(means) > 1 else means[0])).sum(axis=-1)
    if isinstance(rv.owner.op, _HurdleRV):
        _, weights, _, positive = rv.owner.inputs
        return weights[..., 1] * conditional_mean(positive)
    return _without_zero(rv) if isinstance(rv.owner.op, TruncatedRV) else mean(rv)


def _where_tails_allow(rv: TensorVariable) -> TensorVariable:
    """Return the mean of a distribution whose first parameters must exceed a bound for it."""
    found, (number, bound) = mean(rv), TAILS[type(rv.owner.op)]
    for given in rv.owner.op.dist_params(rv.owner)[:number]:
        [value] = constant_fold([given], raise_not_constant=False)
        if isinstance(value, Variable):
            found = pt.switch(given > bound, found, np.nan)
        elif np.any(value <= bound):
            raise UndefinedMomentException(
                f"a distribution with such tails (nu, or a or b, of {bound:g} or less) has no mean"
            )
    return found


def _without_zero(rv: TensorVariable) -> TensorVariable:
    """Return the mean of counts that are truncated to at least 1: E[Y | Y > 0] = E[Y] / P(Y > 0)."""
    *_, lower, upper = rv.owner.inputs
    limits = constant_fold([lower, upper], raise_not_constant=False)
    counts = base_of(rv)
    known = not any(isinstance(limit, Variable) for limit in limits)
    if not isinstance(counts.owner.op, COUNTS) or not known or np.any(limits[0] != 1) or np.any(limits[1] != np.inf):
        return mean(rv)
    return conditional_mean(counts) / -pt.expm1(logp(counts, 0))


def base_of(rv: TensorVariable) -> TensorVariable:
    """Return a draw from the distribution that a random variable truncates."""
    *given, _, _ = rv.owner.inputs
    return rv.owner.op.base_rv_op.make_node(*given).default_output()
