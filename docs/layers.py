"""The picture of the layers on the page "Architecture", drawn from what each folder states that it may import.

The documentation's build draws it. To look at it alone: ``uv run --group docs python docs/layers.py picture.svg``.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

__all__ = ["BANDS", "bands", "draw", "needed", "rows", "statements"]

PACKAGE = Path(__file__).parents[1] / "pmgp"
STATEMENT = re.compile(r"May import: ([\w\s,.]+)\.\s*$")
BANDS = {"core": "#dcebf1", "interface": "#f6e3df", "": "#ececec"}
"""Colors of the bands from below: the numerical core, what imports PyMC, what surrounds a run."""
TITLES = {"core": "core: NumPy, SciPy and numba", "interface": "interface: PyMC", "": "around a run"}
BOX, ACROSS, DOWN = (1.6, 0.46), 2.9, 1.0
HALF = 4.7
"""Half of the width of a band."""
ARROW = {"arrowstyle": "-|>", "color": "0.45", "linewidth": 0.9, "shrinkA": 0, "shrinkB": 0}
WIDE = {"linewidth": 2.5, "mutation_scale": 20}


def statements() -> dict[str, list[str]]:
    """What each folder may import, by name; a folder below one that is no band is part of that one."""
    found = {}
    for path in sorted(PACKAGE.rglob("__init__.py")):
        name = ".".join(path.relative_to(PACKAGE).parts[:-1])
        stated = STATEMENT.search(ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "")
        if stated is not None and name not in BANDS and name.rpartition(".")[0] in BANDS:
            found[name] = [one.strip() for one in stated[1].split(",")]
    return found


def bands() -> dict[str, dict[str, list[str]]]:
    """By band, its folders with what they may import of their own band, and of others as a whole."""
    stated = statements()
    result: dict[str, dict[str, list[str]]] = {band: {} for band in BANDS}
    for name, others in stated.items():
        band = name.rpartition(".")[0]
        known = [_shown(other, band) for other in others]
        result[band][name] = list(dict.fromkeys(other for other in known if other in stated or other in BANDS))
    return result


def _shown(other: str, band: str) -> str:
    """The folder of the own band that a name belongs to, or another band."""
    first, *rest = other.split(".")
    if first == band and rest:
        return f"{first}.{rest[0]}"
    return first


def needed(folders: dict[str, list[str]]) -> dict[str, list[str]]:
    """The same without what follows from the rest, so that few arrows say all."""

    def reached(name: str) -> set[str]:
        return {below for other in folders.get(name, []) for below in {other, *reached(other)}}

    return {
        name: [one for one in others if not any(one in reached(other) for other in others)]
        for name, others in folders.items()
    }


def rows(folders: dict[str, list[str]]) -> list[list[str]]:
    """Folders in rows from below, each above all that it may import.

    Each stands as near to its users as it can, those without users just above what they need. In a row they are in the
    order of their users, and of two with the same users the one that reaches further down stands further out.
    """
    users = {name: [other for other in folders if name in folders[other]] for name in folders}
    levels = _levels(folders, users)
    reduced = needed(folders)
    place: dict[str, float] = {}
    found = []
    for level in range(max(levels.values()) + 1):
        names = [name for name in folders if levels[name] == level]
        names.sort(
            key=lambda name: (
                np.mean([place[user] for user in users[name]] or [0.0]),
                min((levels[other] for other in reduced[name] if other in folders), default=0),
            )
        )
        place |= dict(zip(names, _centered(len(names)), strict=True))
        found.append(names)
    return found[::-1]


def _levels(folders: dict[str, list[str]], users: dict[str, list[str]]) -> dict[str, int]:
    """Rows from above, numbered from zero."""
    levels: dict[str, int] = {}

    def find(name: str) -> int:
        if name not in levels:
            levels[name] = max((1 + find(user) for user in users[name]), default=0)
        return levels[name]

    deepest = max(map(find, folders))
    lowered = {
        name: min((levels[other] - 1 for other in folders[name] if other in folders), default=deepest)
        for name in folders
        if not users[name]
    }
    return levels | lowered


def _centered(number: int) -> list[float]:
    """Where the boxes of a row are, nearer to each other where there are many."""
    across = min(ACROSS, (2.0 * HALF - 1.25 * BOX[0]) / max(number - 1, 1))
    return [(position - 0.5 * (number - 1)) * across for position in range(number)]


def draw(path: Path) -> None:
    """Draw the bands above each other, and write the picture."""
    with plt.rc_context({"svg.fonttype": "path", "svg.hashsalt": "pmgp", "font.size": 9}):
        figure, axes = plt.subplots(figsize=(8.0, 8.8))
        bottom = 0.0
        for band, folders in bands().items():
            if any(other in BANDS for others in folders.values() for other in others):
                axes.annotate("", xy=(0.0, bottom - 0.6), xytext=(0.0, bottom), arrowprops=ARROW | WIDE)
            bottom = _draw_band(axes, band, folders, bottom) + 0.6
        axes.set(xlim=(-HALF, HALF), ylim=(0.0, bottom - 0.6))
        axes.axis("off")
        figure.savefig(path, bbox_inches="tight", dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
        plt.close(figure)


def _draw_band(axes: Axes, band: str, folders: dict[str, list[str]], bottom: float) -> float:
    """Draw a band from `bottom` on, and return where it ends."""
    levels = rows(folders)
    top = bottom + DOWN * len(levels) + 0.3
    axes.add_patch(plt.Rectangle((-HALF, bottom), 2.0 * HALF, top - bottom, color=BANDS[band], zorder=0))
    axes.text(0.1 - HALF, top - 0.1, TITLES[band], va="top", weight="bold", zorder=1)
    places = {
        name: (x, bottom + DOWN * (level + 0.5))
        for level, names in enumerate(levels)
        for name, x in zip(names, _centered(len(names)), strict=True)
    }
    for name, (x, y) in places.items():
        _draw_box(axes, name, x, y)
        for other in needed(folders)[name]:
            if other in places:
                end = (places[other][0], places[other][1] + BOX[1] / 2)
                axes.annotate("", xy=end, xytext=(x, y - BOX[1] / 2), arrowprops=ARROW, zorder=1)
    return top


def _draw_box(axes: Axes, name: str, x: float, y: float) -> None:
    corner = (x - BOX[0] / 2, y - BOX[1] / 2)
    axes.add_patch(
        FancyBboxPatch(corner, *BOX, boxstyle="round,pad=0.02", facecolor="white", edgecolor="0.3", zorder=2)
    )
    axes.text(x, y, name.rpartition(".")[2], ha="center", va="center", zorder=3)


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
