"""Maps as priors of f: which variables are fields on areas or meshes, and how theta gives their precision."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from pymc.distributions.multivariate import CARRV
from pytensor.compile import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.sparse.basic import DenseFromSparse
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.variable import TensorVariable

from pmgp.core.markov import PrecisionPrior, fields

__all__ = ["ConditionalAutoregression", "Field", "field_of", "is_field"]

Given = Callable[..., PrecisionPrior]


class ConditionalAutoregression(NamedTuple):
    """tau (D - alpha W) as a precision, in graphs.

    Attributes
    ----------
    mean : (n,) vector or scalar
    alpha, tau : scalar
    """

    mean: TensorVariable
    alpha: TensorVariable
    tau: TensorVariable


class Field(ABC):
    """A kind of field."""

    @abstractmethod
    def parameters(self, rv: TensorVariable) -> Any:
        """What theta may change, a named tuple of graphs in terms of random variables."""

    @abstractmethod
    def constants(self, rv: TensorVariable) -> list[Any]:
        """What it may not: graphs."""

    @abstractmethod
    def structure(self, *constants: Any) -> Given:
        """Return the function from values of the parameters to p(f|theta).

        Raises
        ------
        ValueError
            For constants that make no field.
        """

    @abstractmethod
    def described(self, rv: TensorVariable) -> str:
        """What kind it is, in a few words."""


class _Conditional(Field):
    """`pymc.CAR`."""

    def parameters(self, rv: TensorVariable) -> ConditionalAutoregression:
        mean, _, alpha, tau, *_ = rv.owner.op.dist_params(rv.owner)
        return ConditionalAutoregression(mean, alpha, tau)

    def constants(self, rv: TensorVariable) -> list[Any]:
        return [_matrix(rv.owner.op.dist_params(rv.owner)[1])]

    def structure(self, *constants: Any) -> Given:
        return partial(_on_areas, fields.autoregression_on_areas(fields.checked_neighbors(*constants)))

    def described(self, rv: TensorVariable) -> str:
        neighbors = fields.checked_neighbors(value_of(self.constants(rv)[0]))
        return f"conditional autoregression on areas{_pieces(neighbors)}"


def _on_areas(summed: fields.SummedPrecision, mean: np.ndarray, alpha: np.ndarray, tau: np.ndarray) -> PrecisionPrior:
    return summed.prior(fields.autoregression_coefficients(alpha.item(), tau.item()), mean)


FIELDS: dict[type, Field] = {CARRV: _Conditional()}


def is_field(rv: TensorVariable) -> bool:
    """Whether a variable is a field on areas or on a mesh."""
    return rv.owner is not None and type(rv.owner.op) in FIELDS


def field_of(rv: TensorVariable) -> Field:
    """The kind of a field."""
    return FIELDS[type(rv.owner.op)]


def value_of(graph: Any) -> Any:
    """What a graph without random variables is at present."""
    if isinstance(graph, SharedVariable):
        return graph.get_value()
    return graph.data if isinstance(graph, Constant) else graph.eval()


def _matrix(graph: Any) -> Any:
    """A matrix as it was given, before PyMC made it a dense one, or gave it axes for several variables at once."""
    while graph.owner is not None and isinstance(graph.owner.op, DimShuffle | DenseFromSparse):
        graph = graph.owner.inputs[0]
    return graph


def _pieces(neighbors: Any) -> str:
    pieces = fields.number_of_pieces(neighbors)
    return "" if pieces == 1 else f" in {pieces} pieces that are not joined"
