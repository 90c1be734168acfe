"""Finished cells in the repository, with what made them: their last lines, their curves, functions and bins."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from case_studies.deep.study import Cell, Scale
from case_studies.tools.grid import Result
from case_studies.tools.provenance import made_by
from case_studies.tools.table import Table

__all__ = ["FOLDER", "bins", "curves", "functions", "keep", "lines", "missing"]

FOLDER = Path(__file__).parent / "results"
KEY = list(Cell._fields)


def _table(path: Path, *more: str) -> Table:
    key = [*KEY, *more]
    return Table(path, key, lambda frame: frame.sort_values(key), len(more))


def lines(folder: Path, scale: str) -> Table:
    """Where the last lines of cells go."""
    return _table(folder / f"{scale}.csv")


def curves(folder: Path, scale: str) -> Table:
    """Where curves go, a line for each block of steps."""
    return _table(folder / f"{scale}_curves.csv", "step")


def bins(folder: Path, scale: str) -> Table:
    """Where bins of probabilities go."""
    return _table(folder / f"{scale}_calibration.csv", "way", "bin")


def missing(folder: Path, scale: Scale, chosen: Iterable[Cell]) -> list[Cell]:
    """Return those cells of which the table has no line yet, or none with these settings."""
    table = lines(folder, scale.name)
    return [cell for cell in chosen if table.missing([cell], scale.settings(cell))]


def last_line(scale: Scale, cell: Cell, found: Result) -> dict[str, Any]:
    """Return the line of a cell: its scores, and processor seconds.

    `error` and `nll` are those after the last block, `seconds` those of training, with compilation, and `per_thousand`
    those of a thousand steps, which leave out the first block, where functions are compiled.
    """
    names = ("n", "d", "rows", "error", "nll", "seconds", "per_thousand")
    values: dict[str, Any] = dict.fromkeys(names, np.nan) | {name: found[name] for name in names if name in found}
    if "curve" in found:
        curve = found["curve"]
        blocks, steps = np.diff([one["seconds"] for one in curve]), np.diff([one["step"] for one in curve])
        values |= {name: curve[-1][name] for name in ("error", "nll", "seconds")}
        values["per_thousand"] = 1000.0 * float(np.median(blocks / steps)) if len(curve) > 1 else np.nan
    values |= found.get("scores", {}) | {name: found[part][name] for part in ("functions",) if part in found
                                         for name in ("seconds",)}  # fmt: skip
    return {**cell._asdict(), **values, **scale.settings(cell), **made_by(found)}


def keep(folder: Path, scale: Scale, cell: Cell, found: Result) -> dict[str, Any]:
    """Add a finished cell to the tables, and return its line."""
    for part, table in (("curve", curves), ("bins", bins)):
        if part in found:
            frame = pd.DataFrame([cell._asdict() | one for one in found[part]])
            table(folder, scale.name).merge(frame)
    if "functions" in found:
        text = json.dumps(found["functions"], separators=(",", ":"))
        (folder / f"{scale.name}_{cell.name}.json").write_text(text + "\n", encoding="utf-8")
    line = last_line(scale, cell, found)
    lines(folder, scale.name).merge(pd.DataFrame([line]))
    return line


def functions(scale: str, cell: Cell) -> dict[str, Any]:
    """Return the stored draws of figure 8: ``x`` of the grid, ``hidden`` and ``f`` there, a row for each draw."""
    stored = json.loads((FOLDER / f"{scale}_{cell.name}.json").read_text(encoding="utf-8"))
    return {name: np.array(value) for name, value in stored.items()}
