"""Algorithms by name, or as objects that follow their family's protocol, from wherever they come."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["missing_methods", "resolve"]


def resolve(given: Any, names: Mapping[str, Callable[[], Any]], protocol: type, what: str) -> Any:
    """What was asked for.

    Parameters
    ----------
    given : str or object
        A name, or an object with the methods of the protocol.
    names : mapping
        The family's own table: a constructor for each name.
    protocol : Protocol
    what : str
        What it is called in errors.

    Raises
    ------
    ValueError
        For an unknown name, and an object that does not have all the methods.
    """
    known = ", ".join(sorted(names))
    if isinstance(given, str):
        if given not in names:
            raise ValueError(f"unknown {what} {given!r}; known are {known}")
        return names[given]()
    if isinstance(given, type):
        raise ValueError(f"{what} must be an instance, not the class itself: write {given.__name__}()")
    missing = missing_methods(given, protocol)
    if missing:
        methods = ", ".join(_methods(protocol))
        raise ValueError(
            f"{what} must be one of {known} or an object with the methods {methods}, not {given!r}, which "
            f"has no {' and no '.join(missing)}"
        )
    return given


def missing_methods(given: Any, protocol: type) -> list[str]:
    """What an object lacks of a protocol."""
    return [name for name in _methods(protocol) if not callable(getattr(given, name, None))]


def _methods(protocol: type) -> list[str]:
    """Those of the protocol, and of protocols that it extends."""
    found: dict[str, None] = {}
    for base in reversed(protocol.__mro__):
        if getattr(base, "_is_protocol", False):
            found |= dict.fromkeys(name for name, value in vars(base).items() if callable(value) and name[0] != "_")
    return list(found)
