"""What every loader returns: inputs, outputs, their names and where they come from."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Dataset", "DatasetError"]


class DatasetError(ValueError):
    """A data set that cannot be had, or that is not what the model needs."""


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
        Labels 0 and 1 (integers) for classification, raw outputs (floats) for regression, ``None``
        for a point pattern.
    feature_names : tuple of str
        The d names of the columns of ``X``.
    classes : tuple of two str or None
        What label 0 and label 1 stand for; ``None`` unless the task is classification.
    source : str
        Provenance and a remark on the licence, one or two sentences.
    rows : ndarray of shape (n,), optional
        Row of the complete data set each point is, counted from 0; by default ``0, ..., n - 1``.

    Raises
    ------
    DatasetError
        If the shapes do not agree.
    """

    name: str
    X: NDArray[np.float64]
    y: NDArray[np.int64] | NDArray[np.float64] | None
    feature_names: tuple[str, ...]
    classes: tuple[str, str] | None
    source: str
    rows: NDArray[np.intp] | None = None

    def __post_init__(self) -> None:
        n, d = self.X.shape
        if self.rows is None:
            object.__setattr__(self, "rows", np.arange(n))
        columns = [column for column in (self.y, self.rows) if column is not None]
        if len(self.feature_names) != d or any(len(column) != n for column in columns):
            raise DatasetError(f"{self.name}: X, y, rows and feature_names differ in length")

    @property
    def n(self) -> int:
        """Number of points."""
        return self.X.shape[0]

    @property
    def d(self) -> int:
        """Number of features."""
        return self.X.shape[1]

    def take(self, index: ArrayLike) -> Dataset:
        """Return the data set of the points in ``index`` (integers), in that order."""
        index = np.asarray(index, dtype=np.intp)
        assert self.rows is not None
        y = None if self.y is None else self.y[index]
        return replace(self, X=self.X[index], y=y, rows=self.rows[index])
