"""Labels that are counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import poisson

from pmgp.app.tasks.base import Inducing, Picture, Scores, Task
from pmgp.scores.counts import PredictedCounts

if TYPE_CHECKING:
    import pandas as pd
    import pymc as pm
    import xarray as xr

    from pmgp.app.settings import Settings
    from pmgp.app.tasks.base import Problem
    from pmgp.datasets import Dataset

INTERVAL = (0.05, 0.95)


class CountTask(Task):
    """Poisson regression with the likelihood ``poisson``."""

    title = "Poisson regression"
    kind = "counts"
    hyperparameters = ("lengthscale", "variance", "level")
    score_names: ClassVar[dict[str, str]] = {
        "log_density": "log density (nats per point, high is good)",
        "mean_absolute_error": "mean absolute error (counts)",
        "root_mean_squared_error": "root mean squared error (counts)",
    }
    baseline = "constant rate"

    def model(self, X: NDArray[np.float64], train: Dataset, settings: Settings, inducing: Inducing) -> pm.Model:
        """Build the Poisson regression."""
        from pmgp.models import count_regression

        assert train.y is not None
        in_time = settings.time is not None
        return count_regression(X, train.y, settings.kernel, train.feature_names, train.exposure, inducing, in_time)

    def predict(self, problem: Problem, idata: xr.DataTree, part: Dataset) -> pd.DataFrame:
        """Predict the ``mean`` count, a central 90% interval, and probabilities of the observed count.

        The mean is exact; for the others the logarithm of the rate is treated as normal, with its posterior mean and
        variance.
        """
        import pandas as pd

        import pmgp

        # At exposure 1 the model is defined at new inputs too.
        rates = self.model(problem.X_train, replace(problem.train, exposure=None), problem.settings, problem.inducing)
        prediction = pmgp.predict(idata, problem.standardizer.transform(part.X), model=rates)
        y, exposure = part.y, _exposure(part)
        mean, variance = prediction["latent_mean"].to_numpy(), prediction["latent_variance"].to_numpy()
        distribution = PredictedCounts.log_normal(mean, variance, exposure)
        columns = {"row": part.rows} | ({} if y is None else {"label": y})
        if part.exposure is not None:
            columns["exposure"] = exposure
        columns |= {
            "mean": exposure * prediction["mean"].to_numpy(),
            "low": distribution.quantile(INTERVAL[0]),
            "high": distribution.quantile(INTERVAL[1]),
        }
        if y is not None:
            columns |= {
                "log_density": distribution.log_density(y),
                "probability_below": distribution.cumulative(y - 1),
                "probability_up_to": distribution.cumulative(y),
            }
        return pd.DataFrame(columns | {"latent_mean": mean, "latent_sd": np.sqrt(variance)})

    def score(self, problem: Problem, predictions: pd.DataFrame) -> Scores:
        """Score the predictions, and for comparison the constant rate of the training part."""
        from pmgp.scores import counts

        train, test = problem.train, problem.test
        assert train.y is not None
        assert test.y is not None
        constant = train.y.sum() / _exposure(train).sum() * _exposure(test)
        return Scores(
            counts.summarize(predictions["label"], predictions["mean"], predictions["log_density"]),
            counts.summarize(predictions["label"], constant, poisson.logpmf(test.y, constant)),
        )

    def describe(self, problem: Problem) -> list[tuple[str, str]]:
        """Return range, mean and exposure of the counts."""
        y, units = problem.train.y, _exposure(problem.train)
        assert y is not None
        rows = [("counts", f"{problem.dataset.label}, {y.min()} to {y.max()} with mean {y.mean():.3g} in training")]
        if problem.dataset.exposure is not None:
            rate = y.sum() / units.sum()
            rows.append(
                (
                    "exposure",
                    f"{problem.settings.exposure}, {units.min():.3g} to {units.max():.3g}; {rate:.3g} counts per unit",
                )
            )
        return rows

    def pictures(self, problem: Problem, predictions: pd.DataFrame) -> Iterator[Picture]:
        """Yield a picture of counts against predictions."""
        from pmgp import plots

        distributions = PredictedCounts.log_normal(
            predictions["latent_mean"], predictions["latent_sd"] ** 2, _exposure(problem.test)
        )
        yield Picture(
            "counts",
            "Predicted and observed counts of the test part",
            "Left, each count above its predicted mean; nine in ten should lie within the vertical lines, which are "
            "their predictive intervals, and some more where counts are small. Right, where the counts fall in their "
            "predictive distributions: level bars agree with these, a U says that they are too narrow, a hump that "
            "they are too wide.",
            lambda: plots.counts(predictions["label"], distributions, problem.dataset.label),
        )


def _exposure(part: Dataset) -> NDArray[np.float64]:
    return np.ones(part.n) if part.exposure is None else part.exposure
