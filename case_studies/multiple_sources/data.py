"""Data with several sources of features, and their division into folds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd

from case_studies.multiple_sources import wheel
from case_studies.tools.stream import stream

__all__ = ["NAMES", "REGIONS", "Matrices", "Sourced", "available", "folds", "load", "prepared"]

Matrices = dict[str, np.ndarray]

SEED = 12
"""Seed of the draws of rows, the same at every scale."""

VIEWS = {
    "fou": "Fourier coefficients of the outline",
    "fac": "profile correlations",
    "kar": "Karhunen-Loeve coefficients",
    "pix": "averages of pixels",
    "zer": "Zernike moments",
    "mor": "morphology",
}
ALIKE = (3, 5, 8, 9)
"""Digits that are taken for each other."""

CONTROL = "border"
REGIONS = ("upper left", "upper right", "middle left", "middle right", "lower left", "lower right", CONTROL)


class Sourced(NamedTuple):
    """Observations of several classes.

    Attributes
    ----------
    matrices : dict of str to (n, d_s) array
        Features by source, in their own units.
    y : (n,) array of int
        Classes 0, ..., C - 1.
    classes : tuple of str
        Their names.
    """

    matrices: Matrices
    y: np.ndarray
    classes: tuple[str, ...]

    def take(self, rows: np.ndarray) -> Sourced:
        """Some of the observations."""
        return self._replace(matrices={name: X[rows] for name, X in self.matrices.items()}, y=self.y[rows])


def available(name: str) -> bool:
    """Whether the data are there without the network."""
    return name not in FROM_WHEEL or wheel.available()


@cache
def load(name: str) -> Sourced:
    """Load a data set, one of :data:`NAMES`."""
    return _LOADERS[name]()


def folds(name: str, y: np.ndarray, number: int = 4) -> np.ndarray:
    """Number of the fold that each observation is tested in, (n,): stratified, and the same for all methods."""
    fold = np.empty(len(y), dtype=int)
    start = 0
    for label in np.unique(y):
        rows = stream(SEED, "folds", name, int(label)).permutation(np.flatnonzero(y == label))
        # Each class goes on where the last one ended, so that folds have like sizes.
        fold[rows] = (start + np.arange(len(rows))) % number
        start += len(rows)
    return fold


def prepared(train: Matrices, test: Matrices) -> tuple[Matrices, Matrices]:
    """Both parts with features of mean 0 and standard deviation 1 in the training part alone.

    Each source is then divided by the root of its mean square length there, so that C_s = X_s X_s' has trace n. The
    article standardizes over all scans, including those to be tested.
    """
    scaled: tuple[Matrices, Matrices] = ({}, {})
    for name, X in train.items():
        mean, deviation = X.mean(axis=0), X.std(axis=0)
        # A feature that is constant in the training part says nothing there.
        there = deviation > 1e-12 * np.abs(mean)
        factor = np.zeros(len(mean))
        factor[there] = 1.0 / (deviation[there] * np.sqrt(there.sum()))
        for parts, matrix in zip(scaled, (X, test[name]), strict=True):
            parts[name] = (matrix - mean) * factor
    return scaled


def _mfeat(digits: tuple[int, ...], n: int) -> Sourced:
    """Draw the same number of images of each digit at random from its 200."""
    tables = {view: pd.read_csv(wheel.folder() / f"UCImultifeature/mfeat-{view}.csv").to_numpy() for view in VIEWS}
    labels = tables["fou"][:, -1].astype(int)
    rng = stream(SEED, "mfeat", n)
    rows = np.concatenate([rng.permutation(np.flatnonzero(labels == digit))[: n // len(digits)] for digit in digits])
    y = np.searchsorted(digits, labels[rows])
    return Sourced({view: table[rows, :-1] for view, table in tables.items()}, y, tuple(map(str, digits)))


def _nutrimouse() -> Sourced:
    """Genes and lipids in the liver of 40 mice, and what they were fed."""
    read = {name: pd.read_csv(wheel.folder() / f"nutrimouse/{name}.csv") for name in ("gene", "lipid", "diet")}
    diets = read["diet"]["diet"].to_numpy(dtype=str)
    classes, y = np.unique(diets, return_inverse=True)
    return Sourced({name: read[name].to_numpy(dtype=float) for name in ("gene", "lipid")}, y, tuple(map(str, classes)))


def _regions(n: int = 60) -> Sourced:
    """Images of digits, eight by eight, in six blocks; the border is nearly empty, and the control."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    rng = stream(SEED, "regions")
    rows = np.concatenate([rng.permutation(np.flatnonzero(labels == digit))[: n // len(ALIKE)] for digit in ALIKE])
    region = _region_of_pixels().ravel()
    matrices = {name: images[rows][:, region == place] for place, name in enumerate(REGIONS)}
    return Sourced(matrices, np.searchsorted(ALIKE, labels[rows]), tuple(map(str, ALIKE)))


def _region_of_pixels() -> np.ndarray:
    """Place in :data:`REGIONS` of each pixel, (8, 8): columns 0 and 7 are the border."""
    region = np.full((8, 8), REGIONS.index(CONTROL))
    for row, bounds in enumerate(((0, 3), (3, 5), (5, 8))):
        region[slice(*bounds), 1:4] = 2 * row
        region[slice(*bounds), 4:7] = 2 * row + 1
    return region


FROM_WHEEL = ("mfeat-4-60", "nutrimouse", "mfeat-10-200")
_LOADERS: dict[str, Callable[[], Sourced]] = {
    "mfeat-4-60": lambda: _mfeat(ALIKE, 60),
    "nutrimouse": _nutrimouse,
    "regions": _regions,
    "mfeat-10-200": lambda: _mfeat(tuple(range(10)), 200),
}
NAMES = tuple(_LOADERS)
