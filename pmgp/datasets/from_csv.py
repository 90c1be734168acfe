"""Read a user's CSV file for binary classification, and say what is wrong with a bad one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pmgp.datasets.dataset import Dataset, DatasetError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_csv"]

N_SHOWN = 3
"""How many offending cells or values an error message names."""


def read_csv(path: str | Path, label: str | None = None) -> Dataset:
    """Read a CSV file with a header line, numeric features and a label of two values.

    Parameters
    ----------
    path : str or Path
        The file; compressed ones (``.csv.gz``) are read too.
    label : str, optional
        Name of the label column, by default the last one. Its two values, of any kind, become 0
        and 1 in sorted order (as numbers if both are numbers); ``classes`` says which is which.

    Returns
    -------
    Dataset
        X (n, d) and labels (n,); rows count from 0 beneath the header.

    Raises
    ------
    DatasetError
        If the file cannot be read or has no rows or no features, if the label column is absent or
        does not hold two values, or if a feature has a cell that is not a finite number: the
        message names the columns and the first few rows.
    """
    path = Path(path)
    frame = _read_text(path)
    column = _label_column(frame, label, path)
    y, classes = _encode(frame[column], column)
    X = _numeric(frame.drop(columns=column))
    names = tuple(str(name) for name in frame.columns if name != column)
    return Dataset(path.name.split(".")[0], X, y, names, classes, f"The file {path.name}.")


def _read_text(path: Path) -> pd.DataFrame:
    """Read every cell as text, so that errors can quote what the file says."""
    import pandas as pd

    if not path.is_file():
        raise DatasetError(f"there is no file {path}")
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig", skipinitialspace=True)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path} is not a CSV file: {str(error).strip()}") from error
    if frame.empty:
        raise DatasetError(f"{path} has no rows beneath its header")
    if frame.shape[1] < 2:
        raise DatasetError(
            f"{path} has the single column {frame.columns[0]!r}; features and a label, separated by commas, are needed"
        )
    # A short last line leaves cells that pandas fills with NaN whatever the options.
    return frame.fillna("").apply(lambda cells: cells.str.strip()).rename(columns=str.strip)


def _label_column(frame: pd.DataFrame, label: str | None, path: Path) -> str:
    if label is None:
        return frame.columns[-1]
    if label not in frame.columns:
        raise DatasetError(f"{path} has no column {label!r}; it has {', '.join(frame.columns)}")
    return label


def _encode(labels: pd.Series, column: str) -> tuple[NDArray[np.int64], tuple[str, str]]:
    """Return labels 0 and 1 and the two values they stand for."""
    missing = np.flatnonzero(labels == "")
    if missing.size:
        raise DatasetError(f"label column {column!r} is empty in {_rows(missing)}")
    values = _sorted_values(labels.unique().tolist())
    if len(values) != 2:
        shown = ", ".join(values[: 2 * N_SHOWN]) + (", ..." if len(values) > 2 * N_SHOWN else "")
        raise DatasetError(f"label column {column!r} must hold two different values, it holds {len(values)}: {shown}")
    return (labels == values[1]).to_numpy().astype(np.int64), (values[0], values[1])


def _sorted_values(values: Sequence[str]) -> list[str]:
    """Sort as numbers if all are numbers, so that -1 precedes +1 and 9 precedes 10."""
    try:
        return sorted(values, key=float)
    except ValueError:
        return sorted(values)


def _numeric(features: pd.DataFrame) -> NDArray[np.float64]:
    """Return the features as numbers (n, d), or name what is not one."""
    import pandas as pd

    numbers = features.apply(pd.to_numeric, errors="coerce").astype(np.float64)
    # Text that reads as NaN is a missing value, other text that does not convert is no number.
    absent = features.apply(lambda cells: cells.str.lower().isin(["", "na", "nan"]))
    text = numbers.isna() & ~absent
    if text.to_numpy().any():
        raise DatasetError(_not_numbers(features, text))
    missing = ~np.isfinite(numbers.to_numpy())
    if missing.any():
        raise DatasetError(_not_finite(features, missing))
    return np.ascontiguousarray(numbers.to_numpy())


def _not_numbers(features: pd.DataFrame, text: pd.DataFrame) -> str:
    """Name the columns that hold text, with one cell of each."""
    columns = [name for name in features.columns if text[name].any()]
    examples = []
    for name in columns[:N_SHOWN]:
        row = int(np.argmax(text[name].to_numpy()))
        examples.append(f"{name!r} (row {row}: {features[name].iloc[row]!r})")
    rest = f" and {len(columns) - N_SHOWN} more" if len(columns) > N_SHOWN else ""
    return (
        f"features must be numbers, which these columns are not: {', '.join(examples)}{rest}; rows "
        "count from 0 beneath the header. Code a category as columns of 0 and 1, or drop it"
    )


def _not_finite(features: pd.DataFrame, missing: NDArray[np.bool_]) -> str:
    """Name the first cells that are empty, NaN or infinite."""
    cells = np.argwhere(missing)
    shown = ", ".join(f"row {row} column {features.columns[k]!r}" for row, k in cells[:N_SHOWN])
    rest = ", ..." if len(cells) > N_SHOWN else ""
    return (
        f"{len(cells)} feature cells are empty, NaN or infinite: {shown}{rest} (rows count from 0 "
        "beneath the header). Drop these rows or fill them in"
    )


def _rows(index: NDArray[np.intp]) -> str:
    shown = ", ".join(str(row) for row in index[:N_SHOWN])
    rest = ", ..." if index.size > N_SHOWN else ""
    return f"row {shown}{rest} (counted from 0 beneath the header)"
