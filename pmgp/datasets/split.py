"""Division of a data set into a training and a test part with the same class proportions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pmgp.datasets.dataset import Dataset, DatasetError

__all__ = ["train_test_split"]


def train_test_split(dataset: Dataset, test_fraction: float, seed: int) -> tuple[Dataset, Dataset]:
    """Divide a data set at random, class by class.

    Parameters
    ----------
    dataset : Dataset
        What to divide. Without labels 0 and 1 the division is not stratified.
    test_fraction : float
        Fraction of each class, rounded to whole points, in the test part: 0 <= test_fraction < 1.
        With 0 the test part is empty.
    seed : int
        Seed of the random choice.

    Returns
    -------
    train, test : Dataset
        Both in the order of ``dataset``; their ``rows`` say which points they hold.

    Raises
    ------
    DatasetError
        If the fraction is out of range, or a class would be absent from one of the parts.
    """
    if not 0 <= test_fraction < 1:
        raise DatasetError(f"the test fraction must be at least 0 and below 1, not {test_fraction}")
    rng = np.random.default_rng(seed)
    in_test = np.zeros(dataset.n, dtype=bool)
    for stratum in _strata(dataset):
        size = round(test_fraction * stratum.size)
        if size == stratum.size or (size == 0 and test_fraction > 0):
            part = "test" if size == 0 else "training"
            raise DatasetError(
                f"test fraction {test_fraction} leaves none of the {stratum.size} points of a class in the {part} part"
            )
        in_test[rng.permutation(stratum)[:size]] = True
    return dataset.take(np.flatnonzero(~in_test)), dataset.take(np.flatnonzero(in_test))


def _strata(dataset: Dataset) -> list[NDArray[np.intp]]:
    """Return the indices of the points of each class, or of all points without classes."""
    if dataset.classes is None or dataset.y is None:
        return [np.arange(dataset.n)]
    return [np.flatnonzero(dataset.y == label) for label in (0, 1)]
