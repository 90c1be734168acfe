"""Finished cells as a table in the repository: a CSV file with one row per cell, to which runs add."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["Table", "merged", "sorter"]


@dataclass(frozen=True)
class Table:
    """A CSV file of results.

    Parameters
    ----------
    path : Path
        Made when it is needed.
    key : list of str
        Columns that name a cell.
    order : callable
        Sorts the rows.
    numbering : int
        How many of the last columns of the key number the rows of a cell, which a new run replaces together.
    """

    path: Path
    key: list[str]
    order: Callable[[pd.DataFrame], pd.DataFrame]
    numbering: int = 0

    def read(self) -> pd.DataFrame:
        """All rows."""
        return pd.read_csv(self.path)

    def merge(self, new: pd.DataFrame) -> None:
        """Put rows into the file, in place of those of the same cells; the other rows stay."""
        if self.path.is_file():
            cell = self.key[: len(self.key) - self.numbering]
            new = merged(self.read(), new, cell).drop_duplicates(self.key, keep="last")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".part")
        self.order(new).to_csv(draft, index=False, float_format="%.6g", lineterminator="\n")
        draft.replace(self.path)

    def missing(self, cells: Iterable[Any], settings: Mapping[str, Any]) -> list[Any]:
        """Those cells, tuples of the key, that the file does not have yet, or not with these settings.

        Parameters
        ----------
        cells : iterable of tuple
        settings : mapping
            Columns and values that a row must have to count.
        """
        if not self.path.is_file():
            return list(cells)
        old = self.read()
        same = np.all([old[name] == value for name, value in settings.items()], axis=0)
        there = set(old.loc[same, self.key].itertuples(index=False, name=None))
        return [cell for cell in cells if tuple(cell) not in there]


def sorter(key: list[str], ranks: Mapping[Any, Any]) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Return what sorts rows by the columns of a key, in which some values have a rank."""

    def order(frame: pd.DataFrame) -> pd.DataFrame:
        frame = frame.reset_index(drop=True)
        ranked = frame[key].apply(lambda column: column.map(lambda value: ranks.get(value, value)))
        return frame.loc[ranked.sort_values(key).index]

    return order


def merged(old: pd.DataFrame, new: pd.DataFrame, cell: list[str]) -> pd.DataFrame:
    """Put rows in the place of those of the same cells, which some columns name; the other old rows come first."""
    again = pd.MultiIndex.from_frame(old[cell]).isin(pd.MultiIndex.from_frame(new[cell]))
    return pd.concat([old[~again], new], ignore_index=True)
