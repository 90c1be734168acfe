"""Theta's posterior for thousands of normal observations: draws about the maxima, beside an exact chain."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from time import process_time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.solutions import Problem, loaded
from case_studies.tools.effective_size import effective_sizes
from pmgp.core.transitions.base import Point
from pmgp.core.transitions.hamiltonian import hamiltonian
from pmgp.interface.importance.sampling import begun
from pmgp.interface.importance.targets import MarginalTarget

__all__ = ["CASES", "measure", "rows"]

CASES = ("powerplant 2500", "protein 2500", "powerplant 9568")
FEW, MANY = 64, 400
"""Draws, the second number where there is a chain beside them."""
WANTED = 32
"""Effective draws to which the time is counted."""
CHAINED = 2500
"""Largest number of rows with an exact chain."""
TRAJECTORIES, STEP_SIZE, MOST_LEAPFROGS = 600, 0.5, 6
"""Of Hamiltonian Monte Carlo, in coordinates in which the weighted draws have unit covariance."""
SEED = 34


def rows(names: Sequence[str] = CASES) -> Iterator[dict[str, Any]]:
    """Rows by data set and number of rows; one that says so for a missing data set."""
    for name in names:
        data, size = name.split()
        problem = loaded(data)
        if problem is None:
            yield {"data": f"{data}: not in the folder that PMGP_DATA names"}
            continue
        yield measure(problem, int(size))


def measure(problem: Problem, size: int) -> dict[str, Any]:
    """Draw theta about its maxima, and time it in units of a value, which takes one factorization.

    Returns
    -------
    dict
        ``values, maximum``: time to the proposal, all compilation included; ``values, a draw``: time of a further
        draw; ``values, 32 effective``: time to so many effective draws. For few rows there is Hamiltonian Monte Carlo
        beside it, whose metric is the covariance of the weighted draws: ``apart``, the largest distance between means
        of an element of theta, in posterior deviations, with its standard error; the chain's effective draws and
        acceptance rate; and how many times more effective draws per second importance sampling makes.
    """
    model, draws = problem.model(size), MANY if size <= CHAINED else FEW
    with threadpool_limits(limits=1):
        clock = process_time()
        target = MarginalTarget(model, model["y"])
        weighing = begun(model, target, None, None, SEED, None, progressbar=False)
        beginning = process_time() - clock
        clock = process_time()
        trust = weighing.drawn(draws)
        draw = (process_time() - clock) / trust.size
        value = min(_seconds(target, theta) for theta in weighing.theta[:3])
        share = trust.effective_size / trust.size
        found = {
            "data": problem.name,
            "n": size,
            "dimension": weighing.theta.shape[1],
            "maxima": weighing.maxima,
            "draws": trust.size,
            "value, seconds": value,
            "values, maximum": beginning / value,
            "values, a draw": draw / value,
            "effective a draw": share,
            "Pareto k": trust.pareto_k,
            "values, 32 effective": (beginning + WANTED / share * draw) / value,
        }
        if size <= CHAINED:
            weights = np.exp(weighing.log_weights - weighing.log_weights.max())
            found |= _beside_chain(target, weighing.theta, weights / weights.sum(), share / draw)
    return found | {"load": os.getloadavg()[0]}


def _seconds(target: MarginalTarget, theta: np.ndarray) -> float:
    clock = process_time()
    target.weighed(np.random.default_rng(0), theta)
    return process_time() - clock


def _beside_chain(target: MarginalTarget, theta: np.ndarray, weights: np.ndarray, rate: float) -> dict[str, Any]:
    """Compare weighted means, and effective draws per second, with those of Hamiltonian Monte Carlo."""
    covariance = np.cov(theta, rowvar=False, aweights=weights)
    density = _Whitened(target, weights @ theta, np.linalg.cholesky(covariance))
    rng, point = np.random.default_rng(SEED), density.at(np.zeros(theta.shape[1]))
    clock, chain, accepted = process_time(), [], 0
    for _ in range(TRAJECTORIES):
        point, info = hamiltonian(rng, point, density, STEP_SIZE, MOST_LEAPFROGS)
        chain.append(density.theta(point.position))
        accepted += info.accepted
    seconds, drawn = process_time() - clock, np.array(chain)
    effective = min(effective_sizes(drawn))
    apart = np.abs(weights @ theta - drawn.mean(axis=0)) / drawn.std(axis=0)
    return {
        "apart": apart.max(),
        "error of apart": (1.0 / effective + np.square(weights).sum()) ** 0.5,
        "effective, HMC": effective,
        "accepted, HMC": accepted / TRAJECTORIES,
        "times HMC": rate / (effective / seconds),
    }


class _Whitened:
    """The density of theta in coordinates in which the weighted draws have unit covariance."""

    def __init__(self, target: MarginalTarget, center: np.ndarray, factor: np.ndarray) -> None:
        self._target, self._center, self._factor = target, center, factor

    def at(self, position: np.ndarray, gradient: bool = False) -> Point:
        """Return the point at a position, with its gradient in any case."""
        value, slope = self._target.density(self.theta(position))
        return Point(position, value, None, self._factor.T @ slope)

    def theta(self, position: np.ndarray) -> np.ndarray:
        """Return theta at a position."""
        return self._center + self._factor @ position

    def gradient(self, position: np.ndarray) -> np.ndarray:
        """Return the gradient at a position."""
        return self.at(position).gradient
