"""PyTensor's rewrites of graphs; each choice is looked up once, as that takes as long as rewriting a small graph."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytensor.scalar as ps
from pytensor.compile.mode import optdb
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import GraphRewriter
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.variable import TensorVariable

SIMPLER = ("canonicalize", "stabilize", "specialize")
# Operations that C would compute. Looking for them, PyTensor begins a C compiler to search for BLAS, which takes time,
# and warns if it finds none.
ONLY_FOR_C = ("cxx_only",)


def is_elementwise(variable: Variable, operation: ps.ScalarOp) -> bool:
    """Return whether a variable is the result of an elementwise operation."""
    node = variable.owner
    return node is not None and isinstance(node.op, Elemwise) and node.op.scalar_op == operation


def rewrite(
    outputs: Sequence[TensorVariable],
    include: tuple[str, ...] = SIMPLER,
    exclude: tuple[str, ...] = (),
    clone: bool = False,
) -> list[TensorVariable]:
    """Return equivalent graphs of fewer or more accurate operations, by rewrites that are named as in PyTensor.

    The graphs that are given change unless they are cloned.
    """
    return rewrite_by(_found(include, exclude), outputs, clone)


def rewrite_by(rewriter: GraphRewriter, outputs: Sequence[TensorVariable], clone: bool = False) -> list[TensorVariable]:
    """Return equivalent graphs by a rewriter."""
    graph = FunctionGraph(outputs=list(outputs), clone=clone, copy_inputs=False)
    rewriter.rewrite(graph)
    return graph.outputs


@cache
def _found(include: tuple[str, ...], exclude: tuple[str, ...]) -> GraphRewriter:
    return optdb.query(RewriteDatabaseQuery(include=include, exclude=(*exclude, *ONLY_FOR_C)))
