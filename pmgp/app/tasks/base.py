"""A problem to be sampled, and what a kind of label has to offer to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd
    import pymc as pm
    import xarray as xr
    from matplotlib.figure import Figure

    from pmgp.app.settings import Settings
    from pmgp.datasets import Dataset, Standardizer

__all__ = ["Inducing", "Picture", "Problem", "Scores", "Task"]


type Inducing = NDArray[np.float64] | None
"""Inducing inputs (m, d) of an approximation, None for none."""


class Picture(NamedTuple):
    """A figure to be drawn when it is needed; its name is that of its file."""

    name: str
    title: str
    caption: str
    draw: Callable[[], Figure]


class Scores(NamedTuple):
    """Scores of the predictions, and of predictions that know no feature, by the same names."""

    model: dict[str, float]
    baseline: dict[str, float]


class Problem(NamedTuple):
    """What is to be sampled and predicted.

    ``X_train`` (n, d) and ``X_test`` (m, d) are standardized, and so are the ``inducing`` inputs, which are None for
    the exact chain; ``model`` is that of the training part.
    """

    settings: Settings
    task: Task
    dataset: Dataset
    train: Dataset
    test: Dataset
    X_train: NDArray[np.float64]
    X_test: NDArray[np.float64]
    inducing: Inducing
    model: pm.Model
    standardizer: Standardizer

    @property
    def notices(self) -> list[str]:
        """What a reader has to know of the data and of the model."""
        return [*self.dataset.notices, *_forecast(self), *_approximated(self)]


class Task(Protocol):
    """A kind of label.

    Attributes
    ----------
    title : str
        What is done, for headings.
    kind : {"binary", "counts", "ordered", "classes"}
        The label, as :func:`pmgp.datasets.read_csv` calls it.
    hyperparameters : tuple of str
        Variables of the model that are summarized.
    score_names : dict of str to str
        What the scores are called in a report.
    baseline : str
        What knows no feature, and predictions are compared with; empty without a comparison.
    """

    @property
    def title(self) -> str: ...  # noqa: D102
    @property
    def kind(self) -> Literal["binary", "counts", "ordered", "classes"]: ...  # noqa: D102
    @property
    def hyperparameters(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def score_names(self) -> dict[str, str]: ...  # noqa: D102
    @property
    def baseline(self) -> str: ...  # noqa: D102

    def model(
        self,
        X: NDArray[np.float64],
        train: Dataset,
        kernel: str,
        likelihood: str,
        inducing: Inducing = None,
        in_time: bool = False,
    ) -> pm.Model:
        """Build the model of the training part; X holds its standardized inputs, on whose scale are inducing ones.

        ``in_time`` says that the only feature is time.
        """
        ...

    def predict(self, problem: Problem, idata: xr.DataTree) -> pd.DataFrame:
        """Predict the test part: one row a point, with the column ``row`` in the data set."""
        ...

    def score(self, problem: Problem, predictions: pd.DataFrame) -> Scores:
        """Score the predictions."""
        ...

    def describe(self, problem: Problem) -> list[tuple[str, str]]:
        """Describe the label in names and values."""
        ...

    def pictures(self, problem: Problem, predictions: pd.DataFrame) -> Iterator[Picture]:
        """Draw the predictions."""
        ...


def _forecast(problem: Problem) -> list[str]:
    """Say which points are the test part of a series."""
    if problem.settings.time is None or not problem.test.n:
        return []
    return [f"the last {problem.test.n} points in time are the test part, which is forecast from the others"]


def _approximated(problem: Problem) -> list[str]:
    """Say that the run is an approximation, and why."""
    if problem.inducing is None:
        return []
    settings, n = problem.settings, problem.train.n
    said = f"{n} training points are seen through {len(problem.inducing)} inducing inputs"
    if not settings.sparse:
        said += ", since the exact chain takes more than five minutes for so many (--sparse 0 runs it)"
    said += ": what is sampled is an approximation, and not the posterior"
    if settings.likelihood == "multinomial":
        said += "; classes are by the largest latent value, and not by softmax"
    return [said]
