"""Copies of PyMC models, complete or without some of their variables."""

from __future__ import annotations

import pymc as pm
from pymc.model.fgraph import ModelNamed, fgraph_from_model, model_from_fgraph
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable


def copied(model: pm.Model, without: list[TensorVariable] | None = None) -> pm.Model:
    """Copy a model with its variables, data and initial values.

    Data that only the variables left out use are left out too. No other variable may depend on them.
    """
    graph, copies = fgraph_from_model(_without_initial_values(model))
    for variable in without or []:
        graph.remove_output(graph.outputs.index(copies[variable]))
    if without:
        _remove_unused_data(graph)
    copy = model_from_fgraph(graph, mutate_fgraph=True)
    for rv in copy.free_RVs:
        copy.set_initval(rv, _plain(model.rvs_to_initial_values[model[rv.name]]))
    return copy


def _without_initial_values(model: pm.Model) -> pm.Model:
    """Return the model without initial values, because PyMC cannot take apart a model that has them."""
    view = object.__new__(type(model))
    view.__dict__.update(model.__dict__)
    view.rvs_to_initial_values = dict.fromkeys(model.rvs_to_initial_values)
    return view


def _remove_unused_data(graph: FunctionGraph) -> None:
    named = [output for output in graph.outputs if isinstance(output.owner.op, ModelNamed)]
    used = set(ancestors([output for output in graph.outputs if output not in named]))
    for output in named:
        # The graph of an observed variable refers to the data beneath the named node.
        if not {output, *output.owner.inputs} & used:
            graph.remove_output(graph.outputs.index(output))


def _plain(value: object) -> object:
    """Return an initial value, or None if it refers to variables of the original model."""
    if isinstance(value, Constant):
        return value.data
    return None if isinstance(value, Variable) else value
