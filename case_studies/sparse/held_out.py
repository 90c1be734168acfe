"""Held-out log-likelihood: of draws, and of all methods point by point beside the exact chain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pymc as pm

import pmgp
from case_studies.sparse import gpflow_process
from case_studies.sparse.chains import Run
from case_studies.sparse.data import Data
from case_studies.sparse.problems import Problem, inducing_inputs, sparse
from case_studies.sparse.scales import Scale
from pmgp.gp import Sparse

__all__ = ["POINTS", "PROBLEMS", "compared", "log_density", "paired", "score"]

PROBLEMS = ("banknote", "pima", "eeg")
POINTS = (30, 100)
"""Numbers of inducing inputs, which are k-means'."""


def log_density(process: Sparse, model: pm.Model, idata: Any, data: Data, draws: int) -> np.ndarray | None:
    """Log predictive density of each held-out point, (m,); None where nothing is held out."""
    if not len(data.y_new):
        return None
    found = process.predict(idata, data.X_new, observed=data.y_new, model=model, draws=draws)
    return found["log_density"].to_numpy()


def score(density: np.ndarray | None) -> dict[str, float]:
    """Mean over held-out points, and its standard error."""
    if density is None:
        return {"score": np.nan, "score_error": np.nan}
    return {"score": float(density.mean()), "score_error": float(density.std(ddof=1) / np.sqrt(len(density)))}


def paired(density: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    """Mean difference from another method on the same points, and its standard error."""
    found = score(density - reference)
    return {"difference": found["score"], "difference_error": found["score_error"]}


def compared(rng: np.random.Generator, scale: Scale, given: Problem) -> Iterator[dict[str, Any]]:
    """The exact chain, chains on inducing inputs, and GPflow's optimum with the same inputs where there is GPflow."""
    data, name = given.data, given.name
    reference, found = _exact(rng, scale, given)
    yield _row("exact", len(data.y), reference, reference, found.tuning + found.drawing)
    for points in POINTS:
        Z = inducing_inputs(rng, data, "kmeans", points)
        model, process = sparse(given, "isotropic", Z)
        size = scale.size(name)
        run = Run.of(model, "Gibbs", size, [given.start(rng, "isotropic") for _ in range(size.chains)], rng)
        density = log_density(process, model, run.idata, data, scale.kept)
        assert density is not None
        yield _row("sparse", points, density, reference, run.tuning + run.drawing)
        if gpflow_process.available():
            density, seconds = gpflow_process.fit(given, Z)
            yield _row("SVGP", points, density, reference, seconds)


def _row(method: str, points: int, density: np.ndarray, reference: np.ndarray, seconds: float) -> dict[str, Any]:
    """One line of the comparison."""
    return {"method": method, "points": points, **score(density), **paired(density, reference), "seconds": seconds}


def _exact(rng: np.random.Generator, scale: Scale, given: Problem) -> tuple[np.ndarray, Run]:
    """Log predictive densities by the chain that leaves nothing out."""
    model, process = sparse(given, "isotropic", inducing_inputs(rng, given.data, "random", 1))
    whole, size = process.exact_model(model=model), scale.size(given.name, "exact")
    found = Run.of(whole, "exact", size, [given.start(rng, "isotropic") for _ in range(size.chains)], rng)
    settings: dict[str, Any] = {"draws": scale.kept, "progressbar": False}
    chance = pmgp.predict(found.idata, given.data.X_new, model=whole, latent="f", **settings)["probability"].to_numpy()
    return np.where(given.data.y_new == 1, np.log(chance), np.log1p(-chance)), found
