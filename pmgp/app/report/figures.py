"""The figures of a run, each with its file name and a caption."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from pmgp import plots
from pmgp.app.tasks import Picture
from pmgp.diagnostics import MIN_DRAWS
from pmgp.models import lengthscale_prior

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pmgp.app.outcome import Outcome
    from pmgp.datasets import Dataset


# The command standardizes the features.
FEATURE = "standard deviations of the feature"
UNITS = {
    "lengthscale": "sd of the feature",
    "variance": "variance of f",
    "level": "log-rate",
    "cutpoints": "scale of f",
}

CHAINS = {
    "trace": ("Traces", "Draws of the hyper-parameters in order. Chains that mix look alike and wander quickly."),
    "rank": (
        "Ranks",
        "Distribution of each chain's ranks among all draws, less the uniform one. Chains that sample the same "
        "posterior stay close to zero; a small p-value says that they do not.",
    ),
    "autocorrelation": (
        "Autocorrelation",
        "Correlation of draws against their lag. The faster it falls, the more each draw is worth.",
    ),
    "rhat": (
        "R-hat over iterations",
        "R-hat of the draws up to a point, against that point. Usable draws end below the dashed line and stay there.",
    ),
}
"""Titles and captions of plots of the chains."""


def pictures(outcome: Outcome) -> Iterator[Picture]:
    """Yield the pictures for which there are enough draws; an interrupted run may have only a trace."""
    if outcome.predictions is not None:
        yield from outcome.problem.task.pictures(outcome.problem, outcome.predictions)
    if outcome.trend is not None:
        yield _trend(outcome)
    sizes = outcome.idata["posterior"].sizes
    if sizes["draw"] >= MIN_DRAWS:
        yield _lengthscale(outcome)
    if outcome.drawn is not None:
        return
    yield _of_chains(outcome, plots.trace, units=UNITS)
    if sizes["draw"] >= MIN_DRAWS:
        yield _of_chains(outcome, plots.autocorrelation)
        if sizes["chain"] > 1:
            yield _of_chains(outcome, plots.rank)
            yield _of_chains(outcome, plots.rhat)


def _trend(outcome: Outcome) -> Picture:
    problem, table = outcome.problem, outcome.trend
    train, test, classes = problem.train, problem.test, problem.dataset.classes
    assert table is not None
    observations, left_out = ((part.X[:, 0], _in_units(part)) for part in (train, test))
    label, unit = problem.dataset.label, problem.settings.exposure
    ordered = (classes or ()) if problem.task.kind == "ordered" else ()
    wide = "" if "count_low" not in table else " The pale band is where nine in ten counts lie."
    named = label if unit is None else f"{label} per unit of {unit}"
    return Picture(
        "trend",
        "Trend and forecast",
        f"The line is the posterior median, and the band holds nine tenths of the posterior.{wide} After the last "
        "observation it widens towards the prior.",
        lambda: plots.trend(
            table,
            observations,
            left_out,
            _time_axis(problem.dataset),
            f"expected {named}" if ordered or not classes else f"probability of {classes[1]}",
            ordered,
        ),
    )


def _in_units(part: Dataset) -> NDArray[Any]:
    """Return the observations, counts per unit of exposure if there are exposures."""
    assert part.y is not None
    return part.y if part.exposure is None else part.y / part.exposure


def _time_axis(dataset: Dataset) -> str:
    """Return the name of the column of times, with the date of day 0 if there is one."""
    name = dataset.feature_names[0]
    known = dataset.dates.get(name)
    return name if known is None else f"{name} (days since {known.first:%Y-%m-%d})"


def _lengthscale(outcome: Outcome) -> Picture:
    prior = lengthscale_prior(outcome.problem.dataset.d)
    return Picture(
        "lengthscale",
        "Length-scales",
        "How far apart, in standard deviations of a feature, inputs must lie for the latent "
        "function to change. With one length-scale per feature, short ones mark the features that matter.",
        lambda: plots.lengthscale(outcome.idata, prior, unit=FEATURE),
    )


def _of_chains(outcome: Outcome, plot: Callable[..., Figure], **settings: Any) -> Picture:
    name = plot.__name__
    return Picture(name, *CHAINS[name], lambda: plot(outcome.idata, outcome.problem.task.hyperparameters, **settings))
