"""Data sets fetched from OpenML through scikit-learn, which caches them on disk.

OpenML keeps the features in the order of the original files but has its own names of columns and labels, so features
are taken by position and labels by value; the caller checks the result against the catalogue.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pmgp.datasets.dataset import DatasetError

if TYPE_CHECKING:
    import pandas as pd

Arrays = tuple[NDArray[np.float64], NDArray[np.float64]]

N_SPECT_TRAIN = 80
"""SPECT is one table on OpenML, the training images first."""


def fetch_frame(data_id: int) -> tuple[pd.DataFrame, pd.Series]:
    """Return the features and the target of an OpenML data set, from the cache or the network."""
    try:
        from sklearn.datasets import fetch_openml
    except ImportError as error:
        raise DatasetError('fetching from OpenML needs scikit-learn and pandas: pip install "pmgp[data]"') from error
    try:
        with warnings.catch_warnings():
            # Warnings about retries would repeat the error below.
            warnings.simplefilter("ignore", UserWarning)
            bunch = fetch_openml(data_id=data_id, as_frame=True, parser="auto")
    except (OSError, ValueError) as error:
        raise DatasetError(
            f"OpenML data set {data_id} cannot be fetched ({type(error).__name__}: {error}); "
            "offline, set the environment variable PMGP_DATA to a folder with the CSV files"
        ) from error
    return bunch.data, bunch.target


def from_openml(name: str) -> Arrays:
    """Return inputs (n, d) and labels 0 and 1 (n,) of a data set on OpenML."""
    data_id, convert = _CONVERSIONS[name]
    return convert(*fetch_frame(data_id))


def _is_label(*ones: str) -> Callable[[pd.DataFrame, pd.Series], Arrays]:
    """Return the conversion in which target values ``ones`` are label 1, all others label 0."""

    def convert(features: pd.DataFrame, target: pd.Series) -> Arrays:
        labels = target.astype(str).isin(ones).to_numpy().astype(np.float64)
        return features.to_numpy(dtype=np.float64), labels

    return convert


def _rows(rows: slice) -> Callable[[pd.DataFrame, pd.Series], Arrays]:
    """Return the conversion of one part of SPECT."""

    def convert(features: pd.DataFrame, target: pd.Series) -> Arrays:
        return _is_label("1")(features.iloc[rows], target.iloc[rows])

    return convert


def _abalone(features: pd.DataFrame, target: pd.Series) -> Arrays:
    """Drop the infants; the number of rings, OpenML's target, becomes the last feature."""
    sex = features.iloc[:, 0].astype(str)
    adult = (sex != "I").to_numpy()
    X = np.column_stack([features.iloc[:, 1:].astype(np.float64), target.astype(np.float64)])
    return X[adult], (sex == "M").to_numpy().astype(np.float64)[adult]


_CONVERSIONS: dict[str, tuple[int, Callable[[pd.DataFrame, pd.Series], Arrays]]] = {
    "thyroid": (40682, _is_label("2", "3")),
    "pima": (37, _is_label("tested_positive")),
    "banknote": (1462, _is_label("2")),
    "ionosphere": (59, _is_label("g")),
    "spect": (336, _rows(slice(None, N_SPECT_TRAIN))),
    "spect_test": (336, _rows(slice(N_SPECT_TRAIN, None))),
    "abalone": (183, _abalone),
}
