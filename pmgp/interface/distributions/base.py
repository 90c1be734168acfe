"""Base class and helpers of the likelihoods as PyMC distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.distributions.moments.means import _mean, maybe_resize
from pymc.distributions.shape_utils import implicit_size_from_params, rv_size_is_none
from pymc.pytensorf import normalize_rng_param
from pytensor.compile import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.tensor.random.utils import normalize_size_param
from pytensor.tensor.variable import TensorVariable

from pmgp.core.numerics.arrays import is_missing, refuse_masked, without_na


class LatentVariable(SymbolicRandomVariable):
    """An observation given a latent value and other parameters; subclasses define its draws, and perhaps its mean."""

    @classmethod
    def draw(cls, rng: Any, size: Any, *parameters: TensorVariable) -> tuple[Any, TensorVariable]:
        """Return the next generator, and draws of shape `size`."""
        raise NotImplementedError

    @classmethod
    def mean(cls, *parameters: TensorVariable) -> TensorVariable:
        """Return E[y|f]."""
        raise NotImplementedError(f"no mean of {cls.name} is known")

    @classmethod
    def rv_op(cls, *parameters: Any, size: Any = None, rng: Any = None) -> TensorVariable:
        """Return a random variable with these parameters."""
        tensors = [as_parameter(parameter) for parameter in parameters]
        rng = normalize_rng_param(rng)
        size = normalize_size_param(size)
        if rv_size_is_none(size):
            size = implicit_size_from_params(*tensors, ndims_params=cls.ndims_params)
        _check_shapes(size, tensors, cls.ndims_params)
        next_rng, draws = cls.draw(rng, size, *tensors)
        return cls(inputs=[rng, size, *tensors], outputs=[next_rng, draws])(rng, size, *tensors)


@_mean.register(LatentVariable)
def latent_variable_mean(
    op: LatentVariable, rv: TensorVariable, rng: Any, size: Any, *parameters: TensorVariable
) -> TensorVariable:
    """Return E[y|f] for `pymc.distributions.moments.mean`."""
    return maybe_resize(op.mean(*parameters), size)


def _check_shapes(size: Any, parameters: list[TensorVariable], dimensions: Any) -> None:
    """Refuse observations whose shape does not fit their parameters, if both shapes are known statically."""
    if not isinstance(size, Constant):
        return
    observed = tuple(map(int, size.data))
    for parameter, core in zip(parameters, dimensions, strict=True):
        shape = parameter.type.shape[: parameter.ndim - core]
        if None not in shape and not broadcasts_to(shape, observed):
            raise ValueError(
                f"observations of shape {observed} do not fit parameters of shape {shape}: give one observation "
                "for each latent value, such as one for each row of X"
            )


def broadcasts_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Return whether an array of this shape can be broadcast to the target shape without enlarging it."""
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False


def as_parameter(parameter: Any) -> TensorVariable:
    """Return a tensor of double precision: PyTensor takes the number 2.5, and so its logarithm, as single precision."""
    variable = pt.as_tensor(parameter)
    if isinstance(variable, Constant):
        return pt.as_tensor(np.asarray(variable.data, dtype=pytensor.config.floatX))
    return variable


def resized(value: TensorVariable, size: Any) -> TensorVariable:
    """Return the value, repeated to the size of a variable if the variable has one."""
    return value if rv_size_is_none(size) else pt.full(size, value)


def ndtr(z: TensorVariable) -> TensorVariable:
    """Return the normal distribution function."""
    return 0.5 * pt.erfc(-z / np.sqrt(2.0))


def log_ndtr(z: TensorVariable) -> TensorVariable:
    """Return the log of the normal distribution function, with derivatives that stay finite.

    Each branch sees only the part of the line where it is accurate: a gradient through the branch that is not
    taken would otherwise be infinite times zero.
    """
    left = pt.minimum(z, -1.0)
    right = pt.maximum(z, -1.0)
    return pt.switch(
        pt.lt(z, -1.0),
        pt.log(0.5 * pt.erfcx(-left / np.sqrt(2.0))) - 0.5 * pt.square(left),
        pt.log1p(-0.5 * pt.erfc(right / np.sqrt(2.0))),
    )


def known_value(parameter: Any, name: str = "the parameter") -> np.ndarray | None:
    """Return the value of a constant parameter, or None for data and graphs, whose values may still change.

    Masked values are refused by name: a parameter cannot be missing.
    """
    refuse_masked(name, parameter)
    variable = pt.as_tensor(parameter)
    return np.asarray(variable.data) if isinstance(variable, Constant) else None


def known_observations(observed: Any) -> np.ndarray | None:
    """Return observations for a check while a model is built.

    Missing ones are masked, with zero beneath, which is always allowed.
    """
    if observed is None or isinstance(observed, Variable):
        return known_value(observed) if isinstance(observed, Constant) else None
    values = np.ma.asanyarray(without_na(observed))
    missing = np.ma.getmaskarray(values) | is_missing(np.ma.getdata(values))
    if not missing.any():
        return np.asarray(values)
    filled = np.array(np.ma.getdata(values), dtype=object if values.dtype.kind in "US" else None)
    filled[missing] = 0
    return np.ma.masked_array(filled, missing)


def value_of(variable: TensorVariable) -> np.ndarray:
    """Return the current value of a constant, a `pymc.Data`, or a function of these."""
    if isinstance(variable, Constant):
        return np.asarray(variable.data)
    if isinstance(variable, SharedVariable):
        return np.asarray(variable.get_value())
    # Small and evaluated once, so not worth compiling.
    return np.asarray(variable.eval(mode="FAST_COMPILE"))
