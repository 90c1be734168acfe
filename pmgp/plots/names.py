"""Names of classes and categories in figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def check_names(names: Sequence[Any], number: int) -> list[str]:
    """Return names as strings; refuse a number of them that is not the number of classes."""
    if len(names) != number:
        raise ValueError(f"there are {len(names)} names for {number} classes: {', '.join(map(str, names))}")
    return [str(name) for name in names]
