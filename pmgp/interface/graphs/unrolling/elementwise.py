"""Unrolling of a term's whole graph, with a rule for each operation."""

from __future__ import annotations

from typing import Any

import pytensor.tensor as pt
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.graphs.unrolling.rules import RULES
from pmgp.interface.graphs.unrolling.unrolled import NotElementwiseError, Unrolled, array_of, leaf


def elementwise(term: TensorVariable, latent: TensorVariable) -> TensorVariable:
    """Return a graph of the same vector that is an elementwise function of the latent vector, data and scalars."""
    unrolled = _Unroller({latent: Unrolled(array_of([latent], (1,)), 0)})(term)
    if term.ndim != 1 or unrolled.kept != 0:
        raise NotElementwiseError("the term is not one value for each observation")
    value = unrolled.elements.item()
    return value if value.ndim == 1 else value + pt.zeros_like(term)


def unrolled_sum(terms: list[TensorVariable]) -> TensorVariable:
    """Return the sum of all elements of the terms, in which short axes are unrolled.

    Terms that cannot be unrolled are summed as they stand.
    """
    return pt.add(0.0, 0.0, *[element.sum() for term in terms for element in _elements(term)])


def _elements(term: TensorVariable) -> list[TensorVariable]:
    try:
        return list(_Unroller({})(term).elements.ravel())
    except NotElementwiseError:
        return [term]


class _Unroller:
    """Unrolls the variables of a graph, each once, from those that are unrolled: f, or an inner graph's inputs."""

    def __init__(self, roots: dict[Any, Unrolled]) -> None:
        self._roots = set(roots)
        self._known = dict(roots)

    def __call__(self, variable: Any) -> Unrolled:
        if variable not in self._known:
            self._known[variable] = self._unroll(variable)
        return self._known[variable]

    def _unroll(self, variable: Any) -> Unrolled:
        if variable.owner is None:
            return leaf(variable)
        rule = next((rule for kind, rule in RULES.items() if isinstance(variable.owner.op, kind)), None)
        try:
            if rule is None:
                raise NotElementwiseError(f"{variable.owner.op} is not elementwise")
            return rule(self, variable.owner)
        except NotElementwiseError:
            if self._roots & set(ancestors([variable])):
                raise
            # An operand that does not depend on f is computed as it stands, and its elements are taken.
            return leaf(variable)

    def inside(self, inputs: dict[Any, Unrolled]) -> _Unroller:
        """Return an unroller for the graph inside an operation, whose inputs are given."""
        return _Unroller(inputs)
