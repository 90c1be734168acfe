"""Checks of the names that configure operators."""

from __future__ import annotations


def check_name(given: str, known: tuple[str, ...], argument: str) -> None:
    """Refuse an unknown name."""
    if given not in known:
        raise ValueError(f"{argument} must be one of {', '.join(known)}, not {given!r}")
