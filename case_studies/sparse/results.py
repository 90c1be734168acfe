"""Finished units as tables and pictures, kept in the repository with what made each line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from case_studies.sparse.study import SCALES, Convergence, Fit, HeldOut, Scale, Unit
from case_studies.tools.grid import Result
from case_studies.tools.provenance import made_by
from case_studies.tools.table import Table

__all__ = ["FILES", "FOLDER", "best", "keep_picture", "missing", "picture", "read", "rows", "settings", "tables"]

FOLDER = Path(__file__).parent / "results"
FILES: dict[type, str] = {Fit: "fits", Convergence: "convergence", HeldOut: "held_out"}
# Columns that tell the lines of one unit apart, besides its fields.
WITHIN: dict[type, list[str]] = {Fit: [], Convergence: ["checkpoint"], HeldOut: ["method", "points"]}


def tables(folder: Path, scale: str) -> dict[type, Table]:
    """Where the lines of each kind of unit go."""
    keys: dict[type, list[str]] = {kind: [*kind._fields, *WITHIN[kind]] for kind in FILES}  # type: ignore[attr-defined]
    return {
        kind: Table(folder / f"{scale}_{FILES[kind]}.csv", key, lambda frame, key=key: frame.sort_values(key))
        for kind, key in keys.items()
    }


def settings(scale: Scale, unit: Unit) -> dict[str, Any]:
    """Columns that say how large the unit was."""
    columns = {"scale": scale.name} | scale.settings()
    if isinstance(unit, Convergence):
        cell = scale.cell(unit.problem, unit.kernel)
        inputs = {"inducing": cell.inducing, "points": cell.points}
        return columns | scale.of(unit.problem) | inputs | cell.size._asdict()
    if isinstance(unit, HeldOut):
        exact = {f"exact_{name}": value for name, value in scale.size(unit.problem, "exact")._asdict().items()}
        return columns | scale.of(unit.problem) | exact
    return columns | scale.of(unit.problem, unit.method)


def rows(scale: Scale, unit: Unit, result: Result) -> pd.DataFrame:
    """Lines of a finished unit."""
    lines = [unit._asdict() | one | settings(scale, unit) | made_by(result) for one in result["rows"]]
    return pd.DataFrame(lines)


def keep_picture(folder: Path, scale: Scale, unit: Unit, result: Result) -> None:
    """Write what a unit has for a figure."""
    if result.get("picture"):
        stored = settings(scale, unit) | made_by(result) | {"picture": result["picture"]}
        text = json.dumps(stored, separators=(",", ":"))
        (folder / f"{scale.name}_{unit.name}.json").write_text(text + "\n", encoding="utf-8")


def missing(scale: Scale, chosen: Iterable[Unit], places: dict[type, Table]) -> list[Unit]:
    """Those units of which the tables have no line yet, or none with these settings."""
    return [unit for unit in chosen if not _there(scale, unit, places[type(unit)])]


def _there(scale: Scale, unit: Unit, place: Table) -> bool:
    if not place.path.is_file():
        return False
    old, wanted = place.read(), unit._asdict() | settings(scale, unit)
    return bool(np.all([old[name] == value for name, value in wanted.items()], axis=0).any())


def read(name: str) -> pd.DataFrame:
    """The committed lines of, for example, ``"quick_fits"``; or ``"article"``."""
    return pd.read_csv(FOLDER / f"{name}.csv")


def best(kind: type) -> pd.DataFrame:
    """Lines of all scales, each unit's of the largest at which it has been run."""
    frames = [place.read() for scale in SCALES if (place := tables(FOLDER, scale)[kind]).path.is_file()]
    lines = pd.concat(frames, ignore_index=True)
    largest = lines.groupby(list(kind._fields))["scale"].transform("last")  # type: ignore[attr-defined]
    return lines[lines["scale"] == largest].sort_values(tables(FOLDER, "")[kind].key, ignore_index=True)


def picture(unit: Unit) -> dict[str, Any]:
    """Return the numbers behind a unit's picture, at the largest scale at which it has been run."""
    paths = [FOLDER / f"{scale}_{unit.name}.json" for scale in reversed(SCALES)]
    found = next(path for path in paths if path.is_file())
    stored = json.loads(found.read_text(encoding="utf-8"))["picture"]
    return {name: np.array(values) for name, values in stored.items()}
