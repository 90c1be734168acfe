"""Graphs as products of two factors: powers of scalars that depend on theta, and a graph that does not.

If inputs are divided by one length-scale, their squared distances are those of the inputs themselves divided by its
square. So the distances are computed once, and scaled for each theta.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytensor.scalar as ps
import pytensor.tensor as pt
from pytensor.graph.traversal import ancestors
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.variable import TensorVariable

Separated = tuple[Counter[TensorVariable], TensorVariable]
"""Scalars with their powers, and the graph that these multiply."""


def separated(variable: TensorVariable, theta: TensorVariable) -> Separated | None:
    """Return a graph as such a product, or None if no such form is known."""
    if theta not in set(ancestors([variable])):
        return Counter(), variable
    if all(variable.type.broadcastable):
        return Counter({_without_axes(variable): 1}), pt.ones([1] * variable.ndim)
    node = variable.owner
    if node is None:
        return None
    parts = [separated(source, theta) for source in node.inputs]
    known = [part for part in parts if part is not None]
    return _joined(node.op, known) if len(known) == len(parts) else None


def _joined(op: Any, parts: list[Separated]) -> Separated | None:
    """Return the separated form of an operation's result, from those of its inputs."""
    powers, rests = [part[0] for part in parts], [part[1] for part in parts]
    if isinstance(op, DimShuffle) or (isinstance(op, CAReduce) and op.scalar_op == ps.add):
        return powers[0], op(*rests)
    if isinstance(op, Dot):
        return _sum(powers), op(*rests)
    operation = op.scalar_op if isinstance(op, Elemwise) else None
    if operation == ps.sqr:
        return _sum([*powers, *powers]), op(*rests)
    if operation == ps.mul:
        return _sum(powers), op(*rests)
    if operation == ps.true_div:
        return _sum([powers[0], Counter({scalar: -power for scalar, power in powers[1].items()})]), op(*rests)
    if operation == ps.neg or (operation == ps.add and all(power == powers[0] for power in powers)):
        return powers[0], op(*rests)
    return None


def _sum(powers: list[Counter[TensorVariable]]) -> Counter[TensorVariable]:
    """Add powers, negative ones included, which Counter's own sum would drop."""
    total: Counter[TensorVariable] = Counter()
    for each in powers:
        total.update(each)
    return total


def _without_axes(scalar: TensorVariable) -> TensorVariable:
    """Return a scalar without the axes that were added to it."""
    while scalar.owner is not None and isinstance(scalar.owner.op, DimShuffle):
        scalar = scalar.owner.inputs[0]
    return scalar


def scalar_of(powers: Counter[TensorVariable]) -> TensorVariable:
    """Return the product of powers of scalars as a matrix with one element."""
    factors = [pt.sqr(scalar) if power == 2 else scalar ** float(power) for scalar, power in powers.items()]
    return pt.mul(*[factor.dimshuffle(*["x"] * (2 - factor.ndim), *range(factor.ndim)) for factor in factors], 1.0)
