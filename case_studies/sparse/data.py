"""The data of the article's section 4, and of the comparison with the exact chain, split into seen and held out.

Files that no package brings come from the folder that ``PMGP_DATA`` names.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from case_studies.tools import saplings
from case_studies.tools.stream import stream
from pmgp import datasets

__all__ = [
    "BINS",
    "GAUSSIANS",
    "Data",
    "available",
    "coal",
    "digits",
    "gaussians",
    "load",
    "pines",
    "two_classes",
]

BINS = 100
"""Number of bins of the coal data."""
DISASTERS = 95
"""Number of disasters that are seen, of 191."""
FILES = {"pines": saplings.FILE, "image": "image.csv", "eeg": "eeg.csv.gz", "mnist": "mnist.npz"}

GAUSSIANS = (
    ((0.0, 0.5), ((5.0, 0.0), (0.0, 0.1))),
    ((-1.5, 0.0), ((0.05, 0.0), (0.0, 3.0))),
    ((1.5, 0.0), ((1.55, 1.45), (1.45, 1.55))),
)
"""Means and covariances of the three classes."""


class Data(NamedTuple):
    """Data that are seen, and data that are held out.

    Attributes
    ----------
    X : (n, d) array
    y : (n,) array
    X_new : (m, d) array
    y_new : (m,) array
    width : float
        Width of a bin, where y are counts.
    """

    X: np.ndarray
    y: np.ndarray
    X_new: np.ndarray
    y_new: np.ndarray
    width: float = 1.0

    @property
    def d(self) -> int:
        """Number of features."""
        return self.X.shape[1]


def available(name: str) -> bool:
    """Whether the file of a data set is there, if it needs one."""
    file = FILES.get(name.split()[0])
    return file is None or _path(file).is_file()


def coal(split: int) -> Data:
    """Counts of half of the disasters in bins, and of the other half in the same ones; the authors' splits."""
    dates = datasets.load("coal").X[:, 0]
    edges = np.linspace(dates.min(), dates.max(), BINS + 1)
    # The split of the authors is NumPy's old permutation of this seed.
    order = np.random.RandomState(split).permutation(len(dates))
    seen, held_out = (np.histogram(dates[part], edges)[0] for part in np.split(order, [DISASTERS]))
    X = (0.5 * (edges[1:] + edges[:-1]) - edges[0])[:, None]
    return Data(X, seen, X, held_out, float(edges[1] - edges[0]))


def pines(side: int) -> Data:
    """Counts of trees on a square grid with this number of squares along a side; nothing is held out."""
    counts, X = saplings.counts(side), saplings.middles(side)
    return Data(X, counts, X[:0], counts[:0], (saplings.SIDE / side) ** 2)


def gaussians(rng: np.random.Generator, n: int) -> Data:
    """n points of three Gaussians in the plane, and as many held out."""
    labels = rng.integers(0, len(GAUSSIANS), 2 * n)
    means, covariances = (np.array(part) for part in zip(*GAUSSIANS, strict=True))
    factors = np.linalg.cholesky(covariances)
    X = means[labels] + np.einsum("nij,nj->ni", factors[labels], rng.standard_normal((2 * n, 2)))
    return Data(X[:n], labels[:n], X[n:], labels[n:])


def two_classes(name: str, rng: np.random.Generator, seen: int, held_out: int) -> Data:
    """A number of rows of image, eeg, or one of :mod:`pmgp.datasets`, standardized using those that are seen."""
    found = datasets.read_csv(_path(FILES[name]), label="y") if name in FILES else datasets.load(name)
    X, y = _without_outliers(found.X, found.y) if name == "eeg" else (found.X, found.y)
    order = rng.permutation(len(y))[: seen + held_out]
    train, test = np.split(order, [seen])
    transform = datasets.Standardizer.fit(X[train]).transform
    return Data(transform(X[train]), y[train], transform(X[test]), y[test])


def _without_outliers(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Without the rows in which a sensor failed, which would make the others' standard deviations nothing."""
    median = np.median(X, axis=0)
    far = np.abs(X - median) / np.median(np.abs(X - median), axis=0)
    kept = (far < 100.0).all(axis=1)
    return X[kept], y[kept]


def digits(rng: np.random.Generator, seen: int, held_out: int) -> Data:
    """Some of the 60,000 and of the 10,000 scans, pixels between -1 and 1."""
    with np.load(_path(FILES["mnist"])) as file:
        pick = partial(_some, rng)
        (X, y), (X_new, y_new) = (
            pick(file[f"x_{part}"], file[f"y_{part}"], count) for part, count in (("train", seen), ("test", held_out))
        )
    return Data(X, y, X_new, y_new)


def _some(rng: np.random.Generator, scans: np.ndarray, labels: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    chosen = np.sort(rng.permutation(len(labels))[:count])
    return scans[chosen].reshape(len(chosen), -1) / 127.5 - 1.0, labels[chosen].astype(int)


def load(name: str, split: int, seed: int, seen: int, held_out: int) -> Data:
    """A data set by name; sizes are for data of which a part is taken.

    Parameters
    ----------
    name : str
        "coal", "pines 32", "toy", "mnist", or one of two classes.
    split : int
    seed : int
    seen, held_out : int
    """
    rng = stream(seed, "data", name, split)
    if name == "coal":
        return coal(split)
    if name.startswith("pines"):
        return pines(int(name.split()[1]))
    if name == "toy":
        return gaussians(rng, seen)
    return digits(rng, seen, held_out) if name == "mnist" else two_classes(name, rng, seen, held_out)


def _path(file: str) -> Path:
    return Path(os.environ.get("PMGP_DATA", "")) / file
