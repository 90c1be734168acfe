"""Finished chains and blocks as tables, kept in the repository with what made each line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from case_studies.annealing.problems import KERNELS, REAL
from case_studies.annealing.study import OURS, Block, Chain, Scale
from case_studies.tools.grid import Result
from case_studies.tools.table import Table, sorter

__all__ = ["FOLDER", "missing", "read", "rows", "tables"]

FOLDER = Path(__file__).parent / "results"
SPREAD_KEY = ["n", "start", "estimator", "draw"]
ORDER = {name: rank for rank, name in enumerate([*REAL, *KERNELS, "Laplace", "EP", "prior", "IS", "AIS", OURS])}


def tables(folder: Path, scale: str) -> dict[type, Table]:
    """Where chains go, a line each, and blocks, a line for each posterior draw."""
    return {
        Chain: Table(folder / f"{scale}_chains.csv", list(Chain._fields), sorter(list(Chain._fields), ORDER)),
        Block: Table(folder / f"{scale}_spread.csv", SPREAD_KEY, sorter(SPREAD_KEY, ORDER)),
    }


def settings(scale: Scale, kind: type) -> dict[str, Any]:
    """Columns that say how large the study was."""
    common = {"scale": scale.name, "seed": scale.seed}
    if kind is Block:
        return common | {"repetitions": scale.repetitions, "thetas": scale.thetas, "tune": scale.tune}
    return common | {"preliminary": scale.preliminary, "discarded": scale.discarded, "draws": scale.draws}


def rows(scale: Scale, unit: Chain | Block, result: Result) -> pd.DataFrame:
    """Lines of a finished chain (one) or block (one for each posterior draw)."""
    fields = settings(scale, type(unit))
    if isinstance(unit, Chain):
        return pd.DataFrame([unit._asdict() | fields | {"preliminary_acceptance": float("nan")} | result])
    place = {name: value for name, value in unit._asdict().items() if name != "first"}
    made = {name: value for name, value in result.items() if name != "rows"}
    return pd.DataFrame([place | {"draw": one["draw"]} | fields | one | made for one in result["rows"]])


def missing(scale: Scale, chosen: Iterable[Chain | Block], places: dict[type, Table]) -> list[Chain | Block]:
    """Those units that the tables do not have yet, or not with these settings; a block is known by its first line."""
    new: set[tuple] = set()
    keys = {unit: tuple(unit) for unit in chosen}
    for kind, place in places.items():
        new |= set(place.missing([keys[unit] for unit in keys if isinstance(unit, kind)], settings(scale, kind)))
    return [unit for unit, key in keys.items() if key in new]


def read(name: str) -> pd.DataFrame:
    """The committed lines of, for example, ``"paper_chains"``; or ``"article"``."""
    return pd.read_csv(FOLDER / f"{name}.csv")
