"""Read a CSV file of rows to be predicted, with the columns of a data set that was read before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from pmgp.datasets.csv_features import COUNTING, MAX_CATEGORIES, dates_of
from pmgp.datasets.csv_labels import exposures
from pmgp.datasets.csv_table import as_numbers, check_missing, few, is_missing, read_table
from pmgp.datasets.dataset import Category, Dataset, DatasetError, Dates

if TYPE_CHECKING:
    import pandas as pd


def read_new_rows(
    path: str | Path,
    dataset: Dataset,
    *,
    exposure: str | None = None,
    header: bool | None = None,
    missing: Literal["drop", "median"] | None = None,
) -> Dataset:
    r"""Read rows without labels, with the features of a data set that :func:`read_csv` has read.

    Columns are found by name, in any order; others, such as a label, are not read. Categories and dates are coded as in
    the data set.

    Parameters
    ----------
    path : str or Path
        The file.
    dataset : Dataset
        The data set whose features the rows have.
    exposure : str, optional
        Name of a column with the time, area or number over which each count is to be predicted.
    header : bool, optional
        See :func:`read_csv`; without a header, columns are found by their place.
    missing : {"drop", "median"}, optional
        See :func:`read_csv`; medians and most frequent values are those of the data set.

    Returns
    -------
    Dataset
        X (m, d) with the columns of the data set, and no labels.

    Raises
    ------
    DatasetError
        If the file cannot be read, a column is absent, or a cell is missing, is not a number or a date where the data
        set has these, or is a category that the data set does not have.

    Examples
    --------
    >>> import pathlib, tempfile, pmgp
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "flowers.csv").write_text("length,color,kind\n5,red,setosa\n7,blue,virginica\n")
    >>> _ = (folder / "new.csv").write_text("color,length\nred,6\nred,8\n")
    >>> data = pmgp.datasets.read_csv(folder / "flowers.csv")
    >>> new = pmgp.datasets.read_new_rows(folder / "new.csv", data)
    >>> new.feature_names, new.X
    (('length', 'color=red'), array([[6., 1.],
           [8., 1.]]))
    """
    path = Path(path)
    check_missing(missing)
    cells, notices = read_table(path, header, least=1)
    used = [*_sources(dataset), *([] if exposure is None else [exposure])]
    absent = [name for name in used if name not in cells]
    if absent:
        raise DatasetError(
            f"{path} has no column {few(absent)}, which {dataset.name} has; it has {few(cells.columns.tolist())}"
        )
    cells = cells[used]
    gaps = is_missing(cells)
    if missing == "drop":
        complete = ~gaps.any(axis=1)
        if not complete.any():
            raise DatasetError(f"each of the {len(cells)} rows of {path} has a missing cell")
        if not complete.all():
            notices += (f"{(~complete).sum()} of {len(cells)} rows of {path.name} have missing cells and are left out",)
        cells, gaps = cells[complete], gaps[complete]
    if missing != "median":
        _refuse_missing(path, cells, gaps)
    columns = [column for name in _sources(dataset) for column in _coded(path, cells[name], gaps[name], dataset)]
    X = np.column_stack(columns)
    return Dataset(
        name=path.name.split(".")[0],
        X=X,
        y=None,
        feature_names=dataset.feature_names,
        classes=dataset.classes,
        source=f"The file {path.name}.",
        rows=cells.index.to_numpy(),
        label=dataset.label,
        exposure=None if exposure is None else exposures(cells[exposure]),
        categories=dataset.categories,
        notices=notices,
        dates=dataset.dates,
    )


def _sources(dataset: Dataset) -> list[str]:
    """Return the names of the columns of the file from which the columns of X were made, in their order."""
    coded = {column: category.name for category in dataset.categories for column in category.columns}
    return list(dict.fromkeys(coded.get(place, name) for place, name in enumerate(dataset.feature_names)))


def _refuse_missing(path: Path, cells: pd.DataFrame, gaps: pd.DataFrame) -> None:
    for row, column in np.argwhere(gaps.to_numpy())[:1]:
        raise DatasetError(
            f"{path} has {int(gaps.to_numpy().sum())} missing cells, the first in row {cells.index[row]} of column "
            f"{cells.columns[column]!r} ({COUNTING}): --missing drop leaves out such rows, and --missing median fills "
            "in values of the data set"
        )


def _coded(path: Path, cells: pd.Series, gaps: pd.Series, dataset: Dataset) -> Iterator[NDArray[np.float64]]:
    """Yield the columns of X that are made of a column of the file; gaps are filled from the data set."""
    name = str(cells.name)
    category = next((one for one in dataset.categories if one.name == name), None)
    if category is not None:
        yield from _of_category(path, cells.mask(gaps, _most_frequent(dataset, category)), category)
        return
    in_days = name in dataset.dates
    values = _days(cells[~gaps], dataset.dates[name]) if in_days else as_numbers(cells[~gaps])
    wrong = values.index[~np.isfinite(values)]
    if len(wrong):
        raise DatasetError(
            f"{path} has {cells[wrong[0]]!r} in row {wrong[0]} of column {name!r} ({COUNTING}), which is not a "
            f"{'date written like' if in_days else 'finite number, unlike'} the cells of {dataset.name}"
        )
    filled = np.full(len(cells), np.median(dataset.X[:, dataset.feature_names.index(name)]))
    filled[~gaps] = values
    yield filled


def _of_category(path: Path, cells: pd.Series, category: Category) -> Iterator[NDArray[np.float64]]:
    foreign = cells[~cells.isin(category.values)]
    if len(foreign):
        raise DatasetError(
            f"{path} has {foreign.iloc[0]!r} in row {foreign.index[0]} of column {category.name!r} ({COUNTING}), where "
            f"the data have {few(category.values, MAX_CATEGORIES)}"
        )
    for value in category.values[-len(category.columns) :]:
        yield (cells == value).to_numpy().astype(np.float64)


def _most_frequent(dataset: Dataset, category: Category) -> str:
    counts = dataset.X[:, list(category.columns)].sum(axis=0)
    if len(counts) < len(category.values):
        counts = np.append(dataset.n - counts, counts)
    return category.values[int(np.argmax(counts))]


def _days(cells: pd.Series, known: Dates) -> pd.Series:
    """Return days since a date, NaN where a cell is not one that is written as in the data set."""
    import pandas as pd

    dates, _ = dates_of(cells, known.formats)
    if dates is None:
        readings = [pd.to_datetime(cells, format=form, errors="coerce", utc=True) for form in known.formats]
        dates = max(readings, key=lambda reading: int(reading.notna().sum()))
    return (dates - pd.Timestamp(known.first)) / np.timedelta64(1, "D")
