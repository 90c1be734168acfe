"""Finished units as tables, kept in the repository with what made each line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from case_studies.orthants.methods import METHODS
from case_studies.orthants.study import Bias, Block, Extinction, Scale, Setting, Unit
from case_studies.tools.grid import Result
from case_studies.tools.table import Table, sorter

__all__ = ["FILES", "FOLDER", "missing", "read", "rows", "tables"]

FOLDER = Path(__file__).parent / "results"
FILES: dict[type, str] = {Block: "runs", Setting: "classes", Bias: "bias", Extinction: "extinction"}
# Columns that tell the lines of one unit apart, besides its fields.
WITHIN: dict[type, list[str]] = {Block: ["run"], Setting: ["method"], Bias: [], Extinction: []}
# Settings of the scale on which they depend.
SIZES: dict[type, list[str]] = {
    Block: ["share", "work"],
    Setting: ["few", "many", "longer"],
    Bias: ["repetitions"],
    Extinction: ["share", "most"],
}
ORDER = {name: rank for rank, name in enumerate([*METHODS, "reference"])}


def tables(folder: Path, scale: str) -> dict[type, Table]:
    """Where the lines of each kind of unit go."""
    keys: dict[type, list[str]] = {kind: [*kind._fields, *WITHIN[kind]] for kind in (Block, Setting, Bias, Extinction)}
    return {kind: Table(folder / f"{scale}_{FILES[kind]}.csv", key, sorter(key, ORDER)) for kind, key in keys.items()}


def settings(scale: Scale, kind: type) -> dict[str, Any]:
    """Columns that say how large the study was."""
    return {"scale": scale.name, "seed": scale.seed} | {name: getattr(scale, name) for name in SIZES[kind]}


def rows(scale: Scale, unit: Unit, result: Result) -> pd.DataFrame:
    """Lines of a finished unit."""
    made = {name: value for name, value in result.items() if name != "rows"}
    lines = [unit._asdict() | _with_error(one) | settings(scale, type(unit)) | made for one in result["rows"]]
    return pd.DataFrame(lines)


def _with_error(row: dict[str, Any]) -> dict[str, Any]:
    """With the error of log p(y|theta), of which the six digits of the two values in a file would leave little."""
    known = next((row[name] for name in ("truth", "reference") if name in row), None)
    return row if known is None else row | {"log_error": row["log_evidence"] - known}


def missing(scale: Scale, chosen: Iterable[Unit], places: dict[type, Table]) -> list[Unit]:
    """Those units of which the tables have no line yet, or none with these settings."""
    there: set[tuple[type, tuple]] = set()
    for kind, place in places.items():
        if place.path.is_file():
            old = place.read()
            same = np.all([old[name] == value for name, value in settings(scale, kind).items()], axis=0)
            fields = list(kind._fields)  # type: ignore[attr-defined]
            there |= {(kind, row) for row in old.loc[same, fields].itertuples(index=False, name=None)}
    return [unit for unit in chosen if (type(unit), tuple(unit)) not in there]


def read(name: str) -> pd.DataFrame:
    """The committed lines of, for example, ``"paper_runs"``; or ``"article"``."""
    return pd.read_csv(FOLDER / f"{name}.csv")
