"""Rewrite a graph of the old observations as a graph of new points.

The values that belong to an observation are found from the graph, never from a length. The axis of the result that runs
over observations is traced to its inputs, operation by operation (`rules`), down to the leaves: the latent vector
becomes its values at the new points, and data with that axis become covariates of the new points. If each observation
selects one latent value, as f[index] does, it becomes an observation of a new point.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from pytensor.compile import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.type import TensorType, discrete_dtypes
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.prediction import rules
from pmgp.interface.prediction.rules import Axes, Level, NotPointwiseError


class Rewriter(ABC):
    """A builder of graphs whose axes of length `size`, where demanded, have length `number`; `leaves` end a graph."""

    def __init__(self, number: TensorVariable, size: int, leaves: Iterable[TensorVariable]) -> None:
        self.number = number
        self.size = size
        self.leaves = set(leaves)
        self.selections: set[Any] = set()
        self._built: dict[tuple[TensorVariable, Axes, Level], TensorVariable] = {}
        self._inlined: dict[TensorVariable, TensorVariable] = {}

    def build(self, variable: TensorVariable, axes: Axes, level: Level) -> TensorVariable:
        """Return the graph with the new length along the axes, after the selections of `level`."""
        if not axes and not self.depends(variable):
            if self.size == 1 and rules.has_squeeze(variable, self.leaves):
                raise NotPointwiseError("an axis of length one was dropped, which may be that of the only observation")
            return variable
        key = (variable, axes, level)
        if key not in self._built:
            end = variable.owner is None or variable in self.leaves
            self._built[key] = self.leaf(variable, axes, level) if end else rules.apply(self, variable, axes, level)
        return self._built[key]

    @abstractmethod
    def leaf(self, variable: TensorVariable, axes: Axes, level: Level) -> TensorVariable:
        """Return the replacement for a leaf of the graph."""

    def depends(self, variable: TensorVariable) -> bool:
        """Return whether a graph must be rebuilt even if none of its axes is demanded."""
        return False

    def runs(self, variable: TensorVariable, axis: int) -> bool:
        """Return whether an axis that is aligned with a traced axis has one element for each of its elements.

        The length cannot distinguish a single element from one value for all, so both are traced to the leaves.
        """
        return self.size == 1 or not variable.type.broadcastable[axis]

    def inlined(self, variable: TensorVariable) -> TensorVariable:
        """Return the graph inside a composite operation."""
        if variable not in self._inlined:
            self._inlined[variable] = rules.inner_graph(variable)
        return self._inlined[variable]


class NewInputs(Rewriter):
    """Graphs of a mean or covariance at other inputs.

    The first `size` rows of `joint` are old inputs, and the leaves are the hyper-parameters. Parts whose graphs at the
    other inputs are `known` are replaced; without any, the matrices in the graph are the old inputs.
    """

    def __init__(
        self,
        joint: TensorVariable,
        size: int,
        leaves: Iterable[TensorVariable],
        known: dict[TensorVariable, TensorVariable] | None = None,
    ) -> None:
        self._known = known or {}
        super().__init__(joint.shape[0], size, {*leaves, *self._known})
        self.joint = joint
        self.inputs: list[Any] = []

    def leaf(self, variable: TensorVariable, axes: Axes, level: Level) -> TensorVariable:
        """Return the other inputs, or a part that is known there; nothing else has a value for each input."""
        if variable in self._known and not level:
            return self._known[variable]
        matrix = isinstance(variable, Constant | SharedVariable) and variable.ndim == 2
        if matrix and not self._known and axes == {0} and not level:
            if variable not in self.inputs:
                self.inputs.append(variable)
            # New inputs may lie between the old ones, if these are whole numbers.
            return self.joint if variable.type.dtype in discrete_dtypes else self.joint.astype(variable.type.dtype)
        raise NotPointwiseError(f"{_described(variable)} has a value for each of the {self.size} old inputs")


def _described(variable: TensorVariable) -> str:
    return f"an array of shape {variable.data.shape}" if isinstance(variable, Constant) else f"{variable.name!r}"


class NewPoints(Rewriter):
    """Graphs of new points, from graphs of the observations that depend on latent vectors.

    The latents are vectors, and matrices that have one in each row, of length `size`. In `points` each has a
    replacement with one element, or column, for each new point. `covariates` has replacements, by name, for data that
    have a value for each observation; `axes` and `levels` have the axis of each that runs over the points, and the
    selections between it and the observations.
    """

    def __init__(
        self,
        latents: list[TensorVariable],
        size: int,
        leaves: Iterable[TensorVariable],
        data: dict[TensorVariable, str],
    ) -> None:
        self.points = {f: TensorType("float64", (*f.type.shape[:-1], None))("latent_points") for f in latents}
        super().__init__(self.points[latents[0]].shape[-1], size, {*latents, *leaves})
        self.covariates: dict[str, TensorVariable] = {}
        self.axes: dict[str, int] = {}
        self.levels: dict[str, Level] = {}
        self.latent_levels: set[Level] = set()
        self._data = data
        self._dependent: dict[TensorVariable, bool] = {}

    def __call__(self, variable: TensorVariable, axis: int) -> TensorVariable:
        """Return the graph with new points along an axis instead of observations.

        Its value must be determined by the latent value and the covariates there.
        """
        self.selections |= {
            rules.selection_of(other)
            for other in ancestors([variable], blockers=self.leaves)
            if rules.is_selection(other) and self.depends(other.owner.inputs[0])
        }
        result = self.build(variable, frozenset([axis]), ())
        if len(self.latent_levels) > 1:
            raise NotPointwiseError(f"an observation depends on several elements of {self._names}")
        return result

    def depends(self, variable: TensorVariable) -> bool:
        """Return whether the values, not only the shape, depend on those of f."""
        if variable in self.points:
            return True
        if variable.owner is None or variable in self.leaves:
            return False
        if variable not in self._dependent:
            shape = isinstance(variable.owner.op, Shape | Shape_i)
            self._dependent[variable] = not shape and any(self.depends(other) for other in variable.owner.inputs)
        return self._dependent[variable]

    def leaf(self, variable: TensorVariable, axes: Axes, level: Level) -> TensorVariable:
        """Return the new values of f, or of data with a value for each observation."""
        if variable in self.points:
            return self._latent(variable, axes, level)
        if variable in self._data:
            return self._covariate(variable, axes, level)
        if variable in self.leaves:
            raise NotPointwiseError(f"the variable {variable.name!r} has a value of its own for each observation")
        if isinstance(variable, Constant):
            raise NotPointwiseError(
                f"an array of shape {variable.data.shape} has a value of its own for each observation: "
                "wrap it in pm.Data('NAME', ...), and pass at={'NAME': its values at the new points}"
            )
        raise NotPointwiseError(f"{variable} has a value of its own for each observation")

    @property
    def _names(self) -> str:
        return " and ".join(repr(f.name) for f in self.points)

    def _latent(self, variable: TensorVariable, axes: Axes, level: Level) -> TensorVariable:
        if not axes:
            raise NotPointwiseError(
                f"an observation depends on several elements of {variable.name!r}, or on a particular one"
            )
        if axes != {variable.ndim - 1}:
            raise NotPointwiseError(f"there is an observation for each row of {variable.name!r}, not for each column")
        self.latent_levels.add(level)
        return self.points[variable]

    def _covariate(self, variable: TensorVariable, axes: Axes, level: Level) -> TensorVariable:
        name = self._data[variable]
        known = self.covariates.get(name)
        if len(axes) > 1 or (known is not None and (axes, level) != (frozenset([self.axes[name]]), self.levels[name])):
            raise NotPointwiseError(f"{name!r} is used in several ways")
        if known is None:
            (axis,) = axes
            shape = tuple(None if i == axis else length for i, length in enumerate(variable.type.shape))
            self.covariates[name] = TensorType(variable.type.dtype, shape)(name)
            self.axes[name], self.levels[name] = axis, level
        return self.covariates[name]
