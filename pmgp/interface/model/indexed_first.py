"""Graphs in which an index comes before the elementwise functions: exp(b + u)[group] becomes exp(b + u[group]).

Each observation then has its own element of each predictor.
"""

from __future__ import annotations

from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.subtensor import AdvancedSubtensor
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.graphs.rewriting import rewrite_by


@node_rewriter([AdvancedSubtensor])
def _index_inputs(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """Replace the elements of an elementwise function of vectors by the function of their elements."""
    x, *index = node.inputs
    if x.owner is None or not isinstance(x.owner.op, Elemwise) or x.type.ndim != 1 or len(x.owner.outputs) > 1:
        return None
    inputs = [one if one.type.broadcastable[0] else node.op(one, *index) for one in x.owner.inputs]
    return [x.owner.op(*inputs).astype(node.outputs[0].dtype)]


INDEX_FIRST = in2out(_index_inputs, name="index_first")


def indexed_first(graphs: list[TensorVariable]) -> list[TensorVariable]:
    """Return equivalent graphs without an index of an elementwise function of vectors."""
    return rewrite_by(INDEX_FIRST, graphs, clone=True)
