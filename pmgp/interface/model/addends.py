"""Potentials that are sums, taken apart: of ``pm.Potential("y", pm.logp(...).sum())`` all terms are needed."""

from __future__ import annotations

import pytensor.scalar as ps
import pytensor.tensor as pt
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Sum
from pytensor.tensor.variable import TensorVariable


def addends(total: TensorVariable) -> TensorVariable:
    """Return an array whose sum is that of `total`: the terms of sums of vectors, or `total` itself."""
    if total.ndim:
        return total
    found = _addends(total)
    return found[0] if len(found) == 1 else pt.concatenate([one.ravel() for one in found])


def _addends(total: TensorVariable) -> list[TensorVariable]:
    """Return arrays whose sums add up to a number."""
    if total.owner is None or total.ndim:
        return [total]
    op, inputs = total.owner.op, total.owner.inputs
    if isinstance(op, Sum):
        # A matrix may hold a term for each pair of latent values, which are too many to look at.
        return [inputs[0]] if inputs[0].ndim == 1 else [total]
    if not isinstance(op, Elemwise):
        return [total]
    if isinstance(op.scalar_op, ps.Add):
        return [one for each in inputs for one in _addends(each)]
    if isinstance(op.scalar_op, ps.Sub):
        return [*_addends(inputs[0]), *(-one for one in _addends(inputs[1]))]
    if isinstance(op.scalar_op, ps.Neg):
        return [-one for one in _addends(inputs[0])]
    if isinstance(op.scalar_op, ps.Mul):
        return _products(inputs) or [total]
    return [total]


def _products(factors: list[TensorVariable]) -> list[TensorVariable]:
    """Return a number times the terms of a sum, if one of the factors is a sum and the others are not."""
    parts = [_addends(factor) for factor in factors]
    sums = [part for part, factor in zip(parts, factors, strict=True) if part != [factor]]
    if len(sums) != 1:
        return []
    [terms] = sums
    others = [factor for part, factor in zip(parts, factors, strict=True) if part is not terms]
    return [pt.mul(*others, term) for term in terms]
