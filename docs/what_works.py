"""The tables of docs/support as the page shows them: marks in narrow columns, and the words of refusals beneath."""

from __future__ import annotations

import csv
from pathlib import Path

__all__ = ["markdown"]

FOLDER = Path(__file__).parent / "support"
MARKS = {"yes": "✓"}
EVERY = "every step method"
SEPARATOR = "; "
"""Between the words of several refusals of one row."""


def markdown(name: str, folder: Path = FOLDER) -> str:
    """A table, and numbered notes with what is said where there is a dash."""
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        heading, *rows = list(csv.reader(file))
    heading, rows = _merged(heading, rows)
    notes = list(dict.fromkeys(note for row in rows for note in row[-1].split(SEPARATOR) if note))
    lines = [_line(heading[:-1]), _line(["---"] + [":-:"] * (len(heading) - 2))]
    for first, *cells, refusals in rows:
        numbers = [notes.index(note) + 1 for note in refusals.split(SEPARATOR) if note]
        mark = f" <sup>{', '.join(map(str, numbers))}</sup>" if numbers else ""
        lines.append(_line([first + mark, *(MARKS.get(cell, cell) for cell in cells)]))
    listed = [f"{number}. “{note}”" for number, note in enumerate(notes, start=1)]
    return "\n".join(["```{rst-class} pmgp-support", "```", "", *lines, "", *listed, ""])


def _merged(heading: list[str], rows: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Make one column of neighbors that say the same in every row."""
    columns = list(zip(*rows, strict=True))
    first = [k for k, column in enumerate(columns) if k == 0 or column != columns[k - 1] or k == len(columns) - 1]
    ends = [*first[1:], len(columns)]
    methods = len(columns) - 3  # but the name, what is predicted, and the words of refusals
    names = [
        EVERY if end - start == methods > 1 else ", ".join(heading[start:end])
        for start, end in zip(first, ends, strict=True)
    ]
    return names, [[row[k] for k in first] for row in rows]


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
