"""Checks of the names that configure operators."""

from __future__ import annotations

__all__ = ["check_name"]


def check_name(given: str, known: tuple[str, ...], argument: str) -> None:
    """Refuse a name that does not exist.

    Raises
    ------
    ValueError
        Naming the argument and the names that it takes.
    """
    if given not in known:
        raise ValueError(f"{argument} must be one of {', '.join(known)}, not {given!r}")
