"""Tensors as arrays of graphs, one for each element of their short axes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Constant

# Longer axes are not unrolled.
LONGEST_UNROLLED = 12


class NotElementwiseError(TypeError):
    """A graph that cannot be written as an elementwise function."""


class Unrolled(NamedTuple):
    """A tensor as an array of graphs, with as many dimensions.

    The elements are scalars, or vectors over the axis that was kept, which runs over observations and has length 1
    here.
    """

    elements: np.ndarray
    kept: int | None = None


def array_of(values: list[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Return an array of objects, which may be arrays themselves."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array.reshape(shape)


def is_short(length: int | None) -> bool:
    """Return whether an axis of this length is unrolled."""
    return length is not None and length <= LONGEST_UNROLLED


def leaf(variable: Any) -> Unrolled:
    """Unroll a variable by indexing its elements."""
    variable = pt.as_tensor(variable)
    long = [axis for axis, length in enumerate(variable.type.shape) if not is_short(length)]
    if len(long) > 1:
        raise NotElementwiseError(f"{variable} has several long axes")
    shape = tuple(1 if axis in long else length for axis, length in enumerate(variable.type.shape))
    if isinstance(variable, Constant):
        take: Callable[[Any], Any] = lambda places: pt.constant(variable.data[places])  # noqa: E731
    else:
        take = lambda places: variable[places] if places else variable  # noqa: E731
    places = product(*[[slice(None)] if axis in long else range(length) for axis, length in enumerate(shape)])
    return Unrolled(array_of([take(place) for place in places], shape), long[0] if long else None)
