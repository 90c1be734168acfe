"""Fields on areas or meshes as priors of f: how they are recognized, and their precisions as functions of theta."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from pymc.distributions.multivariate import CARRV, ICARRV
from pytensor.compile import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.sparse.basic import DenseFromSparse
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.variable import TensorVariable

from pmgp.core.markov import PrecisionPrior, fields
from pmgp.interface.distributions.matern_field import MaternFieldRV

Given = Callable[..., PrecisionPrior]
NEIGHBORS = "its neighbors depend on hyper-parameters; they must be data"
SIGMA = (
    "its sigma depends on hyper-parameters, but the density of pm.ICAR leaves out the factor sigma^-(n - 1): write "
    "sigma * pm.ICAR(..., W=W), with which sigma has the intended posterior"
)
ZERO_SUM = "its zero_sum_stdev depends on hyper-parameters; it must be a number"


class ConditionalAutoregression(NamedTuple):
    """Graphs of the parameters of a field with the precision tau (D - alpha W); the mean is (n,) or a scalar."""

    mean: TensorVariable
    alpha: TensorVariable
    tau: TensorVariable


class IntrinsicAutoregression(NamedTuple):
    """Graphs of the parameters of a field with the precision (D - W) / sigma^2 and a soft constraint on its mean."""

    sigma: TensorVariable
    zero_sum_stdev: TensorVariable


class MaternField(NamedTuple):
    """Graphs of the parameters of a Matern field: its mean (n,), and two scalars."""

    mean: TensorVariable
    lengthscale: TensorVariable
    sigma: TensorVariable


class Field(ABC):
    """A kind of field.

    `needs` is the condition on its parameters under which it has a density.
    """

    needs: ClassVar[str]

    @abstractmethod
    def parameters(self, rv: TensorVariable) -> Any:
        """Return the parameters that may depend on theta: a named tuple of graphs in terms of random variables."""

    @abstractmethod
    def constants(self, rv: TensorVariable) -> dict[str, Any]:
        """Return the graphs of parameters that must not depend on theta, keyed by the message for one that does."""

    @abstractmethod
    def structure(self, rv: TensorVariable) -> Callable[..., Given]:
        """Return a function of the constants' values that returns the function from parameters' values to p(f|theta).

        It raises a ValueError for constants that define no field.
        """

    @abstractmethod
    def described(self, rv: TensorVariable) -> str:
        """Return a short name for this kind of field."""


class _Conditional(Field):
    """`pymc.CAR`."""

    needs = "alpha must be between -1 and 1, and tau positive"

    def parameters(self, rv: TensorVariable) -> ConditionalAutoregression:
        mean, _, alpha, tau, *_ = rv.owner.op.dist_params(rv.owner)
        return ConditionalAutoregression(mean, alpha, tau)

    def constants(self, rv: TensorVariable) -> dict[str, Any]:
        return {NEIGHBORS: _matrix(rv.owner.op.dist_params(rv.owner)[1])}

    def structure(self, rv: TensorVariable) -> Callable[..., Given]:
        return _on_areas

    def described(self, rv: TensorVariable) -> str:
        try:
            neighbors = fields.checked_neighbors(value_of(self.constants(rv)[NEIGHBORS]))
        except ValueError:  # The model is refused later, with the reason.
            return "conditional autoregression on areas"
        return f"conditional autoregression on areas{_pieces(neighbors)}"


class _Intrinsic(Field):
    """`pymc.ICAR`, whose density leaves out the factor sigma^-(n - 1)."""

    needs = "sigma and zero_sum_stdev must be positive"

    def parameters(self, rv: TensorVariable) -> IntrinsicAutoregression:
        _, sigma, zero_sum_stdev = rv.owner.op.dist_params(rv.owner)
        return IntrinsicAutoregression(sigma, zero_sum_stdev)

    def constants(self, rv: TensorVariable) -> dict[str, Any]:
        neighbors, sigma, zero_sum_stdev = rv.owner.op.dist_params(rv.owner)
        return {NEIGHBORS: neighbors, SIGMA: sigma, ZERO_SUM: zero_sum_stdev}

    def structure(self, rv: TensorVariable) -> Callable[..., Given]:
        return _intrinsic

    def described(self, rv: TensorVariable) -> str:
        return "intrinsic autoregression on areas"


class _Matern(Field):
    """:class:`pmgp.gp.SPDE`."""

    needs = (
        "lengthscale (or range) and sigma must be positive and finite, and in a sum with other effects the "
        "length-scale must be below about a thousand cells, as rounding loses the field's level above that"
    )

    def parameters(self, rv: TensorVariable) -> MaternField:
        return MaternField(*rv.owner.op.dist_params(rv.owner))

    def constants(self, rv: TensorVariable) -> dict[str, Any]:
        return {}

    def structure(self, rv: TensorVariable) -> Callable[..., Given]:
        return partial(partial, _matern, rv.owner.op.summed)

    def described(self, rv: TensorVariable) -> str:
        pattern = rv.owner.op.summed.pattern
        points = pattern.sites - pattern.shape[0]
        return f"Matern field of order 1 on {pattern.shape[0]} nodes{f', at {points} points' if points else ''}"


def _on_areas(weights: Any) -> Given:
    return partial(_conditional, fields.autoregression_on_areas(fields.checked_neighbors(weights)))


def _conditional(
    summed: fields.SummedPrecision, mean: np.ndarray, alpha: np.ndarray, tau: np.ndarray
) -> PrecisionPrior:
    return summed.prior(fields.autoregression_coefficients(alpha.item(), tau.item()), mean)


def _intrinsic(weights: Any, sigma: Any, zero_sum_stdev: Any) -> Given:
    neighbors = fields.checked_neighbors(weights)
    return partial(_always, fields.intrinsic_autoregression(neighbors, float(sigma), float(zero_sum_stdev)))


def _always(prior: PrecisionPrior, *parameters: np.ndarray) -> PrecisionPrior:
    return prior


def _matern(summed: fields.LevelPrecision, mean: np.ndarray, lengthscale: Any, sigma: Any) -> PrecisionPrior:
    return summed.prior(fields.matern_coefficients(float(lengthscale), float(sigma)), mean)


FIELDS: dict[type, Field] = {CARRV: _Conditional(), ICARRV: _Intrinsic(), MaternFieldRV: _Matern()}


def is_field(rv: TensorVariable) -> bool:
    """Return whether a variable is a field on areas or on a mesh."""
    return rv.owner is not None and type(rv.owner.op) in FIELDS


def field_of(rv: TensorVariable) -> Field:
    """Return the kind of a field."""
    return FIELDS[type(rv.owner.op)]


def value_of(graph: Any) -> Any:
    """Return the current value of a graph without random variables."""
    if isinstance(graph, SharedVariable):
        return graph.get_value()
    return graph.data if isinstance(graph, Constant) else graph.eval()


def _matrix(graph: Any) -> Any:
    """Return a matrix as the user gave it, before PyMC made it dense or added axes for batches."""
    while graph.owner is not None and isinstance(graph.owner.op, DimShuffle | DenseFromSparse):
        graph = graph.owner.inputs[0]
    return graph


def _pieces(neighbors: Any) -> str:
    pieces = fields.number_of_pieces(neighbors)
    return "" if pieces == 1 else f" in {pieces} separate pieces"
