"""The compiled loops, loaded when they are first needed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any


@cache
def loop(name: str) -> Callable[..., Any]:
    """Return the compiled loop "module.function" of this folder's `compiled`."""
    module, function = name.split(".")
    found = getattr(import_module(f"pmgp.core.markov.compiled.{module}"), function).compiled
    return found
