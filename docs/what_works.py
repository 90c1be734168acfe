"""The tables of docs/support as the page shows them: marks in narrow columns, and the words of refusals beneath."""

from __future__ import annotations

import csv
from pathlib import Path

__all__ = ["markdown"]

FOLDER = Path(__file__).parent / "support"
MARKS = {"yes": "✓"}
SEPARATOR = "; "
"""Between the words of several refusals of one row."""


def markdown(name: str, folder: Path = FOLDER) -> str:
    """A table, and numbered notes with what is said where there is a dash."""
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        heading, *rows = list(csv.reader(file))
    notes = list(dict.fromkeys(note for row in rows for note in row[-1].split(SEPARATOR) if note))
    lines = [_line(heading[:-1]), _line(["---"] + [":-:"] * (len(heading) - 2))]
    for first, *cells, refusals in rows:
        numbers = [notes.index(note) + 1 for note in refusals.split(SEPARATOR) if note]
        mark = f" <sup>{', '.join(map(str, numbers))}</sup>" if numbers else ""
        lines.append(_line([first + mark, *(MARKS.get(cell, cell) for cell in cells)]))
    listed = [f"{number}. “{note}”" for number, note in enumerate(notes, start=1)]
    return "\n".join(["```{rst-class} pmgp-support", "```", "", *lines, "", *listed, ""])


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
