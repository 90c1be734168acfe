"""Checks of the names that operators are configured by."""

from __future__ import annotations

__all__ = ["check_variant"]


def check_variant(given: str, known: tuple[str, ...], what: str = "variant") -> None:
    """Refuse a name that does not exist."""
    if given not in known:
        raise ValueError(f"{what} must be one of {', '.join(known)}, not {given!r}")
