"""f as one flat vector: the values of one latent vector, or of several, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.replace import clone_replace
from pytensor.tensor.variable import TensorVariable


class LatentVector:
    """The latent variables of a model, as one vector.

    A variable of shape (C, n), as ``gp.prior(..., n_outputs=C)`` makes it, is C latent vectors. They are variables of
    equal lengths, in the order of the flat vector. `vector` is f in graphs; with one latent vector, it is its value
    variable.
    """

    def __init__(self, model: pm.Model, variables: list[TensorVariable], point: dict[str, np.ndarray]) -> None:
        self.variables = variables
        self.values = [model.rvs_to_values[variable] for variable in variables]
        shapes = [np.shape(point[value.name]) for value in self.values]
        self._rows = [shape[0] if len(shape) == 2 else None for shape in shapes]
        self.number = sum(rows or 1 for rows in self._rows)
        self._sizes = [int(np.prod(shape)) for shape in shapes]
        single = len(variables) == 1 and self._rows[0] is None
        self.vector = self.values[0] if single else pt.vector("f", dtype=self.values[0].dtype)

    @property
    def several(self) -> bool:
        """Whether there is more than one latent vector."""
        return self.vector is not self.values[0]

    @property
    def name(self) -> str:
        """The name of f in errors: the names of the variables."""
        return ", ".join(value.name for value in self.values)

    @property
    def names(self) -> list[str]:
        """The names of the value variables, which are those of the variables."""
        return [value.name for value in self.values]

    def rows(self, value: TensorVariable) -> Sequence[int | None]:
        """Return the indices of the rows of a value variable that are latent vectors; (None,) if it is one itself."""
        rows = self._rows[self.values.index(value)]
        return (None,) if rows is None else range(rows)

    def ravel(self, point: dict[str, np.ndarray]) -> np.ndarray:
        """Return the flat vector from a point of the model: (C n,)."""
        if not self.several:
            return np.asarray(point[self.values[0].name], dtype=float)
        return np.concatenate([np.ravel(point[name]) for name in self.names], dtype=float)

    def rounded(self, f: np.ndarray) -> np.ndarray:
        """Return the flat vector as the variables hold it, which may be in single precision."""
        return f.astype(self.values[0].dtype, copy=False)

    def unravel(self, f: np.ndarray, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Return the values of the variables by name and of their type, from the flat vector; theta is not used."""
        f = self.rounded(f)
        if not self.several:
            return {self.values[0].name: f}
        blocks, found, start = f.reshape(self.number, -1), {}, 0
        for name, rows in zip(self.names, self._rows, strict=True):
            found[name] = (blocks[start] if rows is None else blocks[start : start + rows]).copy()
            start += rows or 1
        return found

    def sites(self, point: dict[str, np.ndarray]) -> int:
        """Return the number of values of each latent vector at a point of the model."""
        return int(point[self.names[0]].shape[-1])

    @property
    def predictors(self) -> LatentVector:
        """The vector of which the likelihood's terms are functions: f itself."""
        return self

    def of(self, f: np.ndarray) -> np.ndarray:
        """Return the vector of which the likelihood's terms are functions, given f."""
        return f

    @property
    def alone(self) -> list[np.ndarray]:
        """The places in f of each latent vector."""
        return np.split(np.arange(sum(self._sizes)), self.number)

    def in_words(self) -> str | None:
        """Return None: f needs no explanation."""
        return None

    @property
    def lengths(self) -> dict[str, int]:
        """The number of elements of each variable, by name."""
        return dict(zip(self.names, self._sizes, strict=True))

    def counted_at(self, size: int) -> np.ndarray:
        """Return the index in f, of some size, at which each predictor's terms are counted: its own."""
        return np.arange(size)

    def refresh_data(self) -> None:
        """Do nothing: a latent vector has no data."""

    def write(self, graphs: list[TensorVariable]) -> list[TensorVariable]:
        """Return graphs of the value variables as graphs of the flat vector."""
        if not self.several or not graphs:
            return graphs
        blocks, replace, start = self.vector.reshape((self.number, -1)), {}, 0
        for value, rows in zip(self.values, self._rows, strict=True):
            part = blocks[start] if rows is None else blocks[start : start + rows]
            replace[value] = pt.specify_shape(part, value.type.shape)
            start += rows or 1
        return clone_replace(graphs, replace, rebuild_strict=False)

    def __getstate__(self) -> dict[str, Any]:
        """Replace the variables, which cannot be pickled, with their value variables, which have the same names."""
        return self.__dict__ | {"variables": self.values}
