"""The observations that depend on f: their values, and checks that their shapes match those of their parameters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pymc as pm
from pymc.pytensorf import compile as compile_pytensor
from pymc.variational.minibatch_rv import MinibatchRandomVariable
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.distributions.base import broadcasts_to, value_of
from pmgp.interface.model.latent_variable import ModelError, are_summed, names_of


class Observations:
    """The observed variables that depend on f: their shapes and values.

    The variables include potentials, which have no observed values.
    """

    def __init__(self, model: pm.Model, latent: str, variables: list[TensorVariable]) -> None:
        self.latent_name = latent
        self._values = {v.name: model.rvs_to_values[v] for v in variables if v in model.observed_RVs}
        self._support = {
            v.name: getattr(v.owner.op, "ndim_supp", None) or 0 for v in variables if v in model.observed_RVs
        }

    def value(self, name: str) -> np.ndarray | None:
        """Return the observed values, or None for a potential."""
        variable = self._values.get(name)
        return None if variable is None else value_of(variable)

    def require_length(self, n: int) -> None:
        """Refuse a number of observations other than n, one for each latent value, which closed forms require."""
        for name, variable in self._values.items():
            if (shape := value_of(variable).shape) != (n,):
                raise ModelError(_wrong_shape(name, shape, (n,), self.latent_name, n))

    def refuse_shape(self, name: str, shape: tuple[int, ...], n: int) -> None:
        """Refuse observations that were broadcast: log-densities, of the given shape, are then more than the data."""
        value = self.value(name)
        if value is None:
            return
        expected = value.shape[: value.ndim - self._support[name]]
        if np.prod(shape) > np.prod(expected):
            raise ModelError(_wrong_shape(name, value.shape, shape, self.latent_name, n))


def refuse_shapes(
    model: pm.Model,
    latents: list[TensorVariable],
    variables: list[TensorVariable],
    point: dict[str, np.ndarray],
    static: bool = False,
) -> None:
    """Refuse observations whose shape does not match that of their parameters.

    With `static`, only shapes that the graph knows are checked, which takes no time.
    """
    names = names_of(latents)
    lengths = {np.shape(point[model.rvs_to_values[rv].name])[-1:] for rv in latents}
    n = None if are_summed(latents) or len(lengths) > 1 else int(*lengths.pop())
    for rv in [v for v in variables if v in model.observed_RVs]:
        if isinstance(rv.owner.op, MinibatchRandomVariable):
            raise ModelError(
                f"{rv.name!r} has a total_size, which scales its log-likelihood for variational inference from a part "
                "of the data: leave that out, and observe all data"
            )
        value = value_of(model.rvs_to_values[rv])
        shapes = _parameter_shapes(model, rv, None if static else point)
        expected = value.shape[: value.ndim - (rv.owner.op.ndim_supp or 0)]
        wrong = [shape for shape in shapes if not broadcasts_to(shape, expected)]
        if wrong:
            raise ModelError(_wrong_shape(rv.name, value.shape, wrong[0], names, n))


@contextmanager
def naming_shapes(
    model: pm.Model, latents: list[TensorVariable], variables: list[TensorVariable], point: dict[str, np.ndarray]
) -> Iterator[None]:
    """Raise the error of :func:`refuse_shapes` in place of PyTensor's own, if wrong shapes cause it."""
    try:
        yield
    except ModelError:
        raise
    except (ValueError, TypeError, AssertionError):
        refuse_shapes(model, latents, variables, point)
        raise


def _parameter_shapes(
    model: pm.Model, rv: TensorVariable, point: dict[str, np.ndarray] | None
) -> list[tuple[int, ...]]:
    """Return the shapes of the parameters of a variable, without the dimensions that belong to one observation."""
    dimensions = getattr(rv.owner.op, "ndims_params", None)
    if dimensions is None:
        return []
    parameters = rv.owner.op.dist_params(rv.owner)
    if point is None:
        shapes = [tuple(1 if length is None else length for length in p.type.shape) for p in parameters]
    else:
        graphs = model.replace_rvs_by_values([p.shape for p in parameters])
        function = compile_pytensor(model.value_vars, graphs, mode="FAST_COMPILE", on_unused_input="ignore")
        shapes = [tuple(map(int, shape)) for shape in function(**{v.name: point[v.name] for v in model.value_vars})]
    return [shape[: len(shape) - core] for shape, core in zip(shapes, dimensions, strict=True)]


def _wrong_shape(name: str, observed: tuple[int, ...], other: tuple[int, ...], latent: str, n: int | None) -> str:
    """Return an error message about shapes; n is None where observations depend on sums of latent values."""
    if n is None:
        return (
            f"{name!r} has observations of shape {observed}, but its parameters, which depend on {latent}, have shape "
            f"{other}: give one observation for each of them"
        )
    advice = "give one observation for each latent value it depends on, such as one for each row of X"
    if len(observed) == 2 and 1 in observed:
        advice = "give a vector of observations, observed=y.ravel()"
    return (
        f"{name!r} has observations of shape {observed}, but {latent!r} has shape ({n},), which makes its parameters "
        f"{other}: {advice}"
    )
