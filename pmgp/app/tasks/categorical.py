"""Labels of several classes, with or without an order."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pmgp.app.tasks.base import Inducing, Picture, Scores, Task

if TYPE_CHECKING:
    import pandas as pd
    import pymc as pm
    import xarray as xr

    from pmgp.app.settings import Settings
    from pmgp.app.tasks.base import Problem
    from pmgp.datasets import Dataset

PREFIX = "probability_"
"""Prefix of the columns of predicted probabilities, before the name of the class."""


class CategoricalTask(Task):
    """Labels with more than two values."""

    baseline = "class frequencies"

    @abstractmethod
    def summarize(self, y: NDArray[Any], probabilities: NDArray[np.float64]) -> dict[str, float]:
        """Return the scores of probabilities (m, r)."""

    def predict(self, problem: Problem, idata: xr.DataTree, part: Dataset) -> pd.DataFrame:
        """Predict the most probable class, the probability of each, and the moments of the latent functions."""
        import pandas as pd

        import pmgp

        prediction = pmgp.predict(idata, problem.standardizer.transform(part.X), model=problem.model)
        names = np.array(class_names(part))
        values = prediction["probabilities"].transpose("point", "category").to_numpy()
        columns = {"row": part.rows} | ({} if part.y is None else {"label": names[part.y]})
        columns["most_probable"] = names[values.argmax(axis=1)]
        columns |= {PREFIX + name: column for name, column in zip(names, values.T, strict=True)}
        mean, spread = prediction["latent_mean"].to_numpy(), np.sqrt(prediction["latent_variance"].to_numpy())
        if mean.ndim == 1:
            return pd.DataFrame(columns | {"latent_mean": mean, "latent_sd": spread})
        for k, name in enumerate(names):
            columns |= {f"latent_mean_{name}": mean[k], f"latent_sd_{name}": spread[k]}
        return pd.DataFrame(columns)

    def score(self, problem: Problem, predictions: pd.DataFrame) -> Scores:
        """Score the probabilities, and for comparison the frequencies in the training part."""
        y, train = problem.test.y, problem.train
        assert y is not None
        assert train.y is not None
        frequencies = np.bincount(train.y.astype(np.intp), minlength=len(class_names(train))) / train.n
        return Scores(
            self.summarize(y, probabilities(problem, predictions)),
            self.summarize(y, np.tile(frequencies, (problem.test.n, 1))),
        )


class OrdinalTask(CategoricalTask):
    """Regression of ordered categories with the likelihood ``ordinal``."""

    title = "ordinal regression"
    kind = "ordered"
    hyperparameters = ("lengthscale", "variance", "cutpoints")
    score_names: ClassVar[dict[str, str]] = {
        "accuracy": "accuracy",
        "log_loss": "log loss (nats per point)",
        "ranked_probability_score": "ranked probability score (low is good)",
    }

    def model(self, X: NDArray[np.float64], train: Dataset, settings: Settings, inducing: Inducing) -> pm.Model:
        """Build the ordinal regression."""
        from pmgp.models import ordinal_regression

        assert train.y is not None
        names, in_time = class_names(train), settings.time is not None
        return ordinal_regression(X, train.y, names, settings.kernel, train.feature_names, inducing, in_time)

    def summarize(self, y: NDArray[Any], probabilities: NDArray[np.float64]) -> dict[str, float]:
        """Return the scores of probabilities (m, r)."""
        from pmgp.scores import ordinal

        return ordinal.summarize(y, probabilities)

    def describe(self, problem: Problem) -> list[tuple[str, str]]:
        """Return the categories in order, with their sizes."""
        return [("categories", f"{' < '.join(_sizes(problem))} of {problem.dataset.label} (training points)")]

    def pictures(self, problem: Problem, predictions: pd.DataFrame) -> Iterator[Picture]:
        """Yield a picture of the probabilities of the categories."""
        from pmgp import plots

        y, classes = problem.test.y, class_names(problem.dataset)
        assert y is not None
        yield Picture(
            "categories",
            "Predicted probabilities on the test part",
            "Above, one bar per test point, divided by the probabilities of the categories, with the points of each "
            "observed category side by side: its own color should take up much of its bars. Below, for each division "
            "of the categories in two, the observed frequency of the upper part against its predicted probability.",
            lambda: plots.categories(y, probabilities(problem, predictions), classes),
        )


class ClassTask(CategoricalTask):
    """Classification with a process for each class and the likelihood ``multinomial``."""

    title = "classification of several classes"
    kind = "classes"
    score_names: ClassVar[dict[str, str]] = {
        "accuracy": "accuracy",
        "balanced_accuracy": "balanced accuracy (mean over classes)",
        "log_loss": "log loss (nats per point)",
        "brier_score": "Brier score (summed over classes, 0 to 2)",
    }

    def model(self, X: NDArray[np.float64], train: Dataset, settings: Settings, inducing: Inducing) -> pm.Model:
        """Build the classifier."""
        from pmgp.models import multiclass_classifier

        assert train.y is not None
        return multiclass_classifier(X, train.y, class_names(train), settings.kernel, train.feature_names, inducing)

    def summarize(self, y: NDArray[Any], probabilities: NDArray[np.float64]) -> dict[str, float]:
        """Return the scores of probabilities (m, r)."""
        from pmgp.scores import classes

        return classes.summarize(y, probabilities)

    def describe(self, problem: Problem) -> list[tuple[str, str]]:
        """Return the names of the classes, with their sizes."""
        said = f"{', '.join(_sizes(problem))} of {problem.dataset.label} (training points), without an order"
        return [("classes", said)]

    def pictures(self, problem: Problem, predictions: pd.DataFrame) -> Iterator[Picture]:
        """Yield a picture of the probabilities, the confusion matrix and the reject curve."""
        from pmgp import plots

        y = problem.test.y
        assert y is not None
        yield Picture(
            "classes",
            "Predicted classes of the test part",
            "Above, one bar per test point, divided by the probabilities of the classes, with the points of each "
            "observed class side by side: its own color should take up much of its bars. Below on the left, how many "
            "points of each observed class, a row, have which most probable class, a column. On the right, the "
            "accuracy of the predictions that are made if the least certain points are left undecided: it should rise.",
            lambda: plots.classes(y, probabilities(problem, predictions), class_names(problem.dataset)),
        )


def class_names(part: Dataset) -> tuple[str, ...]:
    """Return the names of the classes 0, 1 and so on."""
    assert part.classes is not None
    return part.classes


def probabilities(problem: Problem, predictions: pd.DataFrame) -> NDArray[np.float64]:
    """Return the probabilities (m, r) of a table of predictions."""
    return predictions[[PREFIX + name for name in class_names(problem.dataset)]].to_numpy(dtype=np.float64)


def _sizes(problem: Problem) -> list[str]:
    """Return the classes, each with its number of training points."""
    y = problem.train.y
    assert y is not None
    return [f"{name} ({(y == k).sum()})" for k, name in enumerate(class_names(problem.dataset))]
