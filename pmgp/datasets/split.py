"""Division of a data set into a training and a test part with the same class proportions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pmgp.datasets.dataset import Dataset, DatasetError


def train_test_split(dataset: Dataset, test_fraction: float, seed: int) -> tuple[Dataset, Dataset]:
    """Divide a data set at random, class by class.

    Parameters
    ----------
    dataset : Dataset
        The data to divide. Without classes the division is not stratified.
    test_fraction : float
        Fraction of each class, rounded to whole points, in the test part: 0 <= test_fraction < 1.
        With 0 the test part is empty. Of more than two classes, a rare one may be absent from it.
    seed : int
        Seed of the random choice.

    Returns
    -------
    train, test : Dataset
        Both in the order of ``dataset``; their ``rows`` say which points they hold.

    Raises
    ------
    DatasetError
        If the fraction is out of range, if one of two classes would be absent from a part, or any class that has
        points from the training part, or if a part would be empty.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> X, y = np.eye(10), np.arange(10) % 2
    >>> data = pmgp.datasets.Dataset("small", X, y, tuple("abcdefghij"), ("even", "odd"), "Made up.")
    >>> train, test = pmgp.datasets.train_test_split(data, 0.2, seed=1)
    >>> train.n, test.n, sorted({*train.rows, *test.rows}) == [*range(10)]
    (8, 2, True)
    """
    if not 0 <= test_fraction < 1:
        raise DatasetError(f"the test fraction must be at least 0 and below 1, not {test_fraction}")
    rng = np.random.default_rng(seed)
    in_test = np.zeros(dataset.n, dtype=bool)
    strata = _strata(dataset)
    sizes = [round(test_fraction * stratum.size) for stratum in strata]
    for stratum, size in zip(strata, sizes, strict=True):
        if len(strata) > 2 and not stratum.size:
            # Of ordered categories, the order may name one that no point has.
            continue
        absent = size == 0 and test_fraction > 0 and (len(strata) <= 2 or not any(sizes))
        if size == stratum.size or absent:
            points = f"{stratum.size} points" + (" of a class" if len(strata) > 1 else "")
            part = "test" if size == 0 else "training"
            raise DatasetError(
                f"test fraction {test_fraction} leaves none of the {points} in the {part} part: give another one, or 0 "
                "to learn from all points"
            )
        in_test[rng.permutation(stratum)[:size]] = True
    return dataset.take(np.flatnonzero(~in_test)), dataset.take(np.flatnonzero(in_test))


def _strata(dataset: Dataset) -> list[NDArray[np.intp]]:
    """Return the indices of the points of each class, or of all points without classes."""
    if dataset.classes is None or dataset.y is None:
        return [np.arange(dataset.n)]
    return [np.flatnonzero(dataset.y == label) for label in range(len(dataset.classes))]
