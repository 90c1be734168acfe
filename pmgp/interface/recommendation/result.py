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
    """

    name: str
    calls: tuple[StepCall, ...]
    reason: str
    cost: str
    alternatives: tuple[str, ...]
    model: pm.Model = field(repr=False)

    @property
    def code(self) -> str:
        """The code to write for ``step=``."""
        calls = ", ".join(map(str, self.calls))
        return calls if len(self.calls) == 1 else f"[{calls}]"

    def steps(self) -> list[Any]:
        """Make the step methods, anew in every call, for ``pymc.sample(step=...)``."""
        return [call.method(model=self.model, **call.settings) for call in self.calls]

    def _lines(self) -> list[tuple[str, str]]:
        return [
            ("why", self.reason),
            ("cost", self.cost),
            *[("or", alternative) for alternative in self.alternatives],
        ]

    def __str__(self) -> str:
        """Return the answer as text."""
        lines = [f"{self.name}: pm.sample(step={self.code})", *[f"  {head}: {text}" for head, text in self._lines()]]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the answer as a table, for notebooks."""
        cells = [("step", f"<code>{escape(self.code)}</code>"), *[(head, escape(text)) for head, text in self._lines()]]
        rows = "".join(f"<tr><th>{head}</th><td style='text-align: left'>{cell}</td></tr>" for head, cell in cells)
        return f"<table><caption>{escape(self.name)}</caption><tbody>{rows}</tbody></table>"
