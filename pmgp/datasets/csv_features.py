"""Feature columns as numbers: categories become columns of 0 and 1, dates become days since the first one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmgp.datasets.csv_columns import in_shell
from pmgp.datasets.csv_table import as_numbers, is_missing
from pmgp.datasets.dataset import Category, DatasetError, Dates

if TYPE_CHECKING:
    import pandas as pd

MAX_CATEGORIES = 20
N_SHOWN = 3
"""Number of offending cells or columns that an error message names."""
DATES = ("ISO8601", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y")
"""Formats of dates, in the notation of pandas."""
COMPACT = {8: "%Y%m%d", 6: "%Y%m"}
"""Formats of dates that look like numbers, by the number of digits; they are dates only in a column of times."""
WITH_MARKS = r"[$€£]?\s?[+\-−]?(\d{1,3}([.,'’\s]\d{3})+([.,]\d+)?|\d*[.,]?\d+)\s?[$€£%]?"
"""Numbers with decimal commas, with marks between thousands, with percent signs or with a currency."""
WHOLE, GROUPED = r"[+-]?\d+", r"[+-]?[1-9]\d{0,2}\.\d{3}"
"""Whole numbers, and those with a decimal point where a mark between thousands would be."""
COUNTING = "rows count from 0, without the header"


class Features(NamedTuple):
    """Encoded features.

    X has shape (n, d), ``names`` has length d; ``categories`` maps columns to values, ``dates`` has the columns of
    dates, and ``notices`` are remarks for a reader.
    """

    X: NDArray[np.float64]
    names: tuple[str, ...]
    categories: tuple[Category, ...]
    notices: tuple[str, ...]
    dates: dict[str, Dates]


def encode_features(cells: pd.DataFrame, fill: bool = False, numbered: bool = False) -> Features:
    """Turn columns of text cells into numbers.

    Columns of numbers stay as they are. Dates become days since the first of them. Any other column of text becomes a
    column of 0 and 1 for each of its values, or a single one for two values, since the other would be its mirror image.
    With `fill`, missing cells get the median of their column, or the most frequent value of a category. `numbered` says
    that the columns are times: they may number the rows on purpose, and 20240131 and 202401 are dates.
    """
    missing = is_missing(cells)
    numbers = cells.apply(as_numbers)
    notices, dates = [], {}
    for name in map(str, cells):
        present = cells[name][~missing[name]]
        if not len(present):
            continue
        compact = [form for length, form in COMPACT.items() if numbered and are_compact(present, length)]
        if compact or numbers[name].isna().all():
            read, formats = dates_of(present, compact or DATES)
            if read is None:
                continue
            first = read.min()
            numbers[name] = (read - first) / np.timedelta64(1, "D")
            dates[name] = Dates(first.to_pydatetime(), formats)
            notices.append(f"column {name!r} holds dates: the feature is days since {present.iloc[int(read.argmin())]}")
    text = numbers.isna() & ~missing
    if numbered and text.any(axis=None):
        raise DatasetError(_no_times(cells, text, numbers))
    if fill:
        cells, numbers, filled = _filled(cells, numbers, missing, text)
        notices += filled
    if numbered and missing.any(axis=None):
        raise DatasetError(
            f"column {cells.columns[0]!r} of times has no value in row {cells.index[missing.any(axis=1)][0]} "
            f"({COUNTING}): --missing drop leaves out such rows"
        )
    _check_cells(cells, numbers, text, missing & (not fill))
    encoded: list[NDArray[np.float64]] = []
    names: list[str] = []
    categories = []
    for name in map(str, cells):
        if text[name].any():
            values = _values(cells[name])
            coded = values[1:] if len(values) == 2 else values
            categories.append(Category(name, values, tuple(range(len(names), len(names) + len(coded)))))
            encoded += [(cells[name] == value).to_numpy().astype(np.float64) for value in coded]
            names += [f"{name}={value}" for value in coded]
        else:
            encoded.append(numbers[name].to_numpy(dtype=np.float64))
            names.append(name)
            notices += [] if numbered or name in dates else _remarks(cells[name], numbers[name])
    twice = [name for name in cells if names.count(str(name)) > 1]
    if twice:
        raise DatasetError(f"column {twice[0]!r} has the same name as a category's column of 0 and 1: rename it")
    return Features(np.column_stack(encoded), tuple(names), tuple(categories), tuple(notices), dates)


def _filled(
    cells: pd.DataFrame, numbers: pd.DataFrame, missing: pd.DataFrame, text: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Fill numbers with the median of their column and categories with the most frequent value, and say how many."""
    _refuse_empty(missing)
    frequent = {name: cells[name][~missing[name]].mode()[0] for name in map(str, cells) if text[name].any()}
    median = numbers.median()
    notices = [
        f"{missing[name].sum()} of {len(cells)} values of {name!r} are missing and replaced by "
        + (f"the most frequent one, {frequent[name]}" if name in frequent else f"the median, {median[name]:g}")
        + " (--missing median)"
        for name in map(str, cells)
        if missing[name].any()
    ]
    return cells.mask(missing).fillna(frequent), numbers.fillna(median), notices


