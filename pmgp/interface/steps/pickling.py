"""How a step method is pickled: without the PyMC model, whose random variables cannot be."""

from __future__ import annotations

from typing import Any

from pymc.step_methods.compound import BlockedStep

__all__ = ["PickledStep"]

# Where PyMC keeps what a step method was constructed with, for the copy: the model, and variables.
CONSTRUCTED_WITH = "_BlockedStep__newargs"


class PickledStep(BlockedStep):
    """A step method that is pickled with its compiled functions, and without what only its constructor needed.

    Subclasses name in `_caches` the attributes that are functions of the state, with what a copy has in their place.
    """

    def _caches(self) -> dict[str, Any]:
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        """Leave caches behind, and what the step was constructed with."""
        state = self.__dict__ | self._caches()
        state.pop(CONSTRUCTED_WITH, None)
        return state

    def __reduce__(self) -> tuple[Any, ...]:
        """Make the copy without PyMC's `__new__`, which looks for a model."""
        return object.__new__, (type(self),), self.__getstate__()
