"""The residual of a solver while it runs, for displays of progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class Residual(NamedTuple):
    """The largest residual of any right-hand side after some iterations, in the solver's units, and its tolerance."""

    iterations: int
    norm: float
    tolerance: float

    def __str__(self) -> str:
        """Return the residual and the tolerance as text that is short enough for a line of progress."""
        return f"residual {self.norm:.2g} (to {self.tolerance:.2g})"


Watcher = Callable[[Residual], None]

_watchers: ContextVar[tuple[Watcher, ...]] = ContextVar("watchers", default=())


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Call a function after each iteration of any solver within a block of code."""
    before = _watchers.get()
    _watchers.set((*before, watcher))
    try:
        yield
    finally:
        _watchers.set(before)


def tell(iterations: int, norm: float, tolerance: float) -> None:
    """Report the residual to the watchers."""
    for watcher in _watchers.get():
        watcher(Residual(iterations, float(norm), tolerance))
