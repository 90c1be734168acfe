"""Figure 5 of Filippone and Engler (2015): Langevin dynamics with solvers that stop at random, beside an exact chain.

The data are rows of Concrete. The variables are the logs of sigma, tau and lambda, which have Gamma priors with shape
and rate one. Chains start at draws from a normal distribution at the posterior's maximum given a subset of the rows;
its covariance M is the inverse curvature there. The exact chain is random-walk Metropolis.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from case_studies.iterative.isotropic import Isotropic
from case_studies.iterative.study import concrete, squared_distances
from case_studies.iterative.truncation import SOLVERS
from case_studies.tools.effective_size import effective_sizes
from case_studies.tools.provenance import provenance
from case_studies.tools.stream import stream
from pmgp.core.importance import curvature, peak
from pmgp.core.iterative.langevin import LangevinState, StochasticLangevin

__all__ = ["EXACT", "METHODS", "NAMES", "SCALES", "Cell", "Scale", "cells", "run_cell"]

EXACT = "Metropolis"
METHODS = (EXACT, "printed, q = 1.0, beta = 1.0", "printed, q = 0.1, beta = 1.0", "matched, q = 1.0")
NAMES = ("sigma", "tau", "lambda")
PROBES = 4
SPREAD = 2.38 / np.sqrt(len(NAMES))
"""Size of a random walk's steps in posterior deviations, as Roberts, Gelman and Gilks (1997) recommend."""
FARTHEST = 20.0
"""Logs beyond which a chain has diverged, and ends."""
FEWEST = 8
"""Draws for which effective sizes can be estimated."""


class Cell(NamedTuple):
    """A chain."""

    method: str
    chain: int

    @property
    def name(self) -> str:
        """File name without ending."""
        return f"chain-{self.method}-{self.chain}".replace(" ", "").replace(",", "-")


@dataclass(frozen=True)
class Scale:
    """How large the study is.

    Parameters
    ----------
    name : str
    seed : int
    rows, subset : int
        Rows that are seen, and those of them that M is from.
    chains, iterations : int
        Chains of each method, and iterations of Langevin dynamics, whose first half is dropped. Exact chains have five
        times as many iterations, of which a quarter is dropped.
    first, last : float
        Largest and smallest step.
    kept : int
        Draws of a chain that are stored, evenly spaced.
    """

    name: str
    seed: int
    rows: int
    subset: int
    chains: int
    iterations: int
    first: float
    last: float
    kept: int

    def settings(self) -> dict[str, Any]:
        """Return the settings with which a finished cell must have been made."""
        return {"scale": self.name, "seed": self.seed, "n": self.rows, "iterations": self.iterations}


SCALES = {
    "quick": Scale("quick", 34, 150, 75, 3, 1000, 0.02, 5e-3, 100),
    "paper": Scale("paper", 34, 1030, 500, 10, 40_000, 0.1, 1e-4, 400),
}


def cells(scale: Scale) -> list[Cell]:
    """All cells of a scale."""
    return [Cell(method, chain) for method in METHODS for chain in range(scale.chains)]


class Posterior(NamedTuple):
    """The posterior of theta."""

    likelihood: Isotropic

    def value(self, theta: np.ndarray) -> float:
        """Return its log density on the log scale, up to a constant; the prior there is theta - exp(theta)."""
        return self.likelihood.value(theta) + float(np.sum(theta - np.exp(theta)))

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """Return the gradient of :meth:`value`."""
        return self.likelihood.gradient(theta) + 1.0 - np.exp(theta)

    def both(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return both."""
        return self.value(theta), self.gradient(theta)


def run_cell(scale: Scale, cell: Cell) -> dict[str, Any]:
    """Return draws of a chain after those that are dropped, how many were made and dropped, and what they are worth."""
    chosen = stream(scale.seed, "langevin").permutation(len(concrete()[1]))[: scale.rows]
    target, start = _target(np.sort(chosen)), _target(chosen[: scale.subset])
    center = peak(start.both, np.zeros(len(NAMES))).theta
    M = np.linalg.inv(curvature(start.both, center))
    rng, began = stream(scale.seed, "langevin", cell.method, cell.chain), time.process_time()
    theta = rng.multivariate_normal(center, M)
    if cell.method == EXACT:
        chain = np.array(list(_metropolis(rng, target, theta, 5 * scale.iterations)))
        dropped = len(chain) // 4
    else:
        chain = np.array(list(_langevin(rng, target, theta, scale, cell.method, np.linalg.cholesky(M))))
        dropped = len(chain) // 2
    places = np.unique(np.linspace(dropped, len(chain) - 1, scale.kept).astype(int))
    lines = [{"draw": int(place)} | dict(zip(NAMES, np.exp(chain[place]).tolist(), strict=True)) for place in places]
    left = chain[dropped:]
    effective = effective_sizes(left).tolist() if len(left) >= FEWEST else [1.0] * len(NAMES)
    return {
        "rows": lines,
        "effective": effective,
        "made": len(chain),
        "dropped": dropped,
        "seconds": time.process_time() - began,
    } | provenance()


def _target(rows: np.ndarray) -> Posterior:
    return Posterior(Isotropic(squared_distances()[np.ix_(rows, rows)], concrete()[1][rows]))


def _metropolis(
    rng: np.random.Generator, target: Posterior, theta: np.ndarray, iterations: int
) -> Iterator[np.ndarray]:
    """Yield draws of a random walk, whose steps are scaled with the curvature at the maximum."""
    factor = SPREAD * np.linalg.cholesky(np.linalg.inv(curvature(target.both, peak(target.both, theta).theta)))
    value = target.value(theta)
    for _ in range(iterations):
        proposal = theta + factor @ rng.standard_normal(len(theta))
        proposed = target.value(proposal)
        if np.log(rng.random()) < proposed - value:
            theta, value = proposal, proposed
        yield theta


def _langevin(
    rng: np.random.Generator, target: Posterior, theta: np.ndarray, scale: Scale, method: str, factor: np.ndarray
) -> Iterator[np.ndarray]:
    """Yield draws of Langevin dynamics, whose steps fall over all iterations unless gradients have little noise."""
    steps, state = StochasticLangevin(factor, scale.first, scale.last, scale.iterations), LangevinState(theta)
    for _ in range(scale.iterations):
        gradient = target.likelihood.estimate(rng, state.theta, SOLVERS[method], PROBES) + 1.0 - np.exp(state.theta)
        state = steps.step(rng, state, gradient)
        if not np.abs(state.theta).max() < FARTHEST:
            return
        yield state.theta
