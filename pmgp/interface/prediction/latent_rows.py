"""The latent variables of a model as rows of one matrix, or its multivariate normal observations as the only row."""

from __future__ import annotations

import numpy as np
import pymc as pm
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.model.latent_gaussian import ModelError


class LatentRows:
    """The latent variables of a model as rows of a matrix, (C, n): a vector is one row, a matrix several in order.

    Multivariate normal observations, the only variable then, are `observed`, an array (n,).
    """

    def __init__(self, variables: list[TensorVariable], observed: np.ndarray | None = None) -> None:
        self.variables = variables
        self.observed = observed
        self.shapes = [_shape(variable) for variable in variables]
        self.size = self.shapes[0][-1]
        if any(shape[-1] != self.size for shape in self.shapes):
            lengths = ", ".join(str(shape[-1]) for shape in self.shapes)
            raise ModelError(
                f"the model has several multivariate normal variables ({', '.join(self.names)}); say which are f "
                f"with latent=...: with {lengths} elements they cannot all be latent vectors, which have one element "
                "for each observation"
            )
        stops = np.cumsum([1 if len(shape) == 1 else shape[0] for shape in self.shapes])
        self._starts = [0, *map(int, stops)]

    @property
    def drawn(self) -> list[TensorVariable]:
        """The variables that a posterior has draws of."""
        return self.variables if self.observed is None else []

    @property
    def names(self) -> list[str]:
        """The names of the variables."""
        return [str(variable.name) for variable in self.variables]

    @property
    def name(self) -> str:
        """The names of the variables, for error messages."""
        return " and ".join(repr(name) for name in self.names)

    @property
    def single(self) -> bool:
        """Whether there is only one vector, which is a variable of its own."""
        return len(self.variables) == 1 and len(self.shapes[0]) == 1

    @property
    def number(self) -> int:
        """The number of rows, C."""
        return self._starts[-1]

    def of(self, variable: TensorVariable) -> slice:
        """Return the rows of a variable."""
        place = self.variables.index(variable)
        return slice(self._starts[place], self._starts[place + 1])

    def stack(self, values: list[np.ndarray]) -> np.ndarray:
        """Return the values of the variables, (k, n) and (k, rows, n), as one array (C, k, n)."""
        if self.single:
            return values[0][None]
        return np.concatenate([each[None] if each.ndim == 2 else np.moveaxis(each, 1, 0) for each in values])

    def split(self, rows: np.ndarray) -> list[np.ndarray]:
        """Split rows into the values of each variable, the inverse of :meth:`stack`."""
        parts = [rows[self.of(variable)] for variable in self.variables]
        return [part[0] if len(shape) == 1 else part for part, shape in zip(parts, self.shapes, strict=True)]

    def labels(self, model: pm.Model) -> list[str]:
        """Return a name for each row: that of the variable, with the coordinate or the number of a row of a matrix."""
        found = []
        for variable, shape in zip(self.variables, self.shapes, strict=True):
            if len(shape) == 1:
                found.append(str(variable.name))
                continue
            dimensions = model.named_vars_to_dims.get(variable.name) or (None,)
            known = model.coords.get(dimensions[0]) if dimensions[0] is not None else None
            found += [f"{variable.name}[{label}]" for label in (range(shape[0]) if known is None else known)]
        return found


def _shape(variable: TensorVariable) -> tuple[int, ...]:
    known = variable.type.shape
    return tuple(int(n) for n in (variable.shape.eval() if None in known else known))
