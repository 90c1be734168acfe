"""Tables of predicted probabilities, with a column for each class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from pmgp.app.tasks.base import Problem
    from pmgp.datasets import Dataset

PREFIX = "probability_"
"""Prefix of the columns of predicted probabilities, before the name of the class."""


def class_names(part: Dataset) -> tuple[str, ...]:
    """Return the names of the classes 0, 1 and so on."""
    assert part.classes is not None
    return part.classes


def class_columns(test: Dataset, prediction: xr.Dataset) -> dict[str, Any]:
    """Return columns with each point's row, label, most probable class, and probability of each class."""
    values = prediction["probabilities"].transpose("point", "category").to_numpy()
    names = np.array(class_names(test))
    columns = {"row": test.rows, "label": names[test.y], "most_probable": names[values.argmax(axis=1)]}
    return columns | {PREFIX + name: column for name, column in zip(names, values.T, strict=True)}


def probabilities(problem: Problem, predictions: pd.DataFrame) -> NDArray[np.float64]:
    """Return the probabilities (m, r) of a table of predictions."""
    return predictions[[PREFIX + name for name in class_names(problem.dataset)]].to_numpy(dtype=np.float64)


def frequencies(train: Dataset) -> NDArray[np.float64]:
    """Return the fraction of each class (r,), which is the prediction without features."""
    assert train.y is not None
    return np.bincount(train.y.astype(np.intp), minlength=len(class_names(train))) / train.n
