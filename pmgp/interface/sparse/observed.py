"""Checks that observations are in the support, have one latent value each, and are not missing."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
from pymc.pytensorf import compile as compile_pytensor
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pmgp.core.likelihoods.checks import binary_recoding, marked_rows, recoding
from pmgp.core.numerics.arrays import is_missing
from pmgp.interface.distributions.robust_max import RobustMaxRV
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.model.points import value_point
from pmgp.interface.sparse.inputs import current_value
from pmgp.interface.sparse.likelihood import LatentLikelihood


def check_distribution(model: pm.Model, likelihood: LatentLikelihood, arguments: list[TensorVariable]) -> None:
    """Refuse anything but a distribution, and one that uses variables of the model without being given them."""
    f, *parameters = (argument.type() for argument in arguments)
    rv = likelihood.dist(f, *parameters)
    if not isinstance(rv, Variable) or rv.owner is None or not hasattr(rv.owner.op, "ndim_supp"):
        raise TypeError(f"dist must return a PyMC distribution, such as pm.Poisson.dist(mu=pm.math.exp(f)), not {rv!r}")
    hidden = sorted({variable.name for variable in ancestors([rv]) if variable in model.named_vars.values()})
    if hidden:
        raise ValueError(
            f"dist uses {', '.join(map(repr, hidden))} of the model without being given it: make it an argument, as in "
            f"gp.observe('y', f, {hidden[0]}, dist=lambda f, {hidden[0]}: ..., observed=y)"
        )


def check_terms(
    model: pm.Model, name: str, likelihood: LatentLikelihood, value: TensorVariable, arguments: list[TensorVariable]
) -> None:
    """Refuse observations outside the support, and a likelihood with a term that depends on several latent values.

    The log-density is evaluated at random latent values, and again after half of them have moved.
    """
    mean, *parameters = arguments
    f = mean.type()
    rv = likelihood.dist(f, *parameters)
    start = _Start(model)
    observed = current_value(value)
    # PyMC converts whole numbers of a pm.Data, which makes a graph of them.
    observed = np.asarray(start.function([], value)()) if observed is None else observed
    shape = tuple(map(int, start.function([], mean.shape)()))
    _check_kind(name, observed, rv, shape)
    log_density = start.function([f], likelihood.log_density(value, f, *parameters))
    rng = np.random.default_rng(0)
    points, mask = rng.standard_normal(shape), rng.random(shape) < 0.5
    logs = np.array([log_density(points + move) for move in (0.0, mask, ~mask)])
    if not isinstance(rv.owner.op, RobustMaxRV):
        _check_factorization(name, mask, logs)
    _check_shape(name, observed, rv, shape)
    never = ~np.isfinite(logs).any(axis=0)
    if never.any():
        shown = observed if observed.shape == logs[0].shape else None
        raise ValueError(
            f"the log-likelihood of {name!r} is minus infinity or not a number for the observations in "
            f"{marked_rows(np.atleast_1d(never), shown)}, whatever the latent values: they are outside the support of "
            f"{_name(rv)!r}, or its other parameters are impossible"
        )


def checked_observations(
    model: pm.Model,
    name: str,
    likelihood: LatentLikelihood,
    observed: Any,
    mean: TensorVariable,
    parameters: list[TensorVariable],
) -> np.ndarray:
    """Return observations at new inputs, for latent values with the means `mean`; refuse missing and wrong ones."""
    found = complete(name, observed)
    rv = likelihood.dist(mean.type(), *parameters)
    shape = tuple(map(int, _Start(model).function([], mean.shape)()))
    _check_kind(name, found, rv, shape)
    _check_shape(name, found, rv, shape)
    return found


def complete(name: str, observed: Any) -> np.ndarray:
    """Return the observations as an array, and refuse missing ones and text."""
    array = np.ma.asanyarray(observed)
    missing = np.ma.getmaskarray(array) | is_missing(np.ma.getdata(array))
    if np.any(missing):
        raise ValueError(
            f"{int(np.sum(missing))} observations of {name!r} are missing: leave out these observations and their rows "
            "of X; gp.marginals or gp.conditional predicts the process there"
        )
    values = np.asarray(array)
    if values.dtype.kind in "OU" and any(isinstance(value, str) for value in values.flat):
        remedy = binary_recoding(values) if len(set(values.flat)) == 2 else recoding(values, 0)
        raise ValueError(f"the observations {name!r} are text, such as {str(values.flat[0])!r}: {remedy}")
    return values


class _Start:
    """The model's initial point, which fixes every other variable when a graph becomes a function."""

    def __init__(self, model: pm.Model) -> None:
        self._model = model

    def function(self, inputs: list[TensorVariable], output: TensorVariable) -> Callable[..., np.ndarray]:
        """Return a function, interpreted and not compiled, from the inputs to the output."""
        (graph,) = self._model.replace_rvs_by_values([output])
        known = set(ancestors([graph]))
        used = [variable for variable in self._model.value_vars if variable in known]
        values = [self._point[variable.name] for variable in used]
        compiled = compile_pytensor([*inputs, *used], graph, mode=INTERPRETED, on_unused_input="ignore")
        return lambda *points: compiled(*points, *values)

    @cached_property
    def _point(self) -> dict[str, np.ndarray]:
        return value_point(self._model, None)


