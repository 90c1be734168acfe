"""A problem to be sampled, and the base class of a kind of label."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmgp.datasets.csv_table import few

if TYPE_CHECKING:
    import pandas as pd
    import pymc as pm
    import xarray as xr
    from matplotlib.figure import Figure

    from pmgp.app.settings import Settings
    from pmgp.datasets import Dataset, Standardizer

type Inducing = NDArray[np.float64] | None
"""Inducing inputs (m, d) of an approximation, or None."""


class Picture(NamedTuple):
    """A figure that is drawn only when it is needed; `name` is the name of its file."""

    name: str
    title: str
    caption: str
    draw: Callable[[], Figure]


class Scores(NamedTuple):
    """Scores of the predictions, and of predictions without features, under the same names."""

    model: dict[str, float]
    baseline: dict[str, float]


class Drawn(NamedTuple):
    """Draws that were made without a chain.

    `said` describes them in a sentence, `maximum` says whether there is one draw, the maximum of the posterior, and
    `findings` are problems with their remedies.
    """

    idata: xr.DataTree
    said: str
    maximum: bool = False
    findings: tuple[str, ...] = ()


class Problem(NamedTuple):
    """The data and the model to be sampled and predicted.

    ``new`` are rows without labels, or None. ``X_train`` (n, d) is standardized, and so are the ``inducing`` inputs,
    which are None for the exact chain; ``model`` is that of the training part.
    """

    settings: Settings
    task: Task
    dataset: Dataset
    train: Dataset
    test: Dataset
    new: Dataset | None
    X_train: NDArray[np.float64]
    inducing: Inducing
    model: pm.Model
    standardizer: Standardizer

    @property
    def notices(self) -> list[str]:
        """Notices about the data and the model for a reader."""
        return [*self.dataset.notices, *_forecast(self), *_of_new_rows(self), *self.task.remarks(self)]


class Task(ABC):
    """A kind of label.

    `hyperparameters` are the variables of the model that are summarized, and `score_names` are shown in a report.
    `baseline` names the predictions without features that serve as comparison; it is empty without a comparison.
    """

    title: ClassVar[str]
    kind: ClassVar[Literal["binary", "counts", "ordered", "classes", "measurements"]]
    hyperparameters: ClassVar[tuple[str, ...]] = ("lengthscale", "variance")
    score_names: ClassVar[dict[str, str]]
    baseline: ClassVar[str] = ""
    terms: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Names and descriptions of terms of the model that have no hyper-parameter."""

    @abstractmethod
    def model(self, X: NDArray[np.float64], train: Dataset, settings: Settings, inducing: Inducing) -> pm.Model:
        """Build the model of the training part; X and `inducing` are standardized inputs."""

    def drawn(self, problem: Problem) -> Drawn | None:
        """Return draws that need no chain, or None if a chain is to be run."""
        return None

    def remarks(self, problem: Problem) -> list[str]:
        """Return notices about the way in which the problem is solved."""
        return _approximated(problem)

    @abstractmethod
    def predict(self, problem: Problem, idata: xr.DataTree, part: Dataset) -> pd.DataFrame:
        """Predict a part of the data or new rows: one row for each point, with the column ``row`` in the file.

        Columns that need labels are left out if the part has none.
        """

    @abstractmethod
    def score(self, problem: Problem, predictions: pd.DataFrame) -> Scores:
        """Score the predictions."""

    @abstractmethod
    def describe(self, problem: Problem) -> list[tuple[str, str]]:
        """Return names and values that describe the label."""

    @abstractmethod
    def pictures(self, problem: Problem, predictions: pd.DataFrame) -> Iterator[Picture]:
        """Yield pictures of the predictions."""


def _forecast(problem: Problem) -> list[str]:
    """Return a notice that names the test part of a series."""
    if problem.settings.time is None or not problem.test.n:
        return []
    return [f"the last {problem.test.n} points in time are the test part, which is forecast from the others"]


def _of_new_rows(problem: Problem) -> list[str]:
    """Return notices of new rows, among them those outside the range of a feature in the training part."""
    if problem.new is None:
        return []
    notices = list(problem.new.notices)
    X, names = problem.new.X, np.array(problem.new.feature_names)
    low, high = problem.train.X.min(axis=0), problem.train.X.max(axis=0)
    outside = (low > X) | (high < X)
    if problem.settings.time is None and outside.any():
        notices.append(
            f"{outside.any(axis=1).sum()} of {problem.new.n} new rows are outside the range of the training part in "
            f"{few(names[outside.any(axis=0)].tolist())}: far from the data, predictions follow from the prior"
        )
    return notices


def _approximated(problem: Problem) -> list[str]:
    """Return a notice that the run is an approximation, with the reason."""
    if problem.inducing is None:
        return []
    settings, n = problem.settings, problem.train.n
    said = f"{n} training points are approximated with {len(problem.inducing)} inducing inputs"
    if not settings.sparse:
        said += ", because the exact chain takes more than five minutes for this many (--sparse 0 runs it)"
    said += ": the draws come from an approximation, not from the posterior"
    if settings.likelihood == "multinomial":
        said += "; the class is that of the largest latent value, without a softmax"
    return [said]
