"""One run from a data set to a report: load, split, standardize, sample, predict, score, write."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmgp.datasets import Dataset, Standardizer, available, load, read_csv, train_test_split

if TYPE_CHECKING:
    import pandas as pd
    import pymc as pm
    import xarray as xr
    from rich.console import Console

__all__ = ["Outcome", "Problem", "RunError", "Settings", "execute", "prepare", "sample"]

HYPERPARAMETERS = ["lengthscale", "variance"]


class RunError(ValueError):
    """Settings that cannot be run, or a run that gave nothing to report."""


@dataclass(frozen=True)
class Settings:
    """Everything that determines a run; see ``pmgp run --help``.

    ``importance_samples`` is None where the step method chooses the number itself.

    Raises
    ------
    RunError
        If settings contradict each other or cannot be; nothing is loaded to find that out.
    """

    data: str
    out: Path
    label: str | None = None
    kernel: str = "rbf"
    likelihood: str = "probit"
    approximation: str = "ep"
    estimator: str = "importance"
    importance_samples: int | None = None
    draws: int = 1000
    tune: int = 1000
    chains: int = 2
    cores: int = 2
    seed: int = 1
    test_fraction: float = 0.2

    def __post_init__(self) -> None:
        if not 0 <= self.test_fraction < 1:
            raise RunError(f"--test-fraction must be in [0, 1), it is {self.test_fraction}")
        if self.out.exists() and not self.out.is_dir():
            raise RunError(f"--out {self.out} is a file, a folder is needed")
        if self.is_named and self.label is not None:
            raise RunError(f"--label is for CSV files; the label of {self.data} is known")

    @property
    def is_named(self) -> bool:
        """Whether the data set is one of the catalogue, not a file."""
        return self.data in available()

    def command(self) -> str:
        """Return the command line that repeats the run."""
        options = {
            "label": self.label,
            "kernel": self.kernel,
            "likelihood": self.likelihood,
            "approximation": self.approximation,
            "estimator": self.estimator,
            "importance-samples": self.importance_samples or "auto",
            "draws": self.draws,
            "tune": self.tune,
            "chains": self.chains,
            "cores": self.cores,
            "seed": self.seed,
            "test-fraction": self.test_fraction,
            "out": self.out,
        }
        words = ["pmgp", "run", self.data]
        for option, value in options.items():
            words += [] if value is None else [f"--{option}", str(value)]
        return shlex.join(words)


class Problem(NamedTuple):
    """A data set made ready: its parts, the standardized test inputs (m, d), and the model."""

    dataset: Dataset
    train: Dataset
    test: Dataset
    X_test: NDArray[np.float64]
    model: pm.Model


@dataclass(frozen=True)
class Outcome:
    """What a run produced.

    ``predictions`` has one row a test point; it is None, and ``scores`` empty, without a test part.
    ``seconds`` are wall-clock times of the parts of the run.
    """

    settings: Settings
    problem: Problem
    idata: xr.DataTree
    predictions: pd.DataFrame | None
    scores: dict[str, float]
    operations: dict[str, float]
    efficiency: dict[str, float | str]
    seconds: dict[str, float]

    @property
    def shortfall(self) -> str | None:
        """How much less than asked for was drawn, None for a complete run."""
        sizes = self.idata["posterior"].sizes
        asked = self.settings
        if (sizes["chain"], sizes["draw"]) == (asked.chains, asked.draws):
            return None
        return (
            f"sampling was interrupted: {sizes['chain']} chains of {sizes['draw']} draws instead "
            f"of {asked.chains} of {asked.draws}"
        )


def execute(settings: Settings, console: Console) -> Outcome:
    """Run everything and write the results into ``settings.out``.

    Parameters
    ----------
    settings : Settings
        What to run.
    console : rich.console.Console
        Where progress and results are printed.

    Raises
    ------
    DatasetError, RunError
        For data that do not fit, and for a run interrupted before its first draw.
    ModelError
        If the step method refuses the model.
    """
    problem = prepare(settings)
    settings.out.mkdir(parents=True, exist_ok=True)
    from pmgp import report

    report.print_problem(console, settings, problem)
    start = time.perf_counter()
    idata = sample(problem.model, settings)
    sampled = time.perf_counter()
    # First of all the draws, which took long: whatever fails later, they are on disk.
    report.save_posterior(idata, settings.out)
    predictions, scores = predict(problem, idata)
    seconds = {"sampling": sampled - start, "prediction": time.perf_counter() - sampled}
    outcome = measure(settings, problem, idata, predictions, scores, seconds)
    report.print_outcome(console, outcome)
    report.write(outcome)
    console.print(f"\nreport: {settings.out / 'report.html'}", markup=False, soft_wrap=True)
    return outcome


def prepare(settings: Settings) -> Problem:
    """Load and split the data, standardize on the training part only, and build the model.

    Raises
    ------
    DatasetError
        As :func:`pmgp.datasets.load`, :func:`pmgp.datasets.read_csv` and the split.
    RunError
        If the data set has no two classes.
    """
    dataset = _load(settings)
    if dataset.classes is None:
        raise RunError(f"{dataset.name} has no two classes, and pmgp run classifies")
    train, test = train_test_split(dataset, settings.test_fraction, settings.seed)
    standardizer = Standardizer.fit(train.X)
    from pmgp.models import classifier

    assert train.y is not None
    model = classifier(
        standardizer.transform(train.X),
        train.y,
        settings.kernel,
        settings.likelihood,
        train.feature_names,
    )
    return Problem(dataset, train, test, standardizer.transform(test.X), model)


def _load(settings: Settings) -> Dataset:
    """Load by name or from a file; what looks like neither gets the error that lists the names."""
    path = Path(settings.data)
    if settings.is_named or not (path.suffix or path.is_file()):
        return load(settings.data)
    return read_csv(path, settings.label)


def sample(model: pm.Model, settings: Settings) -> xr.DataTree:
    """Sample the model with the pseudo-marginal step method.

    Ctrl-C ends sampling early; PyMC then returns what there is.

    Raises
    ------
    RunError
        If sampling failed or was interrupted before the first draw after tuning.
    """
    import pymc as pm
    from pymc.exceptions import SamplingError

    from pmgp import ImportanceSampling, PseudoMarginal

    chosen = settings.importance_samples
    estimator = settings.estimator if chosen is None else ImportanceSampling(draws=chosen)
    try:
        with model:
            step = PseudoMarginal(approximation=settings.approximation, estimator=estimator)
            return pm.sample(
                draws=settings.draws,
                tune=settings.tune,
                chains=settings.chains,
                cores=settings.cores,
                step=step,
                random_seed=settings.seed,
            )
    except SamplingError as error:
        raise RunError(str(error)) from error
    except ValueError as error:
        # PyMC's own words for an interruption during tuning.
        if "Not enough samples" in str(error):
            raise RunError("interrupted while tuning, so there are no draws") from error
        raise


def predict(problem: Problem, idata: xr.DataTree) -> tuple[pd.DataFrame | None, dict[str, float]]:
    """Predict the test points and score the predictions; (None, {}) without test points.

    The table has columns ``row`` (in the data set, from 0), ``label``, ``probability`` (of label
    1), ``latent_mean`` and ``latent_sd``.
    """
    if not problem.test.n:
        return None, {}
    import pandas as pd

    import pmgp
    from pmgp import scores

    prediction = pmgp.predict(idata, problem.X_test, model=problem.model)
    table = pd.DataFrame(
        {
            "row": problem.test.rows,
            "label": problem.test.y,
            "probability": prediction["probability"],
            "latent_mean": prediction["latent_mean"],
            "latent_sd": np.sqrt(prediction["latent_variance"]),
        }
    )
    return table, scores.summarize(table["label"], table["probability"])


def measure(
    settings: Settings,
    problem: Problem,
    idata: xr.DataTree,
    predictions: pd.DataFrame | None,
    scores: dict[str, float],
    seconds: dict[str, float],
) -> Outcome:
    """Add cost and efficiency of the sampler to the results; a few draws have no efficiency."""
    from pmgp import diagnostics

    enough = idata["posterior"].sizes["draw"] >= diagnostics.MIN_DRAWS
    return Outcome(
        settings=settings,
        problem=problem,
        idata=idata,
        predictions=predictions,
        scores=scores,
        operations=diagnostics.operation_counts(idata),
        efficiency=diagnostics.ess_per_second(idata, HYPERPARAMETERS) if enough else {},
        seconds=seconds,
    )
