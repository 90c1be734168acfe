"""Names in figures that come from the user's data."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any


def check_names(names: Sequence[Any], number: int) -> list[str]:
    """Return names as strings; refuse a number of them that is not the number of classes."""
    if len(names) != number:
        raise ValueError(f"there are {len(names)} names for {number} classes: {', '.join(map(str, names))}")
    return [plain(str(name)) for name in names]


def plain(text: str) -> str:
    """Return a text so that dollar signs in it begin no formula."""
    return text.replace("$", r"\$")


def in_lines(text: str, width: int) -> str:
    """Return a long text in lines of at most so many characters."""
    return plain("\n".join(textwrap.wrap(text, width)))
