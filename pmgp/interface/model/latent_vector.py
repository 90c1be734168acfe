"""f as one flat vector: the values of one latent vector, or those of several, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.replace import clone_replace
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.model.latent_variable import ModelError
from pmgp.interface.model.likelihood_terms import LikelihoodTerms


class LatentVector:
    """The latent variables of a model, as one vector.

    A variable of shape (C, n), as ``gp.prior(..., n_outputs=C)`` makes it, is C latent vectors.

    Parameters
    ----------
    model : pymc.Model
    variables : list of variables
        In the order in which they stand in the vector.
    point : dict
        Values of all variables, for their shapes.

    Attributes
    ----------
    values : list of variables
        Their value variables.
    vector : vector
        f in graphs: the value variable itself where there is one latent vector.
    number : int
        Number of latent vectors.

    Raises
    ------
    ModelError
        If they are not as long as each other.
    """

    def __init__(self, model: pm.Model, variables: list[TensorVariable], point: dict[str, np.ndarray]) -> None:
        self.variables = variables
        self.values = [model.rvs_to_values[variable] for variable in variables]
        shapes = [np.shape(point[value.name]) for value in self.values]
        self._rows = [shape[0] if len(shape) == 2 else None for shape in shapes]
        self.number = sum(rows or 1 for rows in self._rows)
        self._sizes = [int(np.prod(shape)) for shape in shapes]
        lengths = {shape[-1] for shape in shapes}
        if len(lengths) > 1:
            raise ModelError(
                f"the model has several multivariate normal variables ({self.name}); say which with latent=...: of "
                f"{', '.join(str(shape[-1]) for shape in shapes)} elements, they cannot all be latent vectors, which "
                "have an element each for every observation. The others are hyper-parameters then"
            )
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
        """Indices of the latent vectors in one of the value variables; None where it is one itself."""
        rows = self._rows[self.values.index(value)]
        return (None,) if rows is None else range(rows)

    def ravel(self, point: dict[str, np.ndarray]) -> np.ndarray:
        """The flat vector, from a point of the model: (C n,)."""
        if not self.several:
            return point[self.values[0].name]
        return np.concatenate([np.ravel(point[name]) for name in self.names])

    def unravel(self, f: np.ndarray, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Values of the variables by name, from the flat vector, whatever theta is."""
        if not self.several:
            return {self.values[0].name: f}
        blocks, found, start = f.reshape(self.number, -1), {}, 0
        for name, rows in zip(self.names, self._rows, strict=True):
            found[name] = (blocks[start] if rows is None else blocks[start : start + rows]).copy()
            start += rows or 1
        return found

    def sites(self, point: dict[str, np.ndarray]) -> int:
        """Number of values that each latent vector has at a point of the model."""
        return int(point[self.names[0]].shape[-1])

    @property
    def predictors(self) -> LatentVector:
        """The likelihood's terms are functions of f itself."""
        return self

    def in_words(self) -> str | None:
        """None: what f is goes without saying."""
        return None

    @property
    def lengths(self) -> dict[str, int]:
        """Number of elements of each variable."""
        return dict(zip(self.names, self._sizes, strict=True))

    def rows_at(self, places: np.ndarray, terms: LikelihoodTerms | None) -> np.ndarray | None:
        """The observations of latent values at some places; None where they are not one for each in its order."""
        return places if terms is None or terms.in_order else None

    def refresh_data(self) -> None:
        """There are no data in it."""

    def write(self, graphs: list[TensorVariable]) -> list[TensorVariable]:
        """Write graphs of the value variables as graphs of the flat vector."""
        if not self.several or not graphs:
            return graphs
        blocks, replace, start = self.vector.reshape((self.number, -1)), {}, 0
        for value, rows in zip(self.values, self._rows, strict=True):
            part = blocks[start] if rows is None else blocks[start : start + rows]
            replace[value] = pt.specify_shape(part, value.type.shape)
            start += rows or 1
        return clone_replace(graphs, replace, rebuild_strict=False)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the variables behind, as PyMC's random variables cannot be pickled; their values have their names."""
        return self.__dict__ | {"variables": self.values}
