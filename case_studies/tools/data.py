"""Data sets of the folder that ``PMGP_DATA`` names, split into rows that are seen and rows that are held out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from case_studies.tools.stream import stream
from pmgp.datasets import Standardizer

__all__ = ["CLASSES", "FILES", "LABELS", "NUMBERS", "Data", "available", "load", "whole"]

NUMBERS = {"concrete": "concrete.csv", "powerplant": "powerplant.csv", "protein": "protein.csv.gz"}
LABELS = {"credit": "credit_german_numeric.csv", "spam": "spam.csv", "eeg": "eeg.csv.gz"}
CLASSES = {"mnist": "mnist.npz"}
CENSUS = {"census": "census_house8L.csv.gz"}
FILES = NUMBERS | LABELS | CLASSES | CENSUS
FARTHEST = 100.0
"""Median absolute deviations beyond which a sensor has failed."""


class Data(NamedTuple):
    """Rows that are seen and rows that are held out; inputs (n, d), and numbers, labels 0 and 1, or classes (n,)."""

    X: np.ndarray
    y: np.ndarray
    X_new: np.ndarray
    y_new: np.ndarray


def available(name: str) -> bool:
    """Whether the file of a data set is there."""
    return _path(name).is_file()


def load(name: str, fold: int, seed: int, seen: float, held_out: int) -> Data:
    """Draw a split of one of :data:`FILES`, standardized by the rows that are seen.

    Parameters
    ----------
    name : str
    fold : int
    seed : int
    seen : float
        The share of the rows that is seen.
    held_out : int
        Largest number of the other rows, which for MNIST are those of its own split.

    Returns
    -------
    Data
        The numbers of a regression are standardized too.
    """
    if name == "mnist":
        return _digits(stream(seed, "data", name, fold), held_out)
    X, y = whole(name)
    if name == "eeg":
        X, y = _without_failures(X, y)
    if name in LABELS:
        y = (y > 0).astype(float)
    order = stream(seed, "data", name, fold).permutation(len(y))
    first, rest = np.split(order, [round(seen * len(y))])
    transform = Standardizer.fit(X[first]).transform
    if name in NUMBERS:
        y = (y - y[first].mean()) / y[first].std()
    rest = rest[:held_out]
    return Data(transform(X[first]), y[first], transform(X[rest]), y[rest])


def whole(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and the last column of one of :data:`FILES` but MNIST, as they are in its file."""
    table = pd.read_csv(_path(name))
    return table.drop(columns="y").to_numpy(dtype=float), table["y"].to_numpy(dtype=float)


def _digits(rng: np.random.Generator, held_out: int) -> Data:
    with np.load(_path("mnist")) as file:
        parts = [(file[f"x_{part}"], file[f"y_{part}"]) for part in ("train", "test")]
    (X, y), (X_new, y_new) = ((scans.reshape(len(scans), -1) / 255.0, labels.astype(float)) for scans, labels in parts)
    chosen = rng.permutation(len(y_new))[:held_out]
    return Data(X, y, X_new[chosen], y_new[chosen])


def _without_failures(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Leave out rows in which a sensor failed, which would make the others' standard deviations nothing."""
    median = np.median(X, axis=0)
    kept = (np.abs(X - median) / np.median(np.abs(X - median), axis=0) < FARTHEST).all(axis=1)
    return X[kept], y[kept]


def _path(name: str) -> Path:
    return Path(os.environ.get("PMGP_DATA", "")) / FILES[name]
