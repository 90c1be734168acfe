"""Matern fields on a mesh as a random variable of PyMC: their sparse precision gives draws and the density."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.distribution import _support_point
from pymc.logprob.abstract import _logprob
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from pmgp.core.markov.fields import LevelPrecision, matern_coefficients


class MaternFieldRV(RandomVariable):
    """A Matern field of order 1: first its values at points, if there are any, then those at all nodes of a mesh.

    Its parameters are the mean, (n,), the length-scale and the standard deviation. The design of `summed` has the
    weights of the nodes for each value of the field.
    """

    name = "matern_field"
    signature = "(n),(),()->(n)"
    dtype = "float64"
    _print_name = ("SPDE", "\\operatorname{SPDE}")
    __props__ = (*RandomVariable.__props__, "summed")

    def __init__(self, summed: LevelPrecision, **kwargs: Any) -> None:
        self.summed = summed
        super().__init__(**kwargs)

    def rng_fn(self, rng: np.random.Generator, *parameters: Any) -> np.ndarray:
        """Draw the field: (*size, n)."""
        mean, lengthscale, deviation, size = parameters
        prior = self.summed.prior(matern_coefficients(float(lengthscale), float(deviation)))
        if prior.factorized() is None:
            raise ValueError("the length-scale and the standard deviation of a field must be positive and finite")
        shape = () if size is None else tuple(np.atleast_1d(size))
        draws = prior.sample_deviations(rng, int(np.prod(shape, dtype=int)))
        return mean + draws.reshape(*shape, -1)


class _Density(Op):
    """The log density of a field minus its mean, with respect to its nodes, given the coefficients of its precision."""

    __props__ = ("summed",)

    def __init__(self, summed: LevelPrecision) -> None:
        self.summed = summed

    def make_node(self, *inputs: Any) -> Apply:
        """Take the deviation and the coefficients."""
        return Apply(self, [pt.as_tensor(one) for one in inputs], [pt.dscalar()])

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: list[list[Any]]) -> None:
        """Compute the log density; it is minus infinity if values at points do not follow from those at the nodes."""
        deviation, coefficients = inputs
        prior, pattern = self.summed.prior(coefficients), self.summed.pattern
        x, found = deviation[len(deviation) - pattern.shape[0] :], -np.inf
        atol = 1e-6 * np.abs(deviation).max(initial=0.0)
        if np.allclose(pattern.observe(x), deviation, rtol=1e-6, atol=atol) and prior.factor is not None:
            found = prior.factor.log_determinant - len(x) * np.log(2.0 * np.pi)
            found = 0.5 * (found - prior.quadratic(x))
        output_storage[0][0] = np.asarray(found)

    def pullback(self, inputs: Sequence[Any], outputs: Sequence[Any], gradients: Sequence[Any]) -> list[Any]:
        """Return the derivatives in the deviation and in the coefficients.

        A field at points has none, because these values are functions of those at the nodes.
        """
        pattern = self.summed.pattern
        if pattern.sites > pattern.shape[0]:
            raise NotImplementedError(
                "the density of a field at points has no gradient: sample with step=pmgp.PseudoMarginal(), which "
                "integrates the field out, or leave out X and multiply the field by the weights of the nodes"
            )
        return [gradients[0] * one for one in _Gradient(self.summed)(*inputs)]

    L_op = pullback


class _Gradient(Op):
    """The gradient of the log density."""

    __props__ = ("summed",)

    def __init__(self, summed: LevelPrecision) -> None:
        self.summed = summed

    def make_node(self, *inputs: Any) -> Apply:
        """Take the deviation and the coefficients."""
        return Apply(self, [pt.as_tensor(one) for one in inputs], [pt.dvector(), pt.dvector()])

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: list[list[Any]]) -> None:
        """Compute -Q x, and tr(Q^-1 Q_k) / 2 - x'Q_k x / 2."""
        x, coefficients = inputs
        prior, pattern = self.summed.prior(coefficients), self.summed.pattern
        weights = pattern.counted(0.5 * (prior.covariances - pattern.outer(x, x)))
        output_storage[0][0] = -prior.multiplied(x)
        output_storage[1][0] = self.summed.parts @ weights


@_logprob.register(MaternFieldRV)
def matern_field_logprob(op: MaternFieldRV, values: Sequence[Any], *inputs: Any, **kwargs: Any) -> TensorVariable:
    """Return the log density, for `pymc.logp`."""
    [value], (mean, lengthscale, deviation) = values, inputs[2:]
    squared = 2.0 / pt.sqr(lengthscale)
    coefficients = pt.stack([pt.sqr(squared), 2.0 * squared, pt.ones_like(squared)])
    coefficients /= 4.0 * np.pi * squared * pt.sqr(deviation)
    possible = pt.and_(pt.gt(lengthscale, 0.0), pt.gt(deviation, 0.0))
    return _Density(op.summed)(value - mean, pt.switch(possible, coefficients, np.nan))


@_support_point.register(MaternFieldRV)
def matern_field_support_point(op: MaternFieldRV, rv: Any, rng: Any, size: Any, mean: Any, *_: Any) -> Any:
    """Return the mean."""
    return mean
