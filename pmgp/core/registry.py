"""Look up algorithms by name, or check that given objects follow their family's protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def resolve(given: Any, names: Mapping[str, Callable[[], Any]], protocol: type, what: str) -> Any:
    """Return an algorithm that is given by name or as an object.

    - `given`: a name, or an object with the methods and attributes of the protocol
    - `names`: the family's own table: a constructor for each name. Empty for a family whose members are given as
      objects only
    - `what`: the family's name in error messages

    Raises ValueError for an unknown name, and for an object that lacks methods or attributes of the protocol.
    """
    known = ", ".join(sorted(names))
    if names and isinstance(given, str):
        if given not in names:
            raise ValueError(f"unknown {what} {given!r}; known are {known}")
        return names[given]()
    if isinstance(given, type):
        raise ValueError(f"{what} must be an instance, not the class itself: write {given.__name__}()")
    missing = missing_members(given, protocol)
    if missing:
        methods, attributes = _members(protocol)
        wanted = f"the methods {', '.join(methods)}"
        wanted += f" and the attributes {', '.join(attributes)}" if attributes else ""
        raise ValueError(
            f"{what} must be {f'one of {known} or ' if names else ''}an object with {wanted}, not {given!r}, which "
            f"has no {' and no '.join(missing)}"
        )
    return given


def missing_members(given: Any, protocol: type) -> list[str]:
    """Return the names of the methods and attributes of a protocol that an object lacks."""
    methods, attributes = _members(protocol)
    missing = [name for name in methods if not callable(getattr(given, name, None))]
    return missing + [name for name in attributes if not hasattr(given, name)]


def _members(protocol: type) -> tuple[list[str], list[str]]:
    """List methods and attributes (annotations and properties) of a protocol and of the protocols that it extends."""
    methods: dict[str, None] = {}
    attributes: dict[str, None] = {}
    for base in reversed(protocol.__mro__):
        if getattr(base, "_is_protocol", False):
            public = {name: value for name, value in vars(base).items() if name[0] != "_"}
            methods |= dict.fromkeys(name for name, value in public.items() if callable(value))
            attributes |= dict.fromkeys(base.__annotations__)
            attributes |= dict.fromkeys(name for name, value in public.items() if isinstance(value, property))
    return list(methods), list(attributes)
