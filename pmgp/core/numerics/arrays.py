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
        If some are masked, or if they are dates.
    """
    refuse_masked(what, values)
    refuse_dates(what, values)
    return np.asarray(without_na(values), dtype=float)


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
