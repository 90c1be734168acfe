"""Labels of ordered categories."""

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
    "log_loss": "log loss (nats per point)",
    "ranked_probability_score": "ranked probability score (low is good)",
}


@dataclass(frozen=True)
class OrdinalTask:
    """Regression of ordered categories with the likelihood ``ordinal``."""

    title: str = "ordinal regression"
    kind: Literal["ordered"] = "ordered"
    hyperparameters: tuple[str, ...] = ("lengthscale", "variance", "cutpoints")
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
        """Build the ordinal regression."""
        from pmgp.models import ordinal_regression

        assert train.y is not None
        return ordinal_regression(X, train.y, class_names(train), kernel, train.feature_names, inducing, in_time)

    def predict(self, problem: Problem, idata: xr.DataTree) -> pd.DataFrame:
        """Predict the probability of each category, with the moments of the latent function."""
        import pandas as pd

        import pmgp

        prediction = pmgp.predict(idata, problem.X_test, model=problem.model)
        columns = class_columns(problem.test, prediction)
        columns["latent_mean"] = prediction["latent_mean"].to_numpy()
        columns["latent_sd"] = np.sqrt(prediction["latent_variance"].to_numpy())
        return pd.DataFrame(columns)

    def score(self, problem: Problem, predictions: pd.DataFrame) -> Scores:
        """Score the probabilities, beside the frequencies in the training part."""
        from pmgp.scores import ordinal

        y = problem.test.y
        assert y is not None
        return Scores(
            ordinal.summarize(y, probabilities(problem, predictions)),
            ordinal.summarize(y, np.tile(frequencies(problem.train), (problem.test.n, 1))),
        )

    def describe(self, problem: Problem) -> list[tuple[str, str]]:
        """Return the categories in order, with their sizes."""
        y = problem.train.y
        assert y is not None
        sizes = [f"{name} ({(y == k).sum()})" for k, name in enumerate(class_names(problem.dataset))]
        return [("categories", f"{' < '.join(sizes)} of {problem.dataset.label} (training points)")]

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
