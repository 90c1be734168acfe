"""Labels that are measurements, with normal noise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from pmgp.app.tasks.base import Drawn, Inducing, Picture, Scores, Task

if TYPE_CHECKING:
    import pandas as pd
    import pymc as pm
    import xarray as xr

    from pmgp.app.settings import Settings
    from pmgp.app.tasks.base import Problem
    from pmgp.datasets import Dataset

EXACT_ROWS = 4_000
"""Up to this many training points, some six hundred factorizations take minutes and not hours."""
DRAWS = 400
"""The largest number of independent draws that are asked for."""


class RegressionTask(Task):
    """Regression with normal noise, with the likelihood ``normal``."""

    title = "regression"
    kind = "measurements"
    hyperparameters = ("lengthscale", "variance", "noise")
    score_names: ClassVar[dict[str, str]] = {
        "log_density": "log density (nats per point, high is good)",
        "mean_absolute_error": "mean absolute error (units of the measurements)",
        "root_mean_squared_error": "root mean squared error (units of the measurements)",
    }
    baseline = "without features"
    terms: ClassVar[tuple[tuple[str, str], ...]] = (
        (
            "level",
            "constant; a priori normal, with mean and standard deviation of the measurements; integrated out",
        ),
    )

    def model(self, X: NDArray[np.float64], train: Dataset, settings: Settings, inducing: Inducing) -> pm.Model:
        """Build the regression."""
        from pmgp.models import regression

        assert train.y is not None
        return regression(X, train.y, settings.kernel, train.feature_names)

    def remarks(self, problem: Problem) -> list[str]:
        """Return a notice that there are too many points for draws of the hyper-parameters."""
        if not _many(problem):
            return []
        n = problem.train.n
        return [
            f"{n} training points are more than {_exact_rows(problem)}, so the hyper-parameters are set to their "
            "maximum, which iterative solvers find, and predictions leave out their uncertainty "
            f"(--exact-rows {n} draws the hyper-parameters, with some six hundred factorizations)"
        ]

    def drawn(self, problem: Problem) -> Drawn | None:
        """Return independent draws of the hyper-parameters, or their maximum; None if weights cannot be trusted."""
        return _maximum(problem) if _many(problem) else _weighted(problem)

    def predict(self, problem: Problem, idata: xr.DataTree, part: Dataset) -> pd.DataFrame:
        """Predict the ``mean`` of each measurement, a central 90% interval, and the log density of the observed one.

        Mean and variance are those of the mixture over the draws; interval and density are those of a normal
        distribution with these, which the report says.
        """
        import pandas as pd

        import pmgp

        found = pmgp.predict(idata, problem.standardizer.transform(part.X), model=problem.model)
        mean, deviation = found["mean"].to_numpy(), np.sqrt(found["variance"].to_numpy())
        low, high = norm(mean, deviation).interval(0.9)
        return pd.DataFrame(
            {
                "row": part.rows,
                **({} if part.y is None else {"label": part.y}),
                "mean": mean,
                "sd": deviation,
                "low": low,
                "high": high,
                **({} if part.y is None else {"log_density": norm.logpdf(part.y, mean, deviation)}),
                "latent_mean": found["latent_mean"],
                "latent_sd": np.sqrt(found["latent_variance"]),
            }
        )

    def score(self, problem: Problem, predictions: pd.DataFrame) -> Scores:
        """Score the predictions, and for comparison the normal distribution of the training part."""
        from pmgp.scores import counts

        y, trained = problem.test.y, problem.train.y
        assert y is not None
        assert trained is not None
        mean = np.full(len(y), trained.mean())
        return Scores(
            counts.summarize(predictions["label"], predictions["mean"], predictions["log_density"]),
            counts.summarize(y, mean, norm.logpdf(y, mean, trained.std())),
        )

    def describe(self, problem: Problem) -> list[tuple[str, str]]:
        """Return range, mean and standard deviation of the measurements."""
        y = problem.train.y
        assert y is not None
        said = (
            f"{y.min():.4g} to {y.max():.4g} with mean {y.mean():.4g} and standard deviation {y.std():.4g} in training"
        )
        return [("measurements", f"{problem.dataset.label}, {said}")]

    def pictures(self, problem: Problem, predictions: pd.DataFrame) -> Iterator[Picture]:
        """Yield a picture of measurements against predictions."""
        from pmgp import plots

        yield Picture(
            "measurements",
            "Predicted and observed measurements of the test part",
            "Left, each measurement above its predicted mean; nine in ten should lie within the vertical lines, which "
            "are the intervals of normal distributions with the mean and the variance of all draws. Right, "
            "where the measurements fall in their predictive distributions: "
            "level bars agree with these, a U says that they are too narrow, a hump that they are too wide.",
            lambda: plots.measurements(
                predictions["label"], predictions["mean"], predictions["sd"], problem.dataset.label
            ),
        )


def _exact_rows(problem: Problem) -> int:
    given = problem.settings.exact_rows
    return EXACT_ROWS if given is None else given


def _many(problem: Problem) -> bool:
    return problem.train.n > _exact_rows(problem)


def _maximum(problem: Problem) -> Drawn:
    """Find the maximum along gradients from iterative solutions of linear systems."""
    import arviz as az

    import pmgp

    found = pmgp.find_map(problem.model, solver="iterative", progressbar=True)
    findings = () if found.converged else ("the search ended before it was near the maximum",)
    said = (
        f"The hyper-parameters are at the maximum of their posterior density, with a log-evidence of "
        f"{found.log_evidence:.2f}, after {found.message}."
    )
    values = {name: np.asarray(found.point[name])[None, None] for name in problem.task.hyperparameters}
    ard = {"dims": {"lengthscale": ["feature"]}, "coords": {"feature": list(problem.train.feature_names)}}
    idata = az.from_dict({"posterior": values}, **(ard if problem.settings.kernel == "ard" else {}))
    return Drawn(idata, said, True, findings)


def _weighted(problem: Problem) -> Drawn | None:
    """Draw by importance sampling from the maximum, unless the weights cannot be trusted."""
    from pmgp.interface.executors import executor_of
    from pmgp.interface.sampling.weighted import weighted

    settings = problem.settings
    executor = executor_of(settings.workers, settings.cluster)
    needed = min(DRAWS, settings.draws * settings.chains)
    found = weighted(problem.model, needed, settings.seed, executor, None, progressbar=True, quiet=False)
    if found is None:
        return None
    said = (
        f"Independent draws of the hyper-parameters, by importance sampling from their maximum: {found.attrs['words']}."
    )
    return Drawn(found, said)
