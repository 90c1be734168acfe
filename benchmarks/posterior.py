"""Theta's posterior for thousands of normal observations: draws about the maximum, beside two exact chains."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from time import process_time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.solutions import Problem, loaded
from case_studies.tools.effective_size import effective_sizes
from pmgp.core.importance import curvature, peak, student_at
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
ITERATIONS = 2000
"""Iterations of the chain; the first tenth is dropped."""
WIDER = 1.2
"""Scale of the chain's independent proposals, in units of the weighted draws'."""
TRAJECTORIES, STEP_SIZE, MOST_LEAPFROGS = 150, 0.7, 5
"""Of Hamiltonian Monte Carlo, in units in which the density has unit curvature at its maximum."""
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
    """Draw theta about its maximum, and time it in units of a value, which takes one factorization.

    Returns
    -------
    dict
        ``values, maximum``: time to the proposal, all compilation included; ``values, a draw``: time of a further
        draw; ``values, 32 effective``: time to so many effective draws; and for few rows ``apart``: the largest
        distance of the mean of an element of theta from that of a chain, in posterior deviations, with its standard
        error, and the chain's effective draws; and how many times more effective draws a second there are than by
        Hamiltonian Monte Carlo from the maximum, whose metric is the curvature there, its acceptance rate beside it.
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
            found |= _beside_chain(target, weighing.theta, weights / weights.sum())
            effective, seconds, accepted = _trajectories(target, weights @ weighing.theta / weights.sum())
            found |= {"times HMC": share / draw / (effective / seconds), "accepted, HMC": accepted}
    return found | {"load": os.getloadavg()[0]}


def _seconds(target: MarginalTarget, theta: np.ndarray) -> float:
    clock = process_time()
    target.weighed(np.random.default_rng(0), theta)
    return process_time() - clock


def _beside_chain(target: MarginalTarget, theta: np.ndarray, weights: np.ndarray) -> dict[str, Any]:
    """Compare weighted means with those of a chain that walks, and takes independent draws, in turns."""
    rng, at = np.random.default_rng(SEED), weights @ theta
    wide = student_at(at, np.linalg.inv(np.cov(theta, rowvar=False, aweights=weights)) / WIDER**2)
    walk = wide.factors[0] / WIDER * 2.38 / np.sqrt(len(at))
    value, chain = target.weighed(rng, at).log_joint, []
    for iteration in range(ITERATIONS):
        if iteration % 2:
            proposal, ratio = at + walk @ rng.standard_normal(len(at)), 0.0
        else:
            [proposal] = wide.sample(rng, 1)
            ratio = float(np.diff(wide.log_density(np.array([proposal, at])))[0])
        proposed = target.weighed(rng, proposal).log_joint
        if np.log(rng.random()) < proposed - value + ratio:
            at, value = proposal, proposed
        chain.append(at)
    kept = np.array(chain)[ITERATIONS // 10 :]
    effective = min(effective_sizes(kept))
    apart = np.abs(weights @ theta - kept.mean(axis=0)) / kept.std(axis=0)
    error = (1.0 / effective + np.square(weights).sum()) ** 0.5
    return {"apart": apart.max(), "error of apart": error, "effective, chain": effective}


class _Whitened:
    """The density of theta in coordinates with unit curvature at the maximum."""

    def __init__(self, target: MarginalTarget, start: np.ndarray) -> None:
        self._target, self._center = target, peak(target.density, start).theta
        self._factor = student_at(self._center, curvature(target.density, self._center)).factors[0]

    def at(self, position: np.ndarray, gradient: bool = False) -> Point:
        """Return the point at a position, with its gradient in any case."""
        value, slope = self._target.density(self._center + self._factor @ position)
        return Point(position, value, None, self._factor.T @ slope)

    def gradient(self, position: np.ndarray) -> np.ndarray:
        """Return the gradient at a position."""
        return self.at(position).gradient


def _trajectories(target: MarginalTarget, start: np.ndarray) -> tuple[float, float, float]:
    """Return the effective draws of Hamiltonian Monte Carlo, its seconds without tuning, and its acceptance rate."""
    density = _Whitened(target, start)
    rng, point = np.random.default_rng(SEED), density.at(np.zeros(len(start)))
    clock, chain, accepted = process_time(), [], 0
    for _ in range(TRAJECTORIES):
        point, info = hamiltonian(rng, point, density, STEP_SIZE, MOST_LEAPFROGS)
        chain.append(point.position)
        accepted += info.accepted
    return min(effective_sizes(np.array(chain))), process_time() - clock, accepted / TRAJECTORIES
