"""The cells of a CSV file as text, with column names that are known not to be a row of data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pmgp.datasets.dataset import DatasetError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MISSING", "as_numbers", "few", "read_table"]

MISSING = frozenset({"", "na", "nan"})
"""Cells that hold no value, in lower case."""

NO_NAMES = MISSING | {"?", "-", "none", "null"}
"""What stands for a missing value in a row of data: as the head of a column of numbers it is no sign of a header."""


def read_table(path: Path, header: bool | None = None) -> pd.DataFrame:
    """Read every cell as text, so that errors can quote what the file says.

    Parameters
    ----------
    path : Path
        The file.
    header : bool, optional
        Whether the first line holds the names of the columns, which are ``x1, x2, ...`` without it. By default it
        must look like names.

    Raises
    ------
    DatasetError
        If the file is absent, not a CSV file, or without rows or a second column; if two columns have one name; if
        ``header`` is not given and the first line looks like a row of data.
    """
    cells = _read_cells(path)
    if header is False:
        return cells.set_axis([f"x{index}" for index in range(1, cells.shape[1] + 1)], axis=1)
    names, rows = cells.iloc[0].tolist(), cells.iloc[1:].reset_index(drop=True)
    if rows.empty:
        raise DatasetError(f"{path} has no rows beneath its header")
    if header is None and _looks_like_data(names, rows):
        raise DatasetError(
            f"the first line of {path} looks like a row of data, not like column names: {few(names)}. With --no-header "
            "it is read as data, and the columns are called x1, x2, ...; with --header it is taken for names"
        )
    names = [name or f"column{index}" for index, name in enumerate(names, 1)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DatasetError(f"{path} has several columns of the name {few(twice)}; names must differ")
    return rows.set_axis(names, axis=1)


def _read_cells(path: Path) -> pd.DataFrame:
    import pandas as pd

    if not path.is_file():
        raise DatasetError(f"there is no file {path}")
    try:
        cells = pd.read_csv(
            path, header=None, dtype=str, keep_default_na=False, encoding="utf-8-sig", skipinitialspace=True
        )
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path} is not a CSV file: {str(error).strip()}") from error
    # A short line leaves cells that pandas fills with NaN whatever the options.
    cells = cells.fillna("").apply(lambda column: column.str.strip())
    if cells.shape[1] < 2:
        raise DatasetError(
            f"{path} has the single column {cells.iloc[0, 0]!r}; features and a label, separated by commas, are needed"
        )
    return cells


def as_numbers(cells: pd.Series) -> pd.Series:
    """Return the cells as floats, NaN where a cell is no number."""
    import pandas as pd

    return pd.to_numeric(cells, errors="coerce").astype(float)


def _looks_like_data(names: list[str], rows: pd.DataFrame) -> bool:
    """Whether nothing shows that the names are ones, and something that they are values."""
    numeric = [_is_numeric(rows[column]) for column in rows]
    if any(n and not _is_number(name) and name.lower() not in NO_NAMES for n, name in zip(numeric, names, strict=True)):
        return False
    if all(_is_number(name) for name in names):
        return True
    return any(
        _is_number(name) if n else name in set(rows[column]) - {""}
        for n, name, column in zip(numeric, names, rows, strict=True)
    )


def _is_numeric(cells: pd.Series) -> bool:
    present = cells[~cells.str.lower().isin(NO_NAMES)]
    return bool(len(present)) and bool(as_numbers(present).notna().all())


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def few(values: Sequence[str], number: int = 6) -> str:
    """Quote the first values of a list."""
    return ", ".join(map(repr, values[:number])) + (", ..." if len(values) > number else "")
