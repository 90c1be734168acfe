"""Recognize graphs that are linear in f, or exponentials of such graphs, to find likelihoods with closed forms."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import pytensor
import pytensor.scalar as ps
import pytensor.tensor as pt
from pytensor.graph.traversal import ancestors
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.variable import TensorVariable


class Linear(NamedTuple):
    """The coefficients of ``slope * f + intercept``, neither of which depends on f."""

    slope: Any
    intercept: Any

    @property
    def constant(self) -> bool:
        """Whether the expression does not contain f."""
        return isinstance(self.slope, float) and self.slope == 0.0


def linear(expression: TensorVariable, f: TensorVariable) -> Linear | None:
    """Return the coefficients of an expression, or None if it is not recognized as linear in f."""
    if expression is f:
        return Linear(1.0, 0.0)
    if f not in set(ancestors([expression])):
        return Linear(0.0, _precise(expression))
    combine = _RULES.get(_operation(expression))
    parts = [linear(part, f) for part in expression.owner.inputs] if combine else [None]
    known = [part for part in parts if part is not None]
    return combine(known) if combine and len(known) == len(parts) else None


def log_linear(expression: TensorVariable, f: TensorVariable) -> Linear | None:
    """Return the coefficients of a positive expression's logarithm, or None if it is not recognized as linear in f."""
    if f not in set(ancestors([expression])):
        return Linear(0.0, pt.log(_precise(expression)))
    operation = _operation(expression)
    if operation is ps.Exp:
        return linear(expression.owner.inputs[0], f)
    if operation not in (ps.Mul, ps.TrueDiv):
        return None
    factors = [log_linear(factor, f) for factor in expression.owner.inputs]
    known = [factor for factor in factors if factor is not None]
    if len(known) < len(factors):
        return None
    return _sum(known) if operation is ps.Mul else _difference(known)


def _precise(expression: TensorVariable) -> TensorVariable:
    """Cast to full precision, because PyTensor takes the number 3.0, and so its logarithm, in single precision."""
    return pt.cast(expression, pytensor.config.floatX)


def _operation(expression: TensorVariable) -> type | None:
    """Return the type of the scalar operation that is applied to each element, or None."""
    node = expression.owner
    return type(node.op.scalar_op) if node is not None and isinstance(node.op, Elemwise) else None


def _sum(parts: list[Linear]) -> Linear:
    return Linear(sum(part.slope for part in parts), sum(part.intercept for part in parts))


def _difference(parts: list[Linear]) -> Linear:
    first, second = parts
    return Linear(first.slope - second.slope, first.intercept - second.intercept)


def _product(parts: list[Linear]) -> Linear | None:
    """Return the coefficients of a product, or None unless exactly one factor depends on f."""
    moving = [part for part in parts if not part.constant]
    if len(moving) != 1:
        return None
    scale = prod(part.intercept for part in parts if part.constant)
    return Linear(moving[0].slope * scale, moving[0].intercept * scale)


def _quotient(parts: list[Linear]) -> Linear | None:
    above, below = parts
    return Linear(above.slope / below.intercept, above.intercept / below.intercept) if below.constant else None


_RULES: dict[type | None, Callable[[list[Linear]], Linear | None]] = {
    ps.Add: _sum,
    ps.Sub: _difference,
    ps.Neg: lambda parts: Linear(-parts[0].slope, -parts[0].intercept),
    ps.Mul: _product,
    ps.TrueDiv: _quotient,
}
