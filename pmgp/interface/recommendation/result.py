"""A recommendation: step methods, their arguments, and the reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import Any, NamedTuple

import pymc as pm

import pmgp


class StepCall(NamedTuple):
    """A step method and its arguments."""

    method: type
    settings: dict[str, Any]

    def __str__(self) -> str:
        """Return the call as a user would write it."""
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
        name = self.method.__name__
        return f"pmgp.{name}({settings})" if name in pmgp.__all__ else f"pmgp.steps.{name}({settings})"


@dataclass(frozen=True)
class Recommendation:
    """Step methods for a model, with the reason for them.

    Attributes
    ----------
    name : str
        Name of the scheme.
    calls : tuple of StepCall
        The step methods.
    reason : str
        Why they suit the model.
    cost : str
        O(n^3) operations in an iteration.
    alternatives : tuple of str
        Other methods to try, and when.
    model : pymc.Model
    weighted : bool
        Whether `pmgp.sample` begins with :func:`pmgp.importance`, and runs a chain of these step methods only if the
        weights cannot be trusted.
    """

    name: str
    calls: tuple[StepCall, ...]
    reason: str
    cost: str
    alternatives: tuple[str, ...]
    model: pm.Model = field(repr=False)
    weighted: bool = False

    @property
    def call(self) -> str:
        """The code that samples the model."""
        return "pmgp.importance()" if self.weighted else f"pm.sample(step={self.code})"

    @property
    def code(self) -> str:
        """The code to write for ``step=``."""
        calls = ", ".join(map(str, self.calls))
        return calls if len(self.calls) == 1 else f"[{calls}]"

    def steps(self) -> list[Any]:
        """Make new step methods in every call, for ``pymc.sample(step=...)``."""
        return [call.method(model=self.model, **call.settings) for call in self.calls]

    def _lines(self) -> list[tuple[str, str]]:
        return [("why", self.reason), ("cost", self.cost), *[("or", alternative) for alternative in self.alternatives]]

    def __str__(self) -> str:
        """Return the answer as text."""
        lines = [f"{self.name}: {self.call}", *[f"  {head}: {text}" for head, text in self._lines()]]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the answer as a table, for notebooks."""
        cells = [("code", f"<code>{escape(self.call)}</code>"), *[(head, escape(text)) for head, text in self._lines()]]
        rows = "".join(f"<tr><th>{head}</th><td style='text-align: left'>{cell}</td></tr>" for head, cell in cells)
        return f"<table><caption>{escape(self.name)}</caption><tbody>{rows}</tbody></table>"
