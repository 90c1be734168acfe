"""Read a user's CSV file, with clear errors for bad files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pmgp.datasets.csv_columns import Columns, choose_columns
from pmgp.datasets.csv_features import encode_features
from pmgp.datasets.csv_labels import (
    Labels,
    binary_labels,
    class_labels,
    count_labels,
    exposures,
    measured_labels,
    one_spelling,
    ordered_labels,
)
from pmgp.datasets.csv_table import check_missing, few, is_missing, read_table
from pmgp.datasets.dataset import Dataset, DatasetError

if TYPE_CHECKING:
    import pandas as pd


def read_csv(
    path: str | Path,
    label: str | None = None,
    *,
    kind: Literal["binary", "counts", "ordered", "classes", "measurements"] = "binary",
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    order: Sequence[str] | None = None,
    exposure: str | None = None,
    header: bool | None = None,
    missing: Literal["drop", "median"] | None = None,
    time: str | None = None,
) -> Dataset:
    r"""Read a CSV file with a column for each feature and one for the label.

    Columns are separated by commas, semicolons or tabs; with semicolons or tabs, numbers may have decimal commas.
    Features are numbers, dates or text. Dates become days since the first one. Text is read as categories: a column
    with k > 2 values becomes k columns of 0 and 1, one with two values a single column, which ``categories`` lists.

    Parameters
    ----------
    path : str or Path
        The file; compressed ones (``.csv.gz``) are read too.
    label : str, optional
        Name of the label column, by default the last one.
    kind : {"binary", "counts", "ordered", "classes", "measurements"}
        Kind of the label. Two values become 0 and 1. Three or more ordered categories, or classes without an order,
        become 0, 1, ..., in sorted order (as numbers if all are numbers); ``classes`` lists them. Counts and
        measurements stay as they are.
    features : sequence of str, optional
        Names of the feature columns, by default all others.
    drop : sequence of str
        Names of columns that are not read; not together with ``features``.
    order : sequence of str, optional
        The values of ordered categories, lowest first; categories that no row has may be among them.
    exposure : str, optional
        Name of a column with the time, area or number over which each count was collected.
    header : bool, optional
        Whether the first line holds column names, which otherwise are ``x1, x2, ...``. By default it must look like
        names.
    missing : {"drop", "median"}, optional
        What to do if a cell of a used column is empty, ``NA``, ``NaN``, ``null`` or ``?``: leave out its row, or
        replace it by the median of all rows (the most frequent value of a category); ``notices`` say how often. Labels,
        exposures and times are never replaced. By default such a file is refused.
    time : str, optional
        Name of a column of times, which is then the only feature; not together with ``features``.

    Returns
    -------
    Dataset
        X (n, d) and labels (n,); rows are counted from 0, without the header.

    Raises
    ------
    DatasetError
        If the file cannot be read or has no rows or no features; if the first line looks like data and ``header``
        is not given; if a named column is absent; if the label does not fit ``kind``; if a feature has an infinite
        cell or, without ``missing``, an empty one, mixes numbers and text, has too many categories, or has dates that
        can be read in two ways. The message names the columns and the first few rows.

    Examples
    --------
    >>> import pathlib, tempfile, pmgp
    >>> path = pathlib.Path(tempfile.mkdtemp(), "flowers.csv")
    >>> _ = path.write_text("length;color;kind\n5,1;red;setosa\n7,0;blue;virginica\n", encoding="utf-8")
    >>> data = pmgp.datasets.read_csv(path)
    >>> data.X
    array([[5.1, 1. ],
           [7. , 0. ]])
    >>> data.y, data.classes
    (array([0, 1]), ('setosa', 'virginica'))
    """
    path = Path(path)
    if order is not None and kind != "ordered":
        raise DatasetError("order is for ordered categories (kind='ordered')")
    if exposure is not None and kind != "counts":
        raise DatasetError("exposure is for counts (kind='counts')")
    check_missing(missing)
    table, notices = read_table(path, header)
    columns = choose_columns(list(table.columns), label, features, drop, exposure, time)
    if missing == "drop":
        table, dropped = _complete_rows(table, columns)
        notices += dropped
    labels = _labels(one_spelling(table[columns.label]), kind, order)
    in_time = time is not None
    encoded = encode_features(table[columns.features], fill=missing == "median" and not in_time, numbered=in_time)
    return Dataset(
        name=path.name.split(".")[0],
        X=encoded.X,
        y=labels.y,
        feature_names=encoded.names,
        classes=labels.classes,
        source=f"The file {path.name}.",
        rows=table.index.to_numpy(),
        label=columns.label,
        exposure=None if columns.exposure is None else exposures(table[columns.exposure]),
        categories=encoded.categories,
        notices=notices + encoded.notices + labels.notices + _unused(table, columns, drop),
        dates=encoded.dates,
    )


def _unused(table: pd.DataFrame, columns: Columns, drop: Sequence[str]) -> tuple[str, ...]:
    """Return a notice of the columns that are left out because time is the only feature."""
    known = {columns.label, columns.exposure, *columns.features, *drop}
    unused = [str(name) for name in table if name not in known] if columns.in_time else []
    return (f"time is the only feature, so these columns are not used: {few(unused)}",) if unused else ()


def _complete_rows(table: pd.DataFrame, columns: Columns) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Leave out the rows with a missing cell in a used column, with a notice of their number."""
    used = [columns.label, *columns.features, *([columns.exposure] if columns.exposure else [])]
    complete = ~is_missing(table[used]).any(axis=1)
    dropped = int((~complete).sum())
    if dropped == len(table):
        raise DatasetError(f"each of the {len(table)} rows has a missing cell; leave out columns with --drop")
    have = "has missing cells and is" if dropped == 1 else "have missing cells and are"
    notice = f"{dropped} of {len(table)} rows {have} left out (--missing drop)"
    return table[complete], (notice,) if dropped else ()


def _labels(cells: pd.Series, kind: str, order: Sequence[str] | None) -> Labels:
    if kind == "ordered":
        return ordered_labels(cells, order)
    others = {
        "binary": binary_labels,
        "counts": count_labels,
        "classes": class_labels,
        "measurements": measured_labels,
    }
    if kind not in others:
        raise DatasetError(f"kind must be {', '.join(others)} or ordered, not {kind!r}")
    return others[kind](cells)
