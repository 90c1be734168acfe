"""Read the cells of a CSV file as text, with column names that are certainly not a row of data."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pmgp.core.numerics.arrays import is_number
from pmgp.datasets.dataset import DatasetError

if TYPE_CHECKING:
    import pandas as pd

MISSING = frozenset({"", "?", "na", "n/a", "#n/a", "nan", "null"})
"""Cells without a value, in lower case."""

NO_NAMES = MISSING | {"-", "none"}
"""Marks of a missing value in a row of data: above a column of numbers they are no sign of a header."""

SEPARATORS = ("\t", ";", ",")
"""Tried in this order: a comma may be a decimal comma if another separator is found first."""

COMMA, POINT = r"([+-]?\d*),(\d+(?:[eE][+-]?\d+)?)", r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?"
"""Numbers with a decimal comma and with a decimal point."""

GROUPED = r"[+-]?[1-9]\d{0,2},\d{3}"
"""Numbers whose comma may stand between thousands."""


class Table(NamedTuple):
    """Cells as text, and notices about how the file was read."""

    cells: pd.DataFrame
    notices: tuple[str, ...]


def read_table(path: Path, header: bool | None = None, least: int = 2) -> Table:
    """Read every cell as text, so that errors can quote the file.

    Columns are separated by commas, semicolons or tabs. With semicolons or tabs, numbers may have decimal commas, which
    become points. Text is UTF-8, or Windows-1252 if it is not valid UTF-8, or UTF-16 if it starts with its mark. By
    default the first line must look like names; without a header, columns are called ``x1, x2, ...``. A table with
    fewer than `least` columns, 1 or 2, is refused.
    """
    cells, notices = _with_points(*_read_cells(path, least))
    if header is False:
        return Table(cells.set_axis([f"x{index}" for index in range(1, cells.shape[1] + 1)], axis=1), notices)
    names, rows = cells.iloc[0].tolist(), cells.iloc[1:].reset_index(drop=True)
    if rows.empty:
        raise DatasetError(f"{path} has no rows beneath its header")
    if header is None and _looks_like_data(names, rows):
        raise DatasetError(
            f"the first line of {path} looks like a row of data, not like column names: {few(names)}. With --no-header "
            "it is read as data, and the columns are called x1, x2, ...; with --header it is read as names"
        )
    empty = [not name and not rows[column].any() for name, column in zip(names, rows, strict=True)]
    if any(empty):
        # As after a separator at the end of each line.
        rows, names = rows.loc[:, np.invert(empty)], [name for name, left in zip(names, empty, strict=True) if not left]
    names = [name or f"column{index}" for index, name in enumerate(names, 1)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DatasetError(f"{path} has several columns with the name {few(twice)}; names must differ")
    return Table(rows.set_axis(names, axis=1), notices)


def _read_cells(path: Path, least: int) -> tuple[pd.DataFrame, str]:
    """Return the stripped cells, including the first line, and their separator."""
    import pandas as pd

    if not path.is_file():
        raise DatasetError(f"there is no file {path}")
    try:
        try:
            return _split(path, "utf-8-sig", least)
        except UnicodeDecodeError:
            with path.open("rb") as file:
                marked = file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
            return _split(path, "utf-16" if marked else "cp1252", least)
    except pd.errors.EmptyDataError:
        raise DatasetError(f"{path} is empty") from None
    except pd.errors.ParserError as error:
        raise DatasetError(
            f"{path} is not a CSV file: lines have more columns than the first one ({str(error).strip()}). The first "
            "line must have the names of all columns; leave out comments above it"
        ) from error
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path} is not a CSV file: {str(error).strip()}") from error


def _split(path: Path, encoding: str, least: int) -> tuple[pd.DataFrame, str]:
    """Separate the columns with the first separator that divides the first line and some other line.

    Where one column will do, and the first line has no separator, commas in others are decimal commas.
    """
    import pandas as pd

    failure = None
    for separator in SEPARATORS:
        try:
            cells = pd.read_csv(
                path,
                sep=separator,
                header=None,
                dtype=str,
                keep_default_na=False,
                encoding=encoding,
                skipinitialspace=True,
            )
        except pd.errors.ParserError as error:
            failure = error
            continue
        # Cells missing from a short line are NaN whatever the options.
        divided = cells.shape[1] > 1 and (len(cells) == 1 or cells.iloc[1:, 1].notna().any())
        # A quoted name may have a separator, which the last one of them does not divide.
        single = separator == SEPARATORS[-1] or not any(mark in str(cells.iloc[0, 0]) for mark in SEPARATORS)
        if divided or (least == 1 and single):
            return cells.fillna("").apply(lambda column: column.str.strip()), separator
    if failure is not None:
        raise failure
    raise DatasetError(
        f"{path} has the single column {cells.iloc[0, 0]!r}; it needs features and a label, separated by commas, "
        "semicolons or tabs"
    )


def _with_points(cells: pd.DataFrame, separator: str) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Replace decimal commas, unless commas separate the columns.

    Commas are left alone in a column that has decimal points too, and where all of them may stand between thousands
    while other columns have decimal points, or there are no other columns.
    """
    if separator == ",":
        return cells, ()
    points, commas, grouped = (
        cells.apply(lambda column, form=form: column.str.fullmatch(form)) for form in (POINT, COMMA, GROUPED)
    )
    thousands = (commas == grouped).all() & (cells.shape[1] == 1 or bool(points.any(axis=None)))
    decimal = cells.columns[commas.any() & ~points.any() & ~thousands]
    if decimal.empty:
        return cells, ()
    example = cells[decimal].to_numpy()[commas[decimal].to_numpy()][0]
    notice = f"commas in numbers are decimal commas: {example} is {example.replace(',', '.')}"
    cells = cells.copy()
    cells[decimal] = cells[decimal].apply(lambda column: column.str.replace(f"^{COMMA}$", r"\1.\2", regex=True))
    return cells, (notice,)


def check_missing(missing: str | None) -> None:
    """Refuse an unknown treatment of missing cells."""
    if missing not in (None, "drop", "median"):
        raise DatasetError(f"missing must be 'drop', 'median' or None, not {missing!r}")


def is_missing(cells: pd.DataFrame) -> pd.DataFrame:
    """Return which cells have no value."""
    return cells.apply(lambda column: column.str.lower().isin(MISSING))


def as_numbers(cells: pd.Series) -> pd.Series:
    """Return the cells as floats, NaN where a cell is not a number."""
    import pandas as pd

    return pd.to_numeric(cells, errors="coerce").astype(float)


def _looks_like_data(names: list[str], rows: pd.DataFrame) -> bool:
    """Return whether the names show no sign of being names, and some sign of being values."""
    numeric = [_is_numeric(rows[column]) for column in rows]
    if any(n and not is_number(name) and name.lower() not in NO_NAMES for n, name in zip(numeric, names, strict=True)):
        return False
    if all(is_number(name) for name in names):
        return True
    return any(
        is_number(name) if n else name in set(rows[column]) - {""}
        for n, name, column in zip(numeric, names, rows, strict=True)
    )


def _is_numeric(cells: pd.Series) -> bool:
    present = cells[~cells.str.lower().isin(NO_NAMES)]
    return bool(len(present)) and bool(as_numbers(present).notna().all())


def few(values: Sequence[str], number: int = 6) -> str:
    """Quote the first values of a list."""
    return ", ".join(map(repr, values[:number])) + (", ..." if len(values) > number else "")
