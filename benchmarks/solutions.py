"""A gradient of log p(y|theta) for normal observations: from solutions of systems over that from a factorization."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pymc as pm
from threadpoolctl import threadpool_limits

from pmgp.core.importance import curvature, scale_at
from pmgp.interface.backends import backend_of
from pmgp.interface.importance.targets import MarginalTarget
from pmgp.interface.iterative_evidence import IterativeDensity

__all__ = ["PROBLEMS", "SIZES", "Problem", "loaded", "measure", "rows"]

LARGEST = 10_000
SIZES = (1000, 2000, 4000, LARGEST)
# Rows whose curvature at theta, in proportion to their number, gives the posterior's deviations.
CURVED = 2000
REPETITIONS = 2
# Seconds after which what is timed is not repeated, and not tried with JAX, which keeps no elements of K.
ENOUGH = 20.0


class Problem(NamedTuple):
    """Standardized rows of a data set, and theta by name: logs of length-scales, variance and noise."""

    name: str
    X: np.ndarray
    y: np.ndarray
    at: dict[str, tuple[float, ...]]

    def model(self, size: int) -> pm.Model:
        """Return a model of the first rows."""
        X, d = self.X[:size], self.X.shape[1]
        with pm.Model() as model:
            cov = pm.LogNormal("variance", 0, 1) * pm.gp.cov.ExpQuad(d, ls=pm.LogNormal("lengthscale", 0, 1, shape=d))
            noise = pm.LogNormal("noise", -1, 1)
            pm.gp.Marginal(cov_func=cov).marginal_likelihood("y", X=pm.Data("X", X), y=self.y[:size], sigma=noise)
        return model


# Logs of length-scales, variance and noise. The smooth one is the maximum of the posterior given 2,500 of the rows, and
# the middle one that of the evidence of 2,000, but for a length-scale without limit. Given all rows of the power plant,
# the second length-scale is exp(-5.86) at the maximum; the rough theta has this, and the best of the other elements
# given 2,000 of the rows.
THETA: dict[str, dict[str, tuple[float, ...]]] = {
    "powerplant.csv": {
        "smooth": (0.253, -0.665, 0.642, 1.249, -0.736, -1.486),
        "rough": (0.29, -5.86, 1.225, 2.092, -0.241, -2.161),
    },
    "protein.csv.gz": {
        "middle": (-0.417, 2.0, 0.391, -1.101, -0.019, -0.840, -1.375, -0.763, -0.161, -0.123, -0.582),
    },
}
PROBLEMS = tuple(name.split(".")[0] for name in THETA)


def loaded(name: str) -> Problem | None:
    """Return at most 10,000 rows of a data set in the folder that ``PMGP_DATA`` names, or None if it is not there."""
    file = next(file for file in THETA if file.startswith(name))
    path = Path(os.environ.get("PMGP_DATA", ""), file)
    if not path.is_file():
        return None
    table = pd.read_csv(path)
    chosen = table.iloc[np.random.default_rng(34).permutation(len(table))[:LARGEST]]
    chosen = (chosen - chosen.mean()) / chosen.std(ddof=0)
    return Problem(name, chosen.drop(columns="y").to_numpy(dtype=float), chosen["y"].to_numpy(dtype=float), THETA[file])


def rows(names: Sequence[str] = PROBLEMS) -> Iterator[dict[str, Any]]:
    """Rows by data set, number of rows, and theta; one that says so for a missing data set."""
    for name in names:
        problem = loaded(name)
        if problem is None:
            yield {"data": f"{name}: not in the folder that PMGP_DATA names"}
            continue
        for size in sorted({min(size, len(problem.y)) for size in SIZES}):
            yield from measure(problem, size)


def measure(problem: Problem, size: int) -> Iterator[dict[str, Any]]:
    """Time a gradient from a factorization, and gradients from solutions at each theta, on one core.

    Yields
    ------
    dict
        Processor seconds of a gradient with its value, and ratios, with products by NumPy and by JAX; the largest
        number of ``iterations``; and the ``noise`` of gradients from solutions with different probes: the root of the
        mean square over directions of the step to which it leads, in posterior deviations.
    """
    model = problem.model(size)
    with threadpool_limits(limits=1):
        target = MarginalTarget(model, model["y"])
        thetas = {where: _vector(target, theta) for where, theta in problem.at.items()}
        exact = _factorized(target, next(iter(thetas.values())))
        densities = {name: IterativeDensity(model, backend=backend_of(name)) for name in ("numpy", "jax")}
        for where, at in thetas.items():
            numpy, gradients, iterations = _solved(densities["numpy"], at, np.inf)
            jax = np.nan if numpy > ENOUGH else _solved(densities["jax"], at, ENOUGH)[0]
            yield {
                "data": problem.name,
                "theta": where,
                "n": size,
                "factorization, seconds": exact,
                "solutions, NumPy, seconds": numpy,
                "ratio, NumPy": numpy / exact,
                "solutions, JAX, seconds": jax,
                "ratio, JAX": jax / exact,
                "iterations": iterations,
                "noise": _noise(densities["numpy"], at, gradients, min(CURVED, size)),
                "load": os.getloadavg()[0],
            }


def _vector(target: MarginalTarget, theta: tuple[float, ...]) -> np.ndarray:
    """Return theta as a vector in the model's order."""
    *lengthscales, variance, noise = theta
    point = {"lengthscale_log__": lengthscales, "variance_log__": variance, "noise_log__": noise}
    return target.ravel({name: np.asarray(value) for name, value in point.items()})


def _factorized(target: MarginalTarget, at: np.ndarray) -> float:
    """Return the least seconds of a gradient from a factorization."""
    seconds: list[float] = []
    while len(seconds) < REPETITIONS and sum(seconds) < ENOUGH:
        clock = process_time()
        target.evidence(at)
        seconds.append(process_time() - clock)
    return min(seconds)


def _solved(density: IterativeDensity, at: np.ndarray, enough: float) -> tuple[float, np.ndarray, int]:
    """Return the least seconds of gradients with different probes, all gradients, and the most iterations."""
    seconds: list[float] = []
    gradients, iterations = [], 0
    for seed in range(REPETITIONS):
        if sum(seconds) > enough:
            break
        clock = process_time()
        found = density.estimate(np.random.default_rng(seed), at)
        gradients.append(density.gradient(at, found))
        seconds.append(process_time() - clock)
        iterations = max(iterations, found.iterations)
    return min(seconds), np.array(gradients), iterations


def _noise(density: IterativeDensity, at: np.ndarray, gradients: np.ndarray, curved: int) -> float:
    """Return the noise of gradients, with the posterior's covariance from the curvature for some of the rows."""
    factor = np.linalg.cholesky(scale_at(curvature(density.of_rows(np.arange(curved)), at)))
    steps = (gradients - gradients.mean(axis=0)) @ factor * np.sqrt(curved / density.size)
    return float(np.sqrt(np.square(steps).sum() / (steps.shape[1] * (len(steps) - 1))))
