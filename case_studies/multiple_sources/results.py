"""Finished units as tables, kept in the repository with what made each line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from case_studies.multiple_sources.scales import SCALES
from case_studies.multiple_sources.study import Fold, Sampler, Scale, Unit
from case_studies.tools.grid import Result
from case_studies.tools.provenance import made_by
from case_studies.tools.table import Table, merged, sorter

__all__ = ["FOLDER", "KEYS", "longest", "missing", "paths", "read", "rows", "tables"]

FOLDER = Path(__file__).parent / "results"
KEYS = {
    "folds": list(Fold._fields),
    "predictions": [*Fold._fields, "place"],
    "weights": [*Fold._fields, "class", "source"],
    "samplers": list(Sampler._fields),
    "rhat": [*Sampler._fields, "iterations"],
    "posterior": [*Sampler._fields, "weight"],
}
"""Tables by name, with the columns that name a line."""

OF_UNITS = {Fold: "folds", Sampler: "samplers"}
"""The tables with one line for each unit, which say what made the lines of the others."""


def tables(folder: Path, scale: str) -> dict[str, Table]:
    """Where lines go."""
    return {name: Table(folder / f"{scale}_{name}.csv", key, sorter(key, {})) for name, key in KEYS.items()}


def settings(scale: Scale, kind: type) -> dict[str, Any]:
    """Columns that say how large the study was."""
    common = {"scale": scale.name, "seed": scale.seed}
    if kind is Fold:
        return common | {"tune": scale.tune, "draws": scale.draws}
    return common | {"chains": scale.chains, "tune": scale.chain_tune, "draws": scale.chain_draws}


def rows(scale: Scale, unit: Unit, result: Result) -> dict[str, pd.DataFrame]:
    """Lines of a finished unit by table."""
    lists = {name: value for name, value in result.items() if isinstance(value, list)}
    numbers = {name: value for name, value in result.items() if isinstance(value, float)}
    line = unit._asdict() | settings(scale, type(unit)) | numbers | made_by(result)
    found = {OF_UNITS[type(unit)]: pd.DataFrame([line])}
    for name, lines in lists.items():
        if lines:
            found[name] = pd.DataFrame([unit._asdict() | one for one in lines])
    return found


def missing(scale: Scale, chosen: Iterable[Unit], places: dict[str, Table]) -> list[Unit]:
    """Those units that the tables do not have yet, or not with these settings."""
    chosen = list(chosen)
    new = []
    for kind, name in OF_UNITS.items():
        new += places[name].missing([unit for unit in chosen if isinstance(unit, kind)], settings(scale, kind))
    return [unit for unit in chosen if unit in new]


def read(name: str) -> pd.DataFrame:
    """The committed lines of, for example, ``"quick_folds"``; or ``"article"``."""
    return pd.read_csv(FOLDER / f"{name}.csv", dtype={"class": str})


def longest(name: str) -> pd.DataFrame:
    """The committed lines of, for example, ``"folds"``: of each unit those of the largest scale at which it was run."""
    unit = [field for field in KEYS[name] if field in {*Fold._fields, *Sampler._fields}]
    first, *others = (read(path.stem) for path in paths(name))
    for larger in others:
        first = merged(first, larger, unit)
    return first


def paths(name: str) -> list[Path]:
    """The committed tables of that name, the smaller scale first."""
    return [path for scale in SCALES if (path := FOLDER / f"{scale}_{name}.csv").exists()]
