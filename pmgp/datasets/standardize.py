"""Scaling of features to mean 0 and standard deviation 1, learned on the training part only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmgp.core.numerics.arrays import finite_table
from pmgp.datasets.dataset import Category, DatasetError

LARGEST = 1e150
"""Squares of larger numbers overflow."""


@dataclass(frozen=True, eq=False)
class Standardizer:
    """The map x to (x - mean) / scale, feature by feature.

    Parameters
    ----------
    mean : ndarray of shape (d,)
        Means, in the units of the features.
    scale : ndarray of shape (d,)
        Standard deviations, in the units of the features; 1 for a constant feature. The columns of a category share
        one.
    names : tuple of str
        Names of the columns, if the training inputs were a DataFrame.

    Examples
    --------
    New inputs are transformed as the training inputs were:

    >>> import pmgp
    >>> standardizer = pmgp.datasets.Standardizer.fit([[1.0], [3.0]])
    >>> standardizer.transform([[1.0], [3.0], [5.0]])
    array([[-1.],
           [ 1.],
           [ 3.]])
    """

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    names: tuple[str, ...] = ()

    @classmethod
    def fit(cls, X: ArrayLike, categories: Sequence[Category] = ()) -> Self:
        """Learn mean and scale from the training inputs X (n, d).

        The columns of a category are scaled by one number, so that the sum of their variances is 1: together they
        weigh as much as a feature of numbers, and any two values are equally far apart.

        Parameters
        ----------
        X : array_like of shape (n, d)
            Inputs. The columns of a DataFrame must have the same names, in the same order, when others are transformed.
        categories : sequence of Category
            Which columns stand for text: ``categories`` of a data set.

        Raises
        ------
        DatasetError
            If X is not a table of finite numbers with at least one row, or if the range of a feature is so large or
            small that its standard deviation overflows.
        """
        names, X = _names(X), _table(X)
        if not len(X):
            raise DatasetError("there are no rows to learn a scale from")
        # A constant column keeps scale 1, so that it becomes zeros; rounding can leave its
        # standard deviation positive, hence the comparison of extremes.
        constant = X.min(axis=0) == X.max(axis=0)
        _refuse_extremes(X[:, ~constant], np.flatnonzero(~constant))
        mean = np.where(constant, X[0], X.mean(axis=0))
        scale = np.where(constant, 1.0, X.std(axis=0))
        for category in categories:
            columns = list(category.columns)
            if not constant[columns].all():
                scale[columns] = np.sqrt(X[:, columns].var(axis=0).sum())
        return cls(mean, scale, names)

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Standardize inputs X (m, d) with the training part's mean and scale.

        Raises
        ------
        DatasetError
            If X is not a table of finite numbers with d columns, or a DataFrame with other columns than the training
            part's.
        """
        given, X = _names(X), _table(X)
        if X.shape[1] != len(self.mean):
            raise DatasetError(f"X has {X.shape[1]} columns, the training part had {len(self.mean)}")
        if self.names and given and given != self.names:
            raise DatasetError(
                f"X has the columns {', '.join(given)}, but the training part had {', '.join(self.names)}: give the "
                "same in the same order"
            )
        return (X - self.mean) / self.scale


def _names(X: ArrayLike) -> tuple[str, ...]:
    """Return the names of a DataFrame's columns; none of an array, or if they are numbers."""
    names = tuple(getattr(X, "columns", ()))
    return names if all(isinstance(name, str) for name in names) else ()


def _refuse_extremes(X: NDArray[np.float64], places: NDArray[np.intp]) -> None:
    """Refuse features whose standard deviations would overflow."""
    low, high = X.min(axis=0), X.max(axis=0)
    with np.errstate(over="ignore"):
        extreme = ~((high - low < LARGEST) & (high - low > 1.0 / LARGEST))
    if extreme.any():
        at = int(np.argmax(extreme))
        raise DatasetError(
            f"feature {places[at]}, counted from 0, goes from {low[at]:g} to {high[at]:g}, for which double precision "
            "has no standard deviation: change its unit, or leave out marks of missing values"
        )


def _table(X: ArrayLike) -> NDArray[np.float64]:
    try:
        return finite_table("X", X)
    except ValueError as error:
        raise DatasetError(str(error)) from None
