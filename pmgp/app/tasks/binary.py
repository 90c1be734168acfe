"""Labels of two classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

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


class BinaryTask(Task):
    """Classification with the likelihoods ``probit`` and ``logit``."""

    title = "classification"
    kind = "binary"
    score_names: ClassVar[dict[str, str]] = {
        "accuracy": "accuracy",
        "log_loss": "log loss (nats per point)",
        "brier_score": "Brier score",
        "auc": "AUC",
    }

    def model(self, X: NDArray[np.float64], train: Dataset, settings: Settings, inducing: Inducing) -> pm.Model:
        """Build the classifier."""
        from pmgp.models import classifier

        assert train.y is not None
        kernel, likelihood, in_time = settings.kernel, settings.likelihood, settings.time is not None
        return classifier(X, train.y, kernel, likelihood, train.feature_names, inducing, in_time)

    def predict(self, problem: Problem, idata: xr.DataTree, part: Dataset) -> pd.DataFrame:
        """Predict the ``probability`` of label 1 and that of label 0, with the moments of the latent function."""
        import pandas as pd

        import pmgp

        prediction = pmgp.predict(idata, problem.standardizer.transform(part.X), model=problem.model)
        return pd.DataFrame(
            {
                "row": part.rows,
                **({} if part.y is None else {"label": part.y}),
                "probability": prediction["probability"],
                "complement": prediction["complement"],
                "latent_mean": prediction["latent_mean"],
                "latent_sd": np.sqrt(prediction["latent_variance"]),
            }
        )

    def score(self, problem: Problem, predictions: pd.DataFrame) -> Scores:
        """Score the probabilities."""
        from pmgp import scores

        columns = (predictions[name] for name in ("label", "probability", "complement"))
        return Scores(scores.summarize(*columns), {})

    def describe(self, problem: Problem) -> list[tuple[str, str]]:
        """Return the names of the classes, with their sizes."""
        classes, y = problem.dataset.classes, problem.train.y
        assert classes is not None
        assert y is not None
        return [(f"class {k}", f"{classes[k]} ({(y == k).sum()} of the training points)") for k in (0, 1)]

    def pictures(self, problem: Problem, predictions: pd.DataFrame) -> Iterator[Picture]:
        """Yield a picture of the calibration."""
        from pmgp import plots

        classes = problem.dataset.classes
        assert classes is not None
        yield Picture(
            "calibration",
            "Calibration on the test part",
            "Observed frequency against predicted probability, in ten bins of probability; intervals "
            "that reach the diagonal agree with perfect calibration. Below, the distribution of the predictions.",
            lambda: plots.calibration(predictions["label"], predictions["probability"], (classes[0], classes[1])),
        )
