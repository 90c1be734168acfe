"""Several classes: a process for each and a softmax, by the pseudo-marginal chain, PyMC's NUTS and nutpie.

As `peers`, with budgets of seconds and one core each: the kernel is squared exponential with one length-scale and one
variance for all classes, and NUTS samples the whitened model.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from benchmarks import peers
from benchmarks.problems import CLASSES

__all__ = ["PROBLEMS", "TOOLS", "rows"]

PROBLEMS = CLASSES
TOOLS = ("pmgp", "NUTS", "nutpie")


def rows(
    names: Collection[str], budget: float, without_nuts: bool = False, known: Collection[tuple[str, str]] = ()
) -> Iterator[dict[str, Any]]:
    """A row for every problem and tool that is not known yet."""
    tools = [tool for tool in TOOLS if not (without_nuts and tool in peers.NUTS)]
    return peers.rows(names, tools, budget, known)