def _refuse_empty(missing: pd.DataFrame) -> None:
    """Refuse a column without a value."""
    for name in missing.columns[missing.all()]:
        raise DatasetError(f"column {name!r} holds no value: leave it out with --drop {in_shell([str(name)])}")


def _check_cells(cells: pd.DataFrame, numbers: pd.DataFrame, text: pd.DataFrame, missing: pd.DataFrame) -> None:
    """Refuse columns that are neither numbers nor text throughout."""
    mixed = [name for name in map(str, cells) if text[name].any() and numbers[name].notna().any()]
    if mixed:
        raise DatasetError(_mixed(cells, text, mixed))
    _refuse_empty(missing)
    bad = missing.to_numpy() | np.isinf(numbers.to_numpy())
    if bad.any():
        raise DatasetError(_not_finite(cells, bad))


def _values(cells: pd.Series) -> tuple[str, ...]:
    """Return the different texts of a column, sorted, if they are few enough to be kinds."""
    values = sorted(cells.unique())
    if cells.str.fullmatch(WITH_MARKS).all():
        examples = ", ".join(repr(value) for value in cells.unique()[:N_SHOWN])
        raise DatasetError(
            f"column {cells.name!r} holds numbers such as {examples} that are not read: write numbers without marks "
            "between thousands, percent signs or currencies, and with decimal points. If columns are separated by "
            "semicolons or tabs, decimal commas are read, too, unless the column also has decimal points"
        )
    # Among few rows, texts that nearly all differ distinguish rows, not kinds of rows.
    if len(values) > min(MAX_CATEGORIES, max(2, len(cells) // 2)):
        examples = ", ".join(repr(value) for value in cells.unique()[:N_SHOWN])
        raise DatasetError(
            f"column {cells.name!r} holds {len(values)} different texts in {len(cells)} rows ({examples}, ...), too "
            f"many for categories (at most {MAX_CATEGORIES}, and half the rows). If it names the rows, leave it out "
            f"with --drop {in_shell([str(cells.name)])}; otherwise code it in numbers, or in fewer categories; "
            "dates are read as year-month-day"
        )
    return tuple(values)


def _remarks(cells: pd.Series, numbers: pd.Series) -> list[str]:
    """Return remarks on a column of numbers that may not be what it looks like."""
    name, drop = str(cells.name), f"leave it out with --drop {in_shell([str(cells.name)])}"
    remarks = []
    if _counts_rows(numbers):
        remarks.append(f"column {name!r} numbers the rows; if it is not a feature, {drop}")
    if len(numbers) > 1 and numbers.nunique() == 1:
        remarks.append(f"column {name!r} has the same value, {numbers.iloc[0]:g}, in all rows; {drop}")
    grouped, whole = cells.str.fullmatch(GROUPED), cells.str.fullmatch(WHOLE)
    if grouped.any() and whole.any() and (grouped | whole).all():
        example = cells[grouped].iloc[0]
        remarks.append(
            f"column {name!r} has whole numbers and {example}, which is read as {float(example):g}: if the point "
            "stands between thousands, leave it out"
        )
    return remarks


def _counts_rows(numbers: pd.Series) -> bool:
    """Return whether a column holds 0, ..., n - 1 or 1, ..., n in any order."""
    values = np.sort(numbers.to_numpy())
    return len(values) > 2 and any(np.array_equal(values, np.arange(start, start + len(values))) for start in (0, 1))


def _mixed(cells: pd.DataFrame, text: pd.DataFrame, mixed: list[str]) -> str:
    """Name the columns that hold numbers and text, with one cell of each."""
    examples = []
    for name in mixed[:N_SHOWN]:
        row = int(np.argmax(text[name].to_numpy()))
        examples.append(f"{name!r} (row {cells.index[row]}: {cells[name].iloc[row]!r})")
    rest = f" and {len(mixed) - N_SHOWN} more" if len(mixed) > N_SHOWN else ""
    return (
        f"these columns hold numbers, and text in other rows: {', '.join(examples)}{rest}; {COUNTING}. Correct or "
        "drop these rows; if they are categories, write all of them as text"
    )


def _not_finite(cells: pd.DataFrame, bad: NDArray[np.bool_]) -> str:
    """Name the first cells that are empty, NaN or infinite."""
    places = np.argwhere(bad)
    shown = ", ".join(f"row {cells.index[row]} column {cells.columns[k]!r}" for row, k in places[:N_SHOWN])
    rest = ", ..." if len(places) > N_SHOWN else ""
    number = "1 feature cell is" if len(places) == 1 else f"{len(places)} feature cells are"
    return (
        f"{number} empty, NaN or infinite: {shown}{rest} ({COUNTING}). --missing drop leaves out rows with empty "
        "cells, --missing median fills these; infinite cells have to be corrected"
    )


def are_compact(cells: pd.Series, length: int) -> bool:
    """Whether all cells begin with a year from 1900 to 2099 and have so many digits."""
    return bool(cells.str.strip().str.fullmatch(rf"(19|20)\d{{{length - 2}}}").all())


def _no_times(cells: pd.DataFrame, text: pd.DataFrame, numbers: pd.DataFrame) -> str:
    """Name the first cell of a column of times that is neither a number nor a date as most others are."""
    import pandas as pd

    name = str(text.columns[text.any()][0])
    wrong = cells[name][text[name]]
    readings = [pd.to_datetime(wrong, format=form, errors="coerce", utc=True).isna() for form in DATES]
    best = min(readings, key=lambda failed: int(failed.sum()))
    row = wrong.index[int(np.argmax(best))]
    others = ", unlike others" if numbers[name].notna().any() or not best.all() else ""
    return (
        f"column {name!r} of times holds {wrong[row]!r} in row {row} ({COUNTING}), which is neither a number nor a "
        f"date{others}: write year-month-day, as in 2024-12-31, or numbers such as days"
    )


def dates_of(cells: pd.Series, formats: Sequence[str]) -> tuple[pd.Series | None, tuple[str, ...]]:
    """Return the dates, or None if the cells are not all dates in one format, and all formats that they have.

    Dates whose day and month cannot be told apart are refused.
    """
    import pandas as pd

    readings = [pd.to_datetime(cells, format=form, errors="coerce", utc=True) for form in formats]
    fitting = tuple(form for form, reading in zip(formats, readings, strict=True) if reading.notna().all())
    readings = [reading for reading in readings if reading.notna().all()]
    if len(readings) > 1 and not readings[0].equals(readings[1]):
        raise DatasetError(
            f"column {cells.name!r} holds dates such as {cells.iloc[0]!r}, whose day and month cannot be told apart: "
            "write year-month-day, as in 2024-12-31, or a number of days"
        )
    return (readings[0] if readings else None), fitting
