"""Numbers that a user gives: whole ones, and arrays whose masks and dates conversion to floats would lose."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np


def is_whole(value: Any, least: int = 1) -> bool:
    """Return whether a value is a whole number, and not a truth value, of at least `least`."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= least)


def check_whole(least: int = 1, **values: Any) -> None:
    """Refuse values, by name, that are not whole numbers of at least `least`."""
    for name, value in values.items():
        if not is_whole(value, least):
            raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")


def check_tolerance(tolerance: float) -> None:
    """Refuse a tolerance that is not positive."""
    if not tolerance > 0.0:
        raise ValueError(f"tolerance must be positive, not {tolerance!r}")


def check_fraction(**values: float) -> None:
    """Refuse values, by name, that are not fractions."""
    for name, value in values.items():
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"{name} must be a fraction between 0 and 1, not {value!r}")


def numbers(what: str, values: Any) -> np.ndarray:
    """Return values as floats.

    Raises
    ------
    ValueError
        If some are masked, or if they are dates or text.
    """
    refuse_masked(what, values)
    refuse_dates(what, values)
    try:
        return np.asarray(without_na(values), dtype=float)
    except (TypeError, ValueError):
        refuse_text(what, values)
        raise


def finite_table(what: str, values: Any) -> np.ndarray:
    """Return a table (n, d) as floats.

    Raises
    ------
    ValueError
        If it has another shape, or values that :func:`numbers` refuses, NaN or infinity.
    """
    table = numbers(what, values)
    if table.ndim != 2:
        remedy = ": for one feature, give a table with one column" if table.ndim == 1 else ""
        raise ValueError(f"{what} must be a table (n, d), not an array of shape {table.shape}{remedy}")
    places = np.argwhere(~np.isfinite(table))
    if len(places):
        row, column = places[0]
        raise ValueError(
            f"{what} has NaN or infinite values in {len(np.unique(places[:, 0]))} rows; the first is row {row}, in "
            f"{_column_name(values, column)}: fill them in, or leave these rows out"
        )
    return table


def _column_name(values: Any, column: int) -> str:
    """Return the name of a column of a DataFrame, or its place."""
    columns = getattr(values, "columns", None)
    return f"column {column}, counted from 0" if columns is None else f"column {columns[column]!r}"


def without_na(values: Any) -> Any:
    """Return values of pandas with NaN in place of `pandas.NA`, which no array of floats can have."""
    if not hasattr(values, "isna") or not np.any(values.isna()):
        return values
    # As objects, since text may stand beside it.
    return values.to_numpy(dtype=object, na_value=np.nan)


def is_missing(values: np.ndarray) -> np.ndarray:
    """Return which elements are NaN or None."""
    if values.dtype.kind != "O":
        return np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, dtype=bool)
    marked = [value is None or (isinstance(value, float | np.floating) and np.isnan(value)) for value in values.flat]
    return np.array(marked, dtype=bool).reshape(values.shape)


def refuse_masked(what: str, values: Any) -> None:
    """Refuse masked values: without the mask, what it hides would count."""
    if np.ma.is_masked(values):
        places = np.argwhere(np.ma.getmaskarray(values))
        raise ValueError(
            f"{what} has masked values, {len(places)} of {np.size(values)}, the first in row {places[0][0]}: leave out "
            "these rows, or fill in the values"
        )


def refuse_dates(what: str, values: Any) -> None:
    """Refuse dates, which would count as nanoseconds, or days, since 1970."""
    array = np.asarray(values)
    if array.dtype.kind not in "mMO":
        return
    dates = [one for one in array.flat if isinstance(one, date | np.datetime64 | np.timedelta64)]
    if dates:
        raise ValueError(
            f"{what} has dates, the first {dates[0]}: give numbers in the model's unit of time, for example "
            "(dates - start) / np.timedelta64(1, 'D') for days"
        )


def refuse_text(what: str, values: Any) -> None:
    """Refuse text that is not a number, with its column if the values are a table."""
    array = np.asarray(values, dtype=object)
    for place in np.ndindex(array.shape):
        value = array[place]
        if isinstance(value, str) and not is_number(value):
            where = f"in {_column_name(values, place[1])}, " if array.ndim == 2 else ""
            raise ValueError(
                f"{what} has text {where}such as {str(value)!r} in row {place[0]}: code it as numbers, for example "
                "with pd.get_dummies, or read the file with pmgp.datasets.read_csv, which codes columns of text"
            )


def is_number(text: str) -> bool:
    """Return whether a text can be read as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
