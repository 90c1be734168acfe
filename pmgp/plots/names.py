"""Names in figures that come from the user's data."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

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


def name_columns(axes: Axes, places: NDArray[Any], names: Sequence[str], width: float) -> None:
    """Write names below their places on an axis of so many points; upright if a word is too long for its place.

    The figure grows by the height of the names, so that they take nothing away from the axes.
    """
    left, right = axes.get_xlim()
    gaps = np.concatenate([[right - left], np.diff(places), [right - left]]) * width / (right - left)
    rooms = np.minimum(gaps[:-1], gaps[1:])
    letters = (rooms / LETTER).astype(int) - 1
    words = [max(map(len, name.split()), default=0) for name in names]
    if (words <= letters).all():
        axes.set_xticks(places, [in_lines(name, max(room, 1)) for name, room in zip(names, letters, strict=True)])
    else:
        labels = [in_few_lines(name, int(room / LINE)) for name, room in zip(names, rooms, strict=True)]
        axes.set_xticks(places, labels, rotation=90)
    figure = axes.get_figure(root=True)
    assert figure is not None
    height = max(label.get_window_extent().height for label in axes.get_xticklabels()) / figure.dpi
    figure.set_figheight(figure.get_figheight() + height - LINE / 72)
