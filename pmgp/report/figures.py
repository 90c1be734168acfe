"""The figures of a run, each with its file name and what it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from pmgp import plots
from pmgp.diagnostics import MIN_DRAWS
from pmgp.models import lengthscale_prior
from pmgp.run import HYPERPARAMETERS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pmgp.run import Outcome

__all__ = ["Picture", "pictures"]


class Picture(NamedTuple):
    """A figure to be drawn when it is needed."""

    name: str
    title: str
    caption: str
    draw: Callable[[], Figure]


def pictures(outcome: Outcome) -> Iterator[Picture]:
    """Yield the pictures that the draws suffice for; an interrupted run may have only a trace."""
    if outcome.predictions is not None:
        yield _calibration(outcome)
    yield _trace(outcome)
    sizes = outcome.idata["posterior"].sizes
    if sizes["draw"] >= MIN_DRAWS:
        yield _lengthscale(outcome)
        yield _autocorrelation(outcome)
        if sizes["chain"] > 1:
            yield _rank(outcome)
            yield _rhat(outcome)


def _calibration(outcome: Outcome) -> Picture:
    table, classes = outcome.predictions, outcome.problem.dataset.classes
    assert table is not None
    assert classes is not None
    return Picture(
        "calibration",
        "Calibration on the test part",
        "Observed frequency against predicted probability, in ten bins of probability; intervals "
        "that reach the diagonal agree with perfect calibration. Below, where predictions lie.",
        lambda: plots.calibration(table["label"], table["probability"], classes),
    )


def _lengthscale(outcome: Outcome) -> Picture:
    prior = lengthscale_prior(outcome.problem.dataset.d)
    return Picture(
        "lengthscale",
        "Length-scales",
        "How far apart, in standard deviations of a feature, inputs must lie for the latent "
        "function to change. With one length-scale a feature, short ones mark those that matter.",
        lambda: plots.lengthscale(outcome.idata, prior),
    )


def _trace(outcome: Outcome) -> Picture:
    return Picture(
        "trace",
        "Traces",
        "Draws of the hyper-parameters in order. Chains that mix look alike and wander quickly.",
        lambda: plots.trace(outcome.idata, HYPERPARAMETERS),
    )


def _rank(outcome: Outcome) -> Picture:
    return Picture(
        "rank",
        "Ranks",
        "Distribution of each chain's ranks among all draws, less the uniform one. Chains that "
        "sample the same posterior stay close to zero; a small p-value says that they do not.",
        lambda: plots.rank(outcome.idata, HYPERPARAMETERS),
    )


def _autocorrelation(outcome: Outcome) -> Picture:
    return Picture(
        "autocorrelation",
        "Autocorrelation",
        "Correlation of draws a lag apart. The faster it falls, the more a draw is worth.",
        lambda: plots.autocorrelation(outcome.idata, HYPERPARAMETERS),
    )


def _rhat(outcome: Outcome) -> Picture:
    return Picture(
        "rhat",
        "R-hat over iterations",
        "R-hat of the draws up to a point, against that point. Usable draws end below the dashed line and stay there.",
        lambda: plots.rhat(outcome.idata, HYPERPARAMETERS),
    )
