"""Expectations of an observed variable at new points, given independent normal latent values there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytensor.tensor as pt
from pymc.exceptions import UndefinedMomentException
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.distributions.means import conditional_mean
from pmgp.interface.distributions.records import Expected, record_of
from pmgp.interface.prediction.averages import expectation_over
from pmgp.interface.prediction.point_function import PointModel
from pmgp.interface.prediction.rules import NotPointwiseError

# A function of means and variances of the latent vectors at the new points of a slice, (C, m) each, theta, the slice,
# and the number of the draw; its values have shape (m,) or (m, categories).
Expectation = Callable[[np.ndarray, np.ndarray, list[np.ndarray], slice, range], np.ndarray]


def expectations_of(points: PointModel, observed: TensorVariable) -> dict[str, Expectation]:
    """Return functions for an observed variable's expectations: "probability", "complement", "mean", "probabilities".

    An expectation that is not determined at a new point raises a NotPointwiseError that says why.
    """
    return {name: _expectation(points, observed, name, each) for name, each in record_of(observed).expected.items()}


def _expectation(points: PointModel, observed: TensorVariable, name: str, expected: Expected) -> Expectation:
    if expected.under_normal is not None:
        row = _row_of_closed_form(points, observed)
        if row is not None:
            return _in_closed_form(points, observed, expected.under_normal, row)
    return _by_quadrature(points, observed, _given_f(observed, expected), core=int(name == "probabilities"))


def _given_f(observed: TensorVariable, expected: Expected) -> TensorVariable:
    if expected.given_f is not None:
        return expected.given_f(*observed.owner.op.dist_params(observed.owner))
    if 0 < observed.owner.op.ndim_supp < observed.ndim:
        raise NotPointwiseError("each of its observations is a vector")
    try:
        return conditional_mean(observed)
    except UndefinedMomentException as error:
        raise NotPointwiseError(f"its distribution has no mean: {error}") from error
    except NotImplementedError as error:
        raise NotPointwiseError(f"PyMC does not know its mean: {error}") from error


def _row_of_closed_form(points: PointModel, observed: TensorVariable) -> int | None:
    """Return the index of the latent vector that is the first parameter itself, if all observations share vectors."""
    (f, _), *others = _parameters(observed)
    if observed.ndim != 1 or f.ndim != 1 or any(parameter.ndim > axes for parameter, axes in others if axes):
        return None
    graph = points.new_points(observed)
    if any(graph.depends(parameter) for parameter, _ in others):
        return None
    values = graph(f, 0)
    found = [latent for latent, points_of_it in graph.points.items() if points_of_it is values]
    return points.rows.of(found[0]).start if found else None


def _parameters(observed: TensorVariable) -> list[tuple[TensorVariable, int]]:
    """Return the parameters of a variable, each with the number of its axes that belong to one observation."""
    op = observed.owner.op
    return list(zip(op.dist_params(observed.owner), op.ndims_params, strict=True))


def _in_closed_form(
    points: PointModel, observed: TensorVariable, under_normal: Callable[..., np.ndarray], row: int
) -> Expectation:
    (f, _), *others = _parameters(observed)
    values = [_vector(points, each) if axes else _scalar(points, observed, each, f) for each, axes in others]

    def expectation(
        mean: np.ndarray, variance: np.ndarray, theta: list[np.ndarray], where: slice, parts: range
    ) -> np.ndarray:
        return under_normal(mean[row], variance[row], *(value(mean, theta, where) for value in values))

    return expectation


def _vector(points: PointModel, parameter: TensorVariable) -> Callable[..., np.ndarray]:
    """Return a parameter shared by all observations, as a function of means, theta and a slice of points."""
    function = points.constant(parameter)
    return lambda mean, theta, where: function(*theta)


def _scalar(
    points: PointModel, observed: TensorVariable, parameter: TensorVariable, f: TensorVariable
) -> Callable[..., np.ndarray]:
    """Return a parameter with a value at each new point, as a function of means, theta and a slice of points."""
    function = points.function(observed, parameter + pt.zeros_like(f))
    return lambda mean, theta, where: function(mean[:, None], theta, where)[0]


def _by_quadrature(points: PointModel, observed: TensorVariable, given_f: TensorVariable, core: int) -> Expectation:
    function = points.function(observed, given_f, core)

    needed = _rows_of(points, given_f)

    def expectation(
        mean: np.ndarray, variance: np.ndarray, theta: list[np.ndarray], where: slice, parts: range
    ) -> np.ndarray:
        return expectation_over(lambda f: function(f, theta, where), mean, variance, needed, parts)

    return expectation


def _rows_of(points: PointModel, given_f: TensorVariable) -> list[int]:
    """Return the latent vectors on which a graph depends; averages over the others are not needed."""
    above = set(ancestors([given_f]))
    rows = points.rows
    found = [place for f in rows.variables if f in above for place in range(rows.number)[rows.of(f)]]
    return found or [0]