def _check_kind(name: str, observed: np.ndarray, rv: TensorVariable, shape: tuple[int, ...]) -> None:
    """Refuse a wrong number of observations, and fractions for a distribution over integers."""
    if observed.ndim > len(_needed(rv, shape)):
        _check_shape(name, observed, rv, shape)
    if observed.ndim and observed.shape[-1] != shape[-1]:
        raise ValueError(
            f"there are {observed.shape[-1]} observations {name!r} for {shape[-1]} rows of X: give one for each row"
        )
    broken = observed != np.floor(observed)
    if np.issubdtype(np.dtype(rv.dtype), np.integer) and broken.any():
        raise ValueError(
            f"the observations {name!r} in {marked_rows(broken, observed)} are not whole numbers, and so outside the "
            f"support of {_name(rv)!r}"
        )


def _check_shape(name: str, observed: np.ndarray, rv: TensorVariable, shape: tuple[int, ...]) -> None:
    """Refuse observations that would be repeated for several latent values."""
    needed = _needed(rv, shape)
    if observed.shape != needed:
        remedy = ", such as y.ravel()" if len(needed) == 1 and needed == (observed.size,) else ""
        raise ValueError(
            f"the observations {name!r} have the shape {observed.shape}: give an array of shape {needed}{remedy}"
        )


def _needed(rv: TensorVariable, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of observations for latent values of a shape."""
    return shape[-1:] if isinstance(rv.owner.op, RobustMaxRV) else shape


def _check_factorization(name: str, mask: np.ndarray, logs: np.ndarray) -> None:
    """Refuse terms that change although only the latent values of other terms have moved."""
    if logs[0].shape != mask.shape:
        raise ValueError(
            f"the observations {name!r} have terms of shape {logs[0].shape}, but there are latent values of shape "
            f"{mask.shape}: each observation must depend on one latent value, except for classes with "
            "pmgp.likelihoods.RobustMax"
        )
    # NaN is not equal to itself.
    same = (logs == logs[0]) | np.isnan(logs) & np.isnan(logs[0])
    if not (same[1] | mask).all() or not (same[2] | ~mask).all():
        raise ValueError(
            f"an observation of {name!r} depends on several latent values: the expected log-likelihood is a sum of "
            "integrals in one dimension only if each observation depends on its own value (for classes use "
            "pmgp.likelihoods.RobustMax)"
        )


def _name(rv: TensorVariable) -> str:
    return str(getattr(rv.owner.op, "name", None) or type(rv.owner.op).__name__)
