"""Whether a step method or `pmgp.predict` takes a model: a few draws of it, or what it is refused with."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import xarray as xr

import pmgp
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.model.latent_gaussian import ModelError
from tests.support.models import N

__all__ = ["STEPS", "YES", "outcome_of_prediction", "outcome_of_step", "quickly", "refusal"]

YES = "yes"
XNEW = np.array([[0.1, -0.2], [1.5, 0.3]])
DRAWS = 3
LONGEST = 300
STEPS: dict[str, Callable[..., Any]] = {
    "PM": pmgp.PseudoMarginal,
    "PM Laplace": partial(pmgp.PseudoMarginal, approximation="laplace"),
    "PM AIS": partial(pmgp.PseudoMarginal, estimator=pmgp.estimators.AnnealedImportanceSampling(draws=2)),
    "AA": pmgp.steps.Ancillary,
    "SA": pmgp.steps.Sufficient,
    "ASIS": pmgp.steps.Interweaving,
    "SURR": pmgp.steps.Surrogate,
    "KHR": pmgp.steps.JointUpdate,
    "slice": pmgp.EllipticalSlice,
    "MH": pmgp.steps.LatentMetropolis,
    "HMC": pmgp.steps.LatentHMC,
    "SMMALA": pmgp.steps.LatentSMMALA,
}
"""Columns of the tables: three of the estimators of one step method, five schemes for theta, four for f."""


def quickly() -> Any:
    """Compilation that costs little: what is asked is whether a model is taken, not how fast it is."""
    return pytensor.config.change_flags(mode=INTERPRETED)


def refusal(error: Exception) -> str:
    """The part of a message that says what is refused, without what is to be done about it."""
    return str(error).split(";")[0].split(":")[0].strip()


def outcome_of_step(model: pm.Model, column: str, start: dict[str, np.ndarray]) -> str:
    """`YES`, or the words with which the step method is refused; a chain that does not move is an error."""
    with quickly():
        try:
            step = STEPS[column](model=model, compile_kwargs={"mode": INTERPRETED})
        except ModelError as error:
            return refusal(error)
        run(step, start)
    return YES


def run(step: Any, start: dict[str, np.ndarray]) -> None:
    """Tune a little, sample until something has moved; the draws are finite."""
    step.setup_chain(np.random.default_rng(1), DRAWS, DRAWS)
    point, moved = start, False
    for iteration in range(LONGEST):
        if iteration == DRAWS:
            step.stop_tuning()
        point, _ = step.step(point)
        assert all(np.isfinite(value).all() for value in point.values())
        moved = moved or any(not np.array_equal(point[v.name], start[v.name]) for v in step.vars)
        if moved and iteration >= 2 * DRAWS:
            return
    raise AssertionError(f"{type(step).__name__} never moved")


def outcome_of_prediction(model: pm.Model) -> str:
    """What `pmgp.predict` returns besides the moments of f, or the words with which it warns or refuses."""
    at = {data.name: 1.0 for data in model.data_vars if data.name != "X"}
    with quickly(), warnings.catch_warnings(record=True) as warned:
        # What is asked is whether it works with this PyTensor, which announces changes of the next.
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            prediction = pmgp.predict(draws_of(model), XNEW, model=model, at=at or None, progressbar=False)
        except ModelError as error:
            return refusal(error)
    assert all(np.isfinite(prediction[name]).all() for name in prediction.data_vars)
    said = sorted(set(prediction.data_vars) - {"latent_mean", "latent_variance"})
    return ", ".join(said) or reason(str(warned[-1].message))


def reason(warning: str) -> str:
    """Why nothing but f can be predicted."""
    return refusal(ValueError(warning.split(": ", 1)[1].removeprefix("of 'y', ")))


def draws_of(model: pm.Model) -> xr.DataTree:
    """Two draws that nobody sampled: all hyper-parameters 0.7 and more where they are ordered, f a ramp."""
    values, point = {}, model.initial_point()
    for rv in model.free_RVs:
        shape = point[model.rvs_to_values[rv].name].shape
        size = int(np.prod(shape))
        one = np.linspace(-1, 1, N) if rv.name.startswith("f") else (0.7 + np.arange(size)).reshape(shape)
        values[rv.name] = np.broadcast_to(one, (1, 2, *one.shape))
    return xr.DataTree.from_dict({"posterior": xr.Dataset({k: (_dims(k, v), v) for k, v in values.items()})})


def _dims(name: str, value: np.ndarray) -> list[str]:
    return ["chain", "draw", *(f"{name}_{axis}" for axis in range(value.ndim - 2))]
