"""A label column as numbers: classes with or without an order, counts, or measurements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmgp.datasets.csv_columns import in_shell, nearest
from pmgp.datasets.csv_table import as_numbers, few, is_missing
from pmgp.datasets.dataset import DatasetError

if TYPE_CHECKING:
    import pandas as pd

N_SHOWN = 3
"""Number of offending rows that an error message names."""
MAX_ORDERED = 12
"""More ordered categories than this are probably measurements."""
MAX_CLASSES = 30
"""A column with more classes than this is probably a name or a measurement; each class costs a process."""


class Labels(NamedTuple):
    """Labels (n,): 0, 1, ... for the ``classes`` in order, or counts or measurements if ``classes`` is None."""

    y: NDArray[np.int64] | NDArray[np.float64]
    classes: tuple[str, ...] | None
    notices: tuple[str, ...] = ()


def binary_labels(cells: pd.Series) -> Labels:
    """Return 0 and 1 for the two values of a column, in sorted order."""
    values = _values(cells)
    if len(values) != 2:
        raise DatasetError(
            f"label column {cells.name!r} must hold two different values, but it holds {len(values)}: {few(values)}. "
            + (_spellings(values) or _advice(cells, values))
        )
    return _coded(cells, values)


def count_labels(cells: pd.Series) -> Labels:
    """Return the counts of a column."""
    values = _values(cells)
    numbers = as_numbers(cells).to_numpy()
    with np.errstate(invalid="ignore"):
        # Beyond 2^53 a float is not an exact count.
        wrong = ~((numbers >= 0) & (numbers == np.floor(numbers)) & (numbers < 2**53))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DatasetError(
            f"--likelihood poisson is for counts 0, 1, 2, ..., but label column {cells.name!r} holds "
            f"{cells.iloc[row]!r} in row {cells.index[row]} (counted from 0, without the header). "
            + _advice(cells, values)
        )
    if not numbers.any():
        raise DatasetError(f"all counts of label column {cells.name!r} are 0, so there is nothing to learn")
    return Labels(numbers.astype(np.int64), None)


def ordered_labels(cells: pd.Series, order: Sequence[str] | None = None) -> Labels:
    """Return 0, 1, ... for the values of a column in their `order`, lowest first, which may have others besides.

    By default numbers are in ascending and texts in alphabetical order.
    """
    values = _values(cells)
    column = f"label column {cells.name!r}"
    notices: tuple[str, ...] = ()
    if order is not None:
        notices = _check_order(order, values, column)
    levels = values if order is None else order
    if len(levels) < 3 or len(values) < 2:
        raise DatasetError(
            f"--likelihood ordinal is for three or more ordered categories, but {column} holds {len(values)}: "
            f"{few(values)}. " + _advice(cells, values)
        )
    if len(levels) > MAX_ORDERED:
        raise DatasetError(
            f"{column} holds {len(values)} different values ({few(values)}), more than the {MAX_ORDERED} ordered "
            "categories that --likelihood ordinal takes. " + _advice(cells, values)
            if order is None
            else f"--order names {len(levels)} categories, and --likelihood ordinal takes at most {MAX_ORDERED}"
        )
    if order is None and not _are_numbers(cells):
        notices = (
            f"the categories are in alphabetical order; for another order use --order {in_shell(values)}; if they "
            "have no order, use --likelihood multinomial",
        )
    return _coded(cells, levels, notices)


def class_labels(cells: pd.Series) -> Labels:
    """Return 0, 1, ... for the values of a column in sorted order, which has no meaning."""
    values = _values(cells)
    column = f"label column {cells.name!r}"
    if len(values) < 3:
        raise DatasetError(
            f"--likelihood multinomial is for three or more classes, but {column} holds {len(values)}: {few(values)}. "
            + _advice(cells, values)
        )
    numbers = as_numbers(cells).to_numpy()
    measured = np.isfinite(numbers).all() and (numbers != np.floor(numbers)).any()
    if len(values) > MAX_CLASSES or measured:
        why = (
            "numbers that are not whole"
            if measured
            else f"more than the {MAX_CLASSES} that --likelihood multinomial takes"
        )
        raise DatasetError(
            f"{column} holds {len(values)} different values ({few(values)}), {why}. " + _advice(cells, values)
        )
    return _coded(cells, values)


def measured_labels(cells: pd.Series) -> Labels:
    """Return the measurements of a column."""
    values = _values(cells)
    numbers = as_numbers(cells).to_numpy()
    wrong = ~np.isfinite(numbers)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DatasetError(
            f"--likelihood normal is for measurements, but label column {cells.name!r} holds {cells.iloc[row]!r} in "
            f"row {cells.index[row]} (counted from 0, without the header). " + _advice(cells, values)
        )
    if np.ptp(numbers) == 0.0:
        raise DatasetError(f"all measurements of label column {cells.name!r} are {numbers[0]:g}: nothing to learn")
    if not 1e-100 < np.ptp(numbers) < 1e100:
        raise DatasetError(
            f"the measurements of label column {cells.name!r} go from {numbers.min():g} to {numbers.max():g}, whose "
            "variance double precision does not hold: change their unit, or leave out marks of missing values"
        )
    return Labels(numbers.astype(np.float64), None)


def exposures(cells: pd.Series) -> NDArray[np.float64]:
    """Return the exposure of each count (n,), positive and finite."""
    numbers = as_numbers(cells).to_numpy()
    wrong = ~((numbers > 0) & np.isfinite(numbers))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DatasetError(
            f"exposures must be positive numbers, but column {cells.name!r} holds {cells.iloc[row]!r} in row "
            f"{cells.index[row]} (counted from 0, without the header); --missing drop leaves out rows with empty cells"
        )
    return numbers


def one_spelling(cells: pd.Series) -> pd.Series:
    """Write equal numbers alike, as the shortest of their spellings: 1 and 1.0 are the same label."""
    numbers = as_numbers(cells)
    if not np.isfinite(numbers).all():
        return cells
    ordered = sorted(zip(cells, numbers, strict=True), key=lambda pair: (-len(pair[0]), pair[0]))
    shortest = {number: text for text, number in ordered}
    return numbers.map(shortest)


def _coded(cells: pd.Series, values: Sequence[str], notices: tuple[str, ...] = ()) -> Labels:
    codes = {value: code for code, value in enumerate(values)}
    return Labels(np.array([codes[value] for value in cells], dtype=np.int64), tuple(values), notices)


def _values(cells: pd.Series) -> list[str]:
    """Return the different values of a column without missing cells, sorted."""
    missing = cells.index[is_missing(cells.to_frame()).iloc[:, 0]]
    if len(missing):
        if len(missing) == len(cells):
            raise DatasetError(f"label column {cells.name!r} holds no value: name the label column with --label")
        shown = ", ".join(str(row) for row in missing[:N_SHOWN]) + (", ..." if len(missing) > N_SHOWN else "")
        raise DatasetError(
            f"label column {cells.name!r} is empty or NA in row {shown} (counted from 0, without the header). "
            "--missing drop leaves these rows out"
        )
    return _sorted_values(cells.unique().tolist())


def _check_order(order: Sequence[str], values: Sequence[str], column: str) -> tuple[str, ...]:
    """Refuse an order that lacks a value or repeats one; return a notice of the categories that no row has."""
    left_out = [value for value in values if value not in order]
    empty = [value for value in order if value not in values]
    if left_out:
        misspelt = [f"{value!r}{close}" for value in empty if (close := nearest(value, left_out))]
        named = f", and names {', '.join(misspelt)}" if misspelt else ""
        raise DatasetError(
            f"--order leaves out {few(left_out)}{named}; it must list each value of {column} once: {few(values)}"
        )
    if len(set(order)) < len(order):
        raise DatasetError(f"--order names a value twice; it must list each value of {column} once: {few(values)}")
    if not empty:
        return ()
    several = len(empty) > 1
    what, whose = ("categories", "their probabilities follow") if several else ("category", "its probability follows")
    return (
        f"no row of {column} has the {what} {few(empty)} of --order: {whose} from the prior and from the rows of other "
        "categories",
    )


def _spellings(values: Sequence[str]) -> str:
    """Return advice on values that differ only in capital letters; empty if there are none."""
    alike = [value for value in values if sum(value.lower() == other.lower() for other in values) > 1]
    return f"{few(alike)} differ only in capital letters: write them alike" if alike else ""


def _advice(cells: pd.Series, values: Sequence[str]) -> str:
    """Advise on a label column that the chosen likelihood does not suit."""
    if len(values) == 1:
        return "There is nothing to distinguish"
    if len(values) == 2:
        return "For two classes use --likelihood probit or logit"
    if not _are_numbers(cells):
        if len(values) > MAX_CLASSES:
            return "If this is not the label, name the label column with --label"
        if len(values) > MAX_ORDERED:
            return (
                "If they have no order, use --likelihood multinomial; if this is not the label, name the label column "
                "with --label"
            )
        return (
            "If they have an order, use --likelihood ordinal --order LOWEST,...,HIGHEST. "
            "If they have none, use --likelihood multinomial"
        )
    numbers = as_numbers(cells).to_numpy()
    if (numbers != np.floor(numbers)).any():
        return (
            "Measurements like these are the target of a regression: with normal noise use --likelihood normal; for "
            "other noise, write the model in PyMC and sample it with pmgp.PseudoMarginal"
        )
    suggestions = ["for ordered grades, --likelihood ordinal"] if len(values) <= MAX_ORDERED else []
    if len(values) <= MAX_CLASSES:
        suggestions.append("for classes whose numbers are only names, --likelihood multinomial")
    suggestions = (["for counts, --likelihood poisson"] if (numbers >= 0).all() else []) + suggestions
    suggestions.append("for measurements with normal noise, --likelihood normal")
    sentence = "; ".join(suggestions)
    return sentence[0].upper() + sentence[1:]


def _are_numbers(cells: pd.Series) -> bool:
    return bool(np.isfinite(as_numbers(cells)).all())


def _sorted_values(values: Sequence[str]) -> list[str]:
    """Sort as numbers if all are numbers, so that -1 precedes +1 and 9 precedes 10."""
    try:
        return sorted(values, key=float)
    except ValueError:
        return sorted(values)
