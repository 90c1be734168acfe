"""Labels of several classes that have no order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from pmgp.app.tasks.base import Inducing, Picture, Scores
from pmgp.app.tasks.probabilities import class_columns, class_names, frequencies, probabilities

if TYPE_CHECKING:
    import pandas as pd
    import pymc as pm
    import xarray as xr

    from pmgp.app.tasks.base import Problem
    from pmgp.datasets import Dataset

_SCORES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy (mean over classes)",
    "log_loss": "log loss (nats per point)",
    "brier_score": "Brier score (summed over classes, 0 to 2)",
}


@dataclass(frozen=True)
class ClassTask:
    """Classification with a process for each class and the likelihood ``multinomial``."""

    title: str = "classification of several classes"
    kind: Literal["classes"] = "classes"
    hyperparameters: tuple[str, ...] = ("lengthscale", "variance")
    score_names: dict[str, str] = field(default_factory=lambda: _SCORES)
    baseline: str = "class frequencies"

    def model(
        self,
        X: NDArray[np.float64],
        train: Dataset,
        kernel: str,
        likelihood: str,
        inducing: Inducing = None,
        in_time: bool = False,
    ) -> pm.Model:
        """Build the classifier."""
        from pmgp.models import multiclass_classifier

        assert train.y is not None
        return multiclass_classifier(X, train.y, class_names(train), kernel, train.feature_names, inducing)

    def predict(self, problem: Problem, idata: xr.DataTree) -> pd.DataFrame:
        """Predict the probability of each class, with the moments of its latent function."""
        import pandas as pd

        import pmgp

        prediction = pmgp.predict(idata, problem.X_test, model=problem.model)
        columns = class_columns(problem.test, prediction)
        mean, spread = prediction["latent_mean"].to_numpy(), np.sqrt(prediction["latent_variance"].to_numpy())
        for k, name in enumerate(class_names(problem.test)):
            columns |= {f"latent_mean_{name}": mean[k], f"latent_sd_{name}": spread[k]}
        return pd.DataFrame(columns)

    def score(self, problem: Problem, predictions: pd.DataFrame) -> Scores:
        """Score the probabilities, beside the frequencies in the training part."""
        from pmgp.scores import classes

        y = problem.test.y
        assert y is not None
        return Scores(
            classes.summarize(y, probabilities(problem, predictions)),
            classes.summarize(y, np.tile(frequencies(problem.train), (problem.test.n, 1))),
        )

    def describe(self, problem: Problem) -> list[tuple[str, str]]:
        """Return the names of the classes, with their sizes."""
        y = problem.train.y
        assert y is not None
        sizes = [f"{name} ({(y == k).sum()})" for k, name in enumerate(class_names(problem.dataset))]
        return [("classes", f"{', '.join(sizes)} of {problem.dataset.label} (training points), without an order")]

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
