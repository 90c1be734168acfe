"""Registers for the results of calls, and the memory that these results take.

The processor's cache holds few arrays, small arrays take longer to make than to fill, and large ones take their memory
from the system. So a result overwrites an array that is no longer needed wherever that can be known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

# A function, and the variables that it takes.
Call = tuple[Callable[..., Any], list[Any]]

# These are not given an output array: it could be taken for a third value to compare.
NOT_IN_PLACE = (np.maximum, np.minimum)
# From this number of elements, making an array costs more than checking whether that is necessary.
LARGE = 10_000


@dataclass(frozen=True)
class NewArray:
    """A call whose result shares no memory with its arguments, or overwrites one of them.

    The function takes the position of the argument that it may overwrite, or None, followed by the arguments. `places`
    are the positions of the arguments that may be overwritten, which have the result's shape.
    """

    function: Callable[..., Any]
    places: tuple[int, ...] = ()

    def __call__(self, *values: Any) -> Any:
        """Return the result as a new array."""
        return self.function(None, *values)

    def overwriting(self, taken: list[Any], spent: list[Any]) -> tuple[Callable[..., Any], Any] | None:
        """Return the function that writes its result over one of the spent arguments, and that argument."""
        for place in self.places:
            if taken[place] in spent and taken.count(taken[place]) == 1:
                return partial(self.function, place), taken[place]
        return None


class _Retaining:
    """A call that writes a large result over its previous one, which is no longer needed."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._memory: np.ndarray | None = None

    def __call__(self, *values: np.ndarray) -> np.ndarray:
        if self._memory is not None and self._memory.shape == self._shape(*values):
            return self._function(*values, out=self._memory)
        result = self._function(*values)
        if result.size >= LARGE:
            self._memory = result
        return result

    def _shape(self, *values: np.ndarray) -> tuple[int, ...]:
        shapes = [np.shape(value) for value in values]
        return (shapes[0][0], shapes[1][-1]) if self._function is np.dot else np.broadcast_shapes(*shapes)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the memory behind when the call is pickled."""
        return self.__dict__ | {"_memory": None}


def in_registers(
    calls: list[Call], results: list[Any], known: dict[Any, int], outputs: set[Any], retain: bool = False
) -> tuple[list[tuple[Callable[..., Any], list[int], int]], int]:
    """Return the calls with registers in place of variables, and the number of registers besides those given.

    A register is used again once its value has been taken for the last time, and overwritten if the function can do
    that. The results of the calls are added to the registers `known`; `outputs` are needed after the last call. With
    `retain`, calls that make large matrices keep their memory for the next time.
    """
    first, kept = len(known), set(known) | outputs
    last = {source: step for step, (_, taken) in enumerate(calls) for source in taken}
    own = _own_memory(calls, results)
    begun: dict[Any, int] = {}
    free: list[int] = []
    number = 0
    placed = []
    for step, ((function, taken), result) in enumerate(zip(calls, results, strict=True)):
        sources = [known[source] for source in taken]
        dead = [source for source in dict.fromkeys(taken) if last[source] == step and source not in kept]
        free += [known[source] for source in dead]
        spent = [source for source in dead if source in own and _alike(source, result)]
        function, replaced, more = _in_place(function, taken, spent)
        if replaced is not None:
            known[result] = known[replaced]
            free.remove(known[result])
            sources += [known[result]] * more
        else:
            if not free:
                free.append(first + number)
                number += 1
            known[result] = free.pop()
        begun[result] = step if replaced is None else begun[replaced]
        placed.append((function, sources, known[result]))
    if retain:
        for step in _inner_matrices(calls, results, begun, outputs):
            function, sources, target = placed[step]
            placed[step] = (_Retaining(function), sources, target)
    return placed, number


def _in_place(function: Callable[..., Any], taken: list[Any], spent: list[Any]) -> tuple[Callable[..., Any], Any, int]:
    """Return the function that overwrites a spent argument, that argument, and 1 to append it as output, or else 0."""
    if isinstance(function, NewArray):
        found = function.overwriting(taken, spent)
        return (*found, 0) if found else (function, None, 0)
    if spent and isinstance(function, np.ufunc) and function not in NOT_IN_PLACE:
        return function, spent[0], 1
    return function, None, 0


def _own_memory(calls: list[Call], results: list[Any]) -> set[Any]:
    """Return the results that share memory with no other: only calls that make new arrays make and take them."""
    new = [_makes_new(function) for function, _ in calls]
    made = {result for result, own in zip(results, new, strict=True) if own}
    return made - {source for (_, taken), own in zip(calls, new, strict=True) if not own for source in taken}


def _makes_new(function: Callable[..., Any]) -> bool:
    """Return whether the result of a call is never a view of an argument."""
    if isinstance(function, np.ufunc | NewArray) or function in (np.where, np.dot):
        return True
    return isinstance(function, partial) and isinstance(getattr(function.func, "__self__", None), np.ufunc)


def _inner_matrices(calls: list[Call], results: list[Any], begun: dict[Any, int], outputs: set[Any]) -> list[int]:
    """Return the steps that make matrices which the outputs do not contain, neither directly nor through a view."""
    seen = set(outputs)
    for (function, taken), result in reversed(list(zip(calls, results, strict=True))):
        if result in seen and not _makes_new(function):
            seen.update(taken)
    needed = {begun[result] for result in results if result in seen}
    makers = {step for step, (function, _) in enumerate(calls) if isinstance(function, np.ufunc) or function is np.dot}
    matrices = {begun[result] for result in results if result.type.ndim == 2}
    return sorted((makers & matrices) - needed)


def _alike(first: Any, second: Any) -> bool:
    """Return whether variables are arrays with the same type of elements and the same axes."""
    types = first.type, second.type
    return types[0].ndim > 0 and len({(kind.dtype, kind.broadcastable) for kind in types}) == 1
