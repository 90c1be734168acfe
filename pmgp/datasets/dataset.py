"""The result of every loader: inputs, outputs, their names and their source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class DatasetError(ValueError):
    """A data set is not available, or does not suit the model.

    Examples
    --------
    >>> import pmgp
    >>> try:
    ...     pmgp.datasets.load("kohle")
    ... except pmgp.datasets.DatasetError:
    ...     print("choose one of pmgp.datasets.available()")
    choose one of pmgp.datasets.available()
    """


class Category(NamedTuple):
    """How a column of text was turned into columns of 0 and 1.

    Attributes
    ----------
    name : str
        Name of the column of text.
    values : tuple of str
        Its k different values.
    columns : tuple of int
        Columns of ``X``: one for each value, or for two values the column in which the second value is 1.

    Examples
    --------
    >>> import pmgp
    >>> color = pmgp.datasets.Category("color", ("blue", "green", "red"), (1, 2, 3))
    >>> dict(zip(color.values, color.columns))
    {'blue': 1, 'green': 2, 'red': 3}
    """

    name: str
    values: tuple[str, ...]
    columns: tuple[int, ...]


class Dates(NamedTuple):
    """How a column of dates was turned into days.

    Attributes
    ----------
    first : datetime
        The date of day 0.
    formats : tuple of str
        The formats, in the notation of pandas, that all dates of the column have: one, unless they can be read in
        several ways that agree.

    Examples
    --------
    >>> import datetime, pmgp
    >>> when = pmgp.datasets.Dates(datetime.datetime(2024, 12, 31), ("%d.%m.%Y",))
    >>> when.first.year
    2024
    """

    first: datetime
    formats: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Inputs and outputs with their names and provenance.

    Parameters
    ----------
    name : str
        Short name, as given to :func:`pmgp.datasets.load`.
    X : ndarray of shape (n, d)
        Inputs in their original units.
    y : ndarray of shape (n,) or None
        Labels 0, 1, ... (integers) for classes, counts (integers), raw outputs (floats) for regression, ``None``
        for a point pattern.
    feature_names : tuple of str
        The d names of the columns of ``X``.
    classes : tuple of str or None
        Names of labels 0, 1, ...: two or more classes, in their order if they have one; ``None`` without classes.
    source : str
        Provenance and a remark on the licence, one or two sentences.
    rows : ndarray of shape (n,), optional
        Row of each point in the complete data set, counted from 0; by default ``0, ..., n - 1``.
    label : str
        Name of ``y``.
    exposure : ndarray of shape (n,), optional
        Time, area or number over which each count was collected.
    categories : tuple of Category
        The columns of ``X`` that encode text.
    notices : tuple of str
        Remarks for a reader about the file.
    dates : mapping of str to Dates
        The date of day 0 of each column of ``X`` that holds dates, as days since then, and how they are written.

    Raises
    ------
    DatasetError
        If the shapes do not agree.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> X, y = np.array([[0.1], [0.2], [0.9]]), np.array([0, 0, 1])
    >>> data = pmgp.datasets.Dataset("spots", X, y, ("size",), ("dim", "bright"), "Made up.")
    >>> data.n, data.d, data.rows
    (3, 1, array([0, 1, 2]))
    """

    name: str
    X: NDArray[np.float64]
    y: NDArray[np.int64] | NDArray[np.float64] | None
    feature_names: tuple[str, ...]
    classes: tuple[str, ...] | None
    source: str
    rows: NDArray[np.intp] | None = None
    label: str = "y"
    exposure: NDArray[np.float64] | None = None
    categories: tuple[Category, ...] = ()
    notices: tuple[str, ...] = ()
    dates: Mapping[str, Dates] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n, d = self.X.shape
        if self.rows is None:
            object.__setattr__(self, "rows", np.arange(n))
        columns = [column for column in (self.y, self.rows, self.exposure) if column is not None]
        if len(self.feature_names) != d or any(len(column) != n for column in columns):
            raise DatasetError(f"{self.name}: X, y, rows, exposure and feature_names differ in length")

    @property
    def n(self) -> int:
        """The number of points."""
        return self.X.shape[0]

    @property
    def d(self) -> int:
        """The number of features."""
        return self.X.shape[1]

    def take(self, index: ArrayLike) -> Dataset:
        """Return the data set of the points in ``index`` (integers), in that order."""
        index = np.asarray(index, dtype=np.intp)
        assert self.rows is not None
        y = None if self.y is None else self.y[index]
        exposure = None if self.exposure is None else self.exposure[index]
        return replace(self, X=self.X[index], y=y, rows=self.rows[index], exposure=exposure)
