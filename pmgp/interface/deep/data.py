"""Inputs and observations of a deep process, checked before training begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pmgp.core.numerics.arrays import numbers

RANGES = {"binary": "0 or 1", "classes": "integers from 0", "counts": "integers from 0"}


def columns_of(X: Any) -> list[str]:
    """Return the names of a DataFrame's columns; none for an array."""
    return [str(name) for name in getattr(X, "columns", ())]


def checked_inputs(X: Any, columns: int | None = None, names: Sequence[str] = ()) -> np.ndarray:
    """Return X as an array of finite floats of shape (n, d): that many columns, with these names if both have names."""
    values = numbers("X", X)
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(f"X has shape {values.shape}: give one row for each point and at least one column")
    _refuse_first(~np.isfinite(values).all(axis=1), "X", "has a value that is not finite: drop or impute it")
    if columns is not None and values.shape[1] != columns:
        raise ValueError(f"X has {values.shape[1]} columns, but the process was fitted to {columns}")
    if names and (given := columns_of(X)) and given != names:
        raise ValueError(
            f"X has the columns {', '.join(given)}, but the process was fitted to {', '.join(names)}: give the same "
            "columns in the same order"
        )
    return values


def checked_observations(y: Any, number: int, labels: str | None, classes: int | None = None) -> np.ndarray:
    """Return observations as an array of floats of shape (n,), in the range of the likelihood, or of known classes."""
    values = numbers("y", y)
    if values.shape != (number,):
        raise ValueError(f"y has shape {values.shape}, but X has {number} rows: give one observation for each")
    _refuse_first(~np.isfinite(values), "y", "is not finite: drop or impute it")
    if labels is not None:
        outside = (values < 0) | (values != np.round(values)) | ((labels == "binary") & (values > 1))
        row = int(np.argmax(outside))
        _refuse_first(outside, "y", f"is {values[row]:g}: this likelihood takes {RANGES[labels]}")
    if labels == "classes" and classes is not None:
        row = int(np.argmax(values >= classes))
        _refuse_first(values >= classes, "y", f"is {values[row]:g}, but the process was fitted to {classes} classes")
    return values


def _refuse_first(refused: np.ndarray, name: str, reason: str) -> None:
    if refused.any():
        raise ValueError(f"row {int(np.argmax(refused))} of {name} {reason}")
