"""Names in figures that come from the user's data."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from numpy.typing import ArrayLike

LETTER, LINE = 6.5, 13.0
"""Width of a letter, and height of a line, of tick labels and legends; in points."""
SHORT = 20
"""Letters of a line of a long name, where there is room for several lines."""


def check_names(names: Sequence[Any], number: int) -> list[str]:
    """Return names as strings; refuse a number of them that is not the number of classes."""
    if len(names) != number:
        raise ValueError(f"there are {len(names)} names for {number} classes: {', '.join(map(str, names))}")
    return [plain(str(name)) for name in names]


def plain(text: str) -> str:
    """Return a text so that dollar signs in it begin no formula; it is the same if this has been done before."""
    return re.sub(r"(?<!\\)\$", r"\\$", text)


def in_lines(text: str, width: int) -> str:
    """Return a long text in lines of at most so many characters."""
    return plain("\n".join(textwrap.wrap(text, width)))


def in_few_lines(text: str, lines: int) -> str:
    """Return a text in short lines, or in longer ones if there would be too many of them."""
    width = SHORT
    while len(textwrap.wrap(text, width)) > max(lines, 1):
        width += 1
    return in_lines(text, width)


def name_columns(axes: Axes, places: ArrayLike, names: Sequence[str], room: float) -> None:
    """Write names below their places, upright if a word of them is wider than the room for each, which is in points.

    The figure grows by the height of the names, so that they take nothing away from the axes.
    """
    letters = int(room / LETTER) - 1
    if max(len(word) for name in names for word in name.split() or [""]) <= letters:
        axes.set_xticks(places, [in_lines(name, letters) for name in names])
    else:
        axes.set_xticks(places, [in_few_lines(name, int(room / LINE)) for name in names], rotation=90)
    figure = axes.get_figure(root=True)
    assert figure is not None
    height = max(label.get_window_extent().height for label in axes.get_xticklabels()) / figure.dpi
    figure.set_figheight(figure.get_figheight() + height - LINE / 72)
