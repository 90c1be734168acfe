"""The classes that a stored sampling state may hold: they register themselves when they are defined.

Stored states name classes. A name in a file is looked up here; nothing is imported or called for it.
"""

from __future__ import annotations

from dataclasses import is_dataclass

_registered: dict[str, type] = {}


def storable[T: type](kind: T) -> T:
    """Register a class, so that states with instances of it can be stored and resumed.

    Decorate the class of the state that your own transition learns, and the transition itself if it is a dataclass with
    settings. Instances are restored with their attributes, without running a constructor. To resume a run, import the
    module that defines the class.

    Parameters
    ----------
    kind : type
        A dataclass or a named tuple, whose fields are plain values, arrays, containers of these, or registered
        themselves.

    Returns
    -------
    type
        The same class.

    Raises
    ------
    TypeError
        If it is neither a dataclass nor a named tuple, or a dataclass with slots.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> import pmgp
    >>> @pmgp.steps.storable
    ... class Width(NamedTuple):
    ...     value: float
    """
    named_tuple = issubclass(kind, tuple) and hasattr(kind, "_fields")
    if not (named_tuple or is_dataclass(kind)) or "__slots__" in (() if named_tuple else vars(kind)):
        raise TypeError(f"{kind.__name__} cannot be stored: make it a dataclass without slots, or a NamedTuple")
    _registered[qualified_name(kind)] = kind
    return kind


def storable_types() -> dict[str, type]:
    """Return all registered classes under their qualified names."""
    return dict(_registered)


def qualified_name(kind: type) -> str:
    """Return the name of a class with its module."""
    return f"{kind.__module__}.{kind.__qualname__}"
