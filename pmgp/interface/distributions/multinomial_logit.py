"""Labels of several classes given a latent value for each, as a PyMC distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.distribution import Discrete
from pytensor.tensor.random.basic import uniform
from pytensor.tensor.variable import TensorVariable

from pmgp.core import likelihoods
from pmgp.core.likelihoods.checks import check_class_counts
from pmgp.interface.distributions.base import LatentVariable, as_parameter, known_observations, resized
from pmgp.interface.distributions.records import Expected, LikelihoodRecord, register

__all__ = ["MultinomialLogit"]


class ClassLabelRV(LatentVariable):
    """Random variable of `MultinomialLogit` for labels."""

    name = "multinomial_logit"
    extended_signature = "[rng],[size],(c)->[rng],()"
    _print_name = ("MultinomialLogit", "\\operatorname{MultinomialLogit}")

    @classmethod
    def draw(cls, rng: Any, size: Any, *parameters: TensorVariable) -> tuple[Any, TensorVariable]:
        (f,) = parameters
        shape = pt.concatenate([pt.as_tensor(size, dtype="int64").reshape((-1,)), f.shape[-1:]])
        next_rng, u = uniform(size=shape, rng=rng, return_next_rng=True)
        # The largest of f plus independent Gumbel variables.
        return next_rng, pt.argmax(f - pt.log(-pt.log(u)), axis=-1)

    @classmethod
    def mean(cls, *parameters: TensorVariable) -> TensorVariable:
        (f,) = parameters
        return (_probabilities(f) * pt.arange(f.shape[-1])).sum(axis=-1)


def _probabilities(f: TensorVariable) -> TensorVariable:
    return pt.special.softmax(f, axis=-1)


def _log_sum(f: TensorVariable) -> TensorVariable:
    """Return the log of the sum of exp(f_c) along the last axis, without overflow."""
    return pt.logsumexp(f, axis=-1)


class MultinomialLogit(Discrete):
    r"""Labels of several classes with :math:`P(y = c \mid f) = e^{f_c} / \sum_d e^{f_d}`, the softmax.

    Parameters
    ----------
    name : str
    f : sequence of vectors, or tensor_like of float with the classes in its last axis
        A latent value for each class and each label: ``[f_0, f_1, f_2]`` for three processes, or ``f.T`` for the
        variable of shape (C, n) that ``gp.prior(..., n_outputs=C)`` makes. Every class has a latent value; none is a
        reference.
    **kwargs
        Arguments of every PyMC distribution: ``observed`` (labels 0, ..., C - 1), ``dims``, ``shape``.

    Raises
    ------
    ValueError
        If an observed label is not among the classes, or there are fewer than two of them.

    Notes
    -----
    ``pm.Categorical(logit_p=...)`` is the same model, but its sites are not known to be those of a softmax, so an
    iteration needs a factorization of C n rows instead of C + 1 factorizations of n rows.

    Examples
    --------
    Two points, three classes:

    >>> import numpy as np, pymc as pm, pmgp
    >>> label = pmgp.MultinomialLogit.dist(np.array([[0.0, 0.0, 0.0], [1.0, 0.0, -1.0]]))
    >>> np.exp(pm.logp(label, [2, 0]).eval()).round(3)
    array([0.333, 0.665])
    """

    rv_type = ClassLabelRV
    rv_op = ClassLabelRV.rv_op

    def __new__(cls, name: str, f: Any, **kwargs: Any) -> TensorVariable:  # noqa: D102
        parameter = _of_classes(f)
        labels, number = known_observations(kwargs.get("observed")), parameter.type.shape[-1]
        if labels is not None and number is not None:
            if labels.ndim > 1:
                raise ValueError(
                    f"labels of classes must be a vector, not of shape {labels.shape}: for indicators, one row for "
                    "each label, give np.argmax(observed, axis=1); for counts of several trials, use "
                    "pm.Multinomial(name, n=trials, p=pm.math.softmax(f, axis=-1), observed=counts)"
                )
            check_class_counts(labels, number)
        return super().__new__(cls, name, parameter, **kwargs)

    @classmethod
    def dist(cls, f: Any, **kwargs: Any) -> TensorVariable:  # noqa: D102
        return super().dist([_of_classes(f)], **kwargs)

    def support_point(rv: Any, size: Any, f: Any) -> TensorVariable:  # noqa: D102, N805
        return resized(pt.argmax(f, axis=-1), size)

    def logp(value: TensorVariable, f: TensorVariable) -> TensorVariable:  # noqa: D102, N805
        label = pt.cast(value, "int64")
        outside = pt.or_(pt.or_(pt.lt(value, 0), pt.ge(value, f.shape[-1])), pt.neq(value, label))
        chosen = pt.eq(pt.expand_dims(pt.switch(outside, 0, label), -1), pt.arange(f.shape[-1]))
        return pt.switch(outside, -np.inf, pt.switch(chosen, f, 0.0).sum(axis=-1) - _log_sum(f))


def _of_classes(f: Any) -> TensorVariable:
    """Stack the latent vectors of the classes if they are given one by one."""
    return pt.stack([as_parameter(one) for one in f], axis=-1) if isinstance(f, list | tuple) else as_parameter(f)


register(
    LikelihoodRecord(
        ClassLabelRV, likelihoods.MultinomialLogit, {"probabilities": Expected(given_f=_probabilities)}, of_classes=True
    )
)
