"""Rewrites for graphs that NumPy computes: fewer passes over large matrices, and fewer of them in memory at a time.

Making an array takes longer than filling it, and each pass over an array that exceeds the processor's cache takes about
the same time, whatever it computes. A compiler would fuse such passes; here each of them is a call.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytensor.scalar as ps
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.tensor.elemwise import CAReduce, Elemwise
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.graphs.remembered import remembered
from pmgp.interface.graphs.rewriting import is_elementwise, rewrite, rewrite_by

INCLUDED = ("merge", "canonicalize", "local_check_parameter_to_ninf_switch", "stabilize", "specialize")
# These look for properties of matrices, such as symmetry; they take a sixth of the time and gain nothing here.
EXCLUDED = (
    "diagonal_solve_to_division",
    "dot_diag_to_elemwise",
    "selection_dot_to_indexing",
    "useless_symmetric_transpose",
)


@remembered
def rewritten(outputs: list[TensorVariable], *, rearranged: bool) -> list[TensorVariable]:
    """Return the outputs of an equivalent graph that takes less time.

    If they may be `rearranged`, sums and products are taken in another order, which changes the last digits.
    """
    outputs = rewrite(outputs, INCLUDED, EXCLUDED)
    if not rearranged:
        return outputs
    own = in2out(_shared_products, _sums_of_squares, _rank_one)
    return rewrite(rewrite_by(own, outputs), ("merge",))


class ColumnSquares(Op):
    """Sums of squares of the columns of a matrix."""

    __props__ = ()

    def make_node(self, matrix: Any) -> Apply:
        """Return the node that maps the matrix to a vector."""
        return Apply(self, [matrix], [matrix.type.clone(shape=matrix.type.shape[1:])()])

    def perform(self, node: Any, inputs: list[Any], outputs: list[list[Any]]) -> None:
        """Compute the result in one pass."""
        outputs[0][0] = np.einsum("ij,ij->j", inputs[0], inputs[0])


class RankOne(Op):
    """A matrix plus the product of a column and a row."""

    __props__ = ()

    def make_node(self, matrix: Any, column: Any, row: Any) -> Apply:
        """Return the node that maps these to a matrix."""
        return Apply(self, [matrix, column, row], [matrix.type()])

    def perform(self, node: Any, inputs: list[Any], outputs: list[list[Any]]) -> None:
        """Compute the product."""
        matrix, column, row = inputs
        outputs[0][0] = matrix + column * row


@node_rewriter([Elemwise])
def _shared_products(_: Any, node: Any) -> list[Any] | None:
    """Multiply the matrices first, since other nodes may share their product, then masks, then smaller factors."""
    [result] = node.outputs
    if node.op.scalar_op != ps.mul or result.ndim < 2 or len(node.inputs) < 3:
        return None
    whole = [factor for factor in node.inputs if _alike(factor, result)]
    matrices = [factor for factor in whole if factor.dtype == result.dtype]
    if len(matrices) < 2 or len(matrices) == len(node.inputs):
        return None
    masks = [factor for factor in whole if factor not in matrices]
    smaller = [factor for factor in node.inputs if factor not in whole]
    return [reduce(pt.mul, [pt.mul(*matrices), *masks, *([reduce(pt.mul, smaller)] if smaller else [])])]


@node_rewriter([CAReduce])
def _sums_of_squares(_: Any, node: Any) -> list[Any] | None:
    """Sum squares without making an array of them."""
    [squares] = node.inputs
    if node.op.scalar_op != ps.add or node.op.axis != (0,) or squares.ndim != 2 or squares.dtype != "float64":
        return None
    return [ColumnSquares()(squares.owner.inputs[0])] if is_elementwise(squares, ps.sqr) else None


@node_rewriter([Elemwise])
def _rank_one(_: Any, node: Any) -> list[Any] | None:
    """Add the product of a column and a row without making an array of it."""
    [result] = node.outputs
    if node.op.scalar_op != ps.add or result.type.broadcastable != (False, False) or len(node.inputs) != 2:
        return None
    for product, matrix in (node.inputs, node.inputs[::-1]):
        factors = _column_and_row(product)
        if factors and _alike(matrix, result) and matrix.dtype == result.dtype == "float64":
            return [RankOne()(matrix, *factors)]
    return None


def _column_and_row(product: TensorVariable) -> list[TensorVariable] | None:
    if not is_elementwise(product, ps.mul) or len(product.owner.inputs) != 2:
        return None
    found = {factor.type.broadcastable: factor for factor in product.owner.inputs if factor.dtype == "float64"}
    kinds = [(False, True), (True, False)]
    return [found[kind] for kind in kinds] if set(kinds) == set(found) else None


def _alike(first: TensorVariable, second: TensorVariable) -> bool:
    return first.type.broadcastable == second.type.broadcastable
