"""Held-out log-likelihood: of draws, and of all methods point by point beside the exact chain."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

import pmgp
from case_studies.sparse import gpflow_process
from case_studies.sparse.chains import Run
from case_studies.sparse.data import Data
from case_studies.sparse.optimum import optimum
from case_studies.sparse.problems import Problem, inducing_inputs, sparse
from case_studies.sparse.scales import Scale
from pmgp.gp import Sparse
from pmgp.interface.sparse.diagnosis import Diagnosis

__all__ = ["POINTS", "PROBLEMS", "advised", "compared", "paired", "prediction", "score", "summary"]

PROBLEMS = ("banknote", "pima", "eeg")
POINTS = (50,)
"""Numbers of inducing inputs, to begin with."""
FOLLOWED = 2
"""How often the advice of a diagnosis on their number is followed."""
METHODS = {"kmeans": "sparse", "optimized": "sparse, optimized"}
"""Names of the chains by where their inducing inputs are from."""


def prediction(process: Sparse, model: pm.Model, idata: Any, data: Data, draws: int) -> xr.Dataset | None:
    """Moments of f and log predictive densities at held-out points; None where nothing is held out."""
    if not len(data.y_new):
        return None
    return process.predict(idata, data.X_new, observed=data.y_new, model=model, draws=draws)


def summary(found: xr.Dataset | None, data: Data) -> dict[str, float]:
    """Score of a prediction, and the share of labels that are not those of the largest mean, or of its sign."""
    if found is None:
        return score(None) | {"wrong": np.nan}
    mean = found["latent_mean"].to_numpy()
    label = mean.argmax(axis=0) if mean.ndim > 1 else (mean > 0.0).astype(int)
    return score(found["log_density"].to_numpy()) | {"wrong": float(np.mean(label != data.y_new))}


def score(density: np.ndarray | None) -> dict[str, float]:
    """Mean over held-out points, and its standard error."""
    if density is None:
        return {"score": np.nan, "score_error": np.nan}
    return {"score": float(density.mean()), "score_error": float(density.std(ddof=1) / np.sqrt(len(density)))}


def paired(density: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    """Mean difference from another method on the same points, and its standard error."""
    found = score(density - reference)
    return {"difference": found["score"], "difference_error": found["score_error"]}


def compared(
    rng: np.random.Generator, scale: Scale, given: Problem, folder: Path | None = None
) -> Iterator[dict[str, Any]]:
    """The exact chain, chains on inducing inputs, and GPflow's optimum with the same inputs where there is GPflow.

    Inducing inputs are k-means', and optimized ones. Where a diagnosis of the chains with k-means' asks for more,
    its advice is followed, up to :data:`FOLLOWED` times. Chains are stored in the folder while they are made, if there
    is one.
    """
    reference, found = _exact(rng, scale, given, folder and folder / "exact")
    yield _row("exact", len(given.data.y), reference, reference, found.tuning + found.drawing)
    for points in POINTS:
        numbers, advice = [points], (yield from _with(rng, scale, given, points, reference, folder))
        while len(numbers) <= FOLLOWED and (more := advised(advice, given.data)) is not None and more > numbers[-1]:
            advice = yield from _with(rng, scale, given, more, reference, folder)
            numbers.append(more)
        for number in numbers:
            yield _optimized(rng, scale, given, number, reference, folder)


def advised(advice: Diagnosis, data: Data) -> int | None:
    """Number of inducing inputs the diagnosis asks for, four times as many if it names none; None for enough."""
    if advice.good:
        return None
    different = len(np.unique(data.X, axis=0))
    return min(different, 4 * advice.inducing if advice.enough is None else advice.enough)


def _with(
    rng: np.random.Generator, scale: Scale, given: Problem, points: int, reference: np.ndarray, folder: Path | None
) -> Generator[dict[str, Any], None, Diagnosis]:
    """Lines with this number of inducing inputs; returns what the diagnosis says of the chains."""
    Z = inducing_inputs(rng, given.data, "kmeans", points)
    model, process = sparse(given, "isotropic", Z)
    starts = [given.start(rng, "isotropic") for _ in range(scale.size(given.name).chains)]
    run = Run.of(model, "Gibbs", scale.size(given.name), starts, rng, folder and folder / f"sparse-{points}")
    advice = process.diagnose(run.idata, model=model)
    yield _sparse_row(scale, given, "kmeans", (model, process), run, advice, reference)
    if gpflow_process.available():
        density, seconds = gpflow_process.fit(given, Z)
        yield _row("SVGP", points, density, reference, seconds)
    return advice


def _optimized(
    rng: np.random.Generator, scale: Scale, given: Problem, points: int, reference: np.ndarray, folder: Path | None
) -> dict[str, Any]:
    """A line with this number of inducing inputs, optimized starting from k-means'."""
    size = scale.size(given.name)
    best = optimum(rng, given, "isotropic", "optimized", points, scale.steps(given.name))
    starts = best.found.initvals(size.chains, rng)
    run = Run.of(best.model, "Gibbs", size, starts, rng, folder and folder / f"optimized-{points}")
    advice = best.process.diagnose(run.idata, model=best.model)
    row = _sparse_row(scale, given, "optimized", (best.model, best.process), run, advice, reference)
    return row | {"seconds": row["seconds"] + best.seconds}


def _sparse_row(
    scale: Scale,
    given: Problem,
    kind: str,
    sampled: tuple[pm.Model, Sparse],
    run: Run,
    advice: Diagnosis,
    reference: np.ndarray,
) -> dict[str, Any]:
    model, process = sampled
    predicted = prediction(process, model, run.idata, given.data, scale.kept)
    assert predicted is not None
    figures = {"penalty_deviation": advice.penalty_deviation, "enough": advice.enough or np.nan}
    density = predicted["log_density"].to_numpy()
    return _row(METHODS[kind], advice.inducing, density, reference, run.tuning + run.drawing) | figures


def _row(method: str, points: int, density: np.ndarray, reference: np.ndarray, seconds: float) -> dict[str, Any]:
    """One line of the comparison."""
    return {"method": method, "points": points, **score(density), **paired(density, reference), "seconds": seconds}


def _exact(rng: np.random.Generator, scale: Scale, given: Problem, folder: Path | None) -> tuple[np.ndarray, Run]:
    """Log predictive densities by the chain that leaves nothing out."""
    model, process = sparse(given, "isotropic", inducing_inputs(rng, given.data, "random", 1))
    whole, size = process.exact_model(model=model), scale.size(given.name, "exact")
    starts = [given.start(rng, "isotropic") for _ in range(size.chains)]
    found = Run.of(whole, "exact", size, starts, rng, folder)
    settings: dict[str, Any] = {"draws": scale.kept, "progressbar": False}
    chance = pmgp.predict(found.idata, given.data.X_new, model=whole, latent="f", **settings)["probability"].to_numpy()
    return np.where(given.data.y_new == 1, np.log(chance), np.log1p(-chance)), found
