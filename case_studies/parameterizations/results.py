"""Finished cells as one table per scale, kept in the repository: one row per cell, with what made it."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from case_studies.parameterizations.problems import REAL
from case_studies.parameterizations.study import OPERATORS, PROPOSALS, SCHEMES, SIMULATED, Cell
from case_studies.tools import simulation
from case_studies.tools.table import Table

__all__ = ["FOLDER", "read", "table_of"]

FOLDER = Path(__file__).parent / "results"


def _sorted(frame: pd.DataFrame) -> pd.DataFrame:
    """As the article has them."""
    names = [SIMULATED, *REAL, *simulation.MODELS, *OPERATORS, *SCHEMES, *PROPOSALS]
    order = {name: rank for rank, name in enumerate(names)}
    ranks = frame[list(Cell._fields)].apply(lambda column: column.map(lambda value: order.get(value, value)))
    return frame.loc[ranks.sort_values(list(Cell._fields)).index]


def table_of(path: Path) -> Table:
    """The table in a file."""
    return Table(path, list(Cell._fields), lambda frame: _sorted(frame.reset_index(drop=True)))


def read(name: str) -> pd.DataFrame:
    """The committed rows of a scale, or ``"article"``."""
    return pd.read_csv(FOLDER / f"{name}.csv")
