"""Figures 5 and 6 of Filippone and Engler (2015): Langevin dynamics with solvers that stop at random.

An exact chain is beside them where it can be afforded. The data are rows of Concrete, and of a census. The variables
are the logs of sigma, tau and lambda, which have Gamma priors with shape and rate one. Chains start at draws from a
normal distribution at the posterior's maximum given a subset of the rows; its covariance M is the inverse curvature
there. The exact chain is random-walk Metropolis.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from case_studies.iterative.isotropic import Isotropic
from case_studies.iterative.study import CONCRETE, concrete, standardized
from case_studies.iterative.truncation import SOLVERS
from case_studies.tools import data
from case_studies.tools.effective_size import effective_sizes
from case_studies.tools.provenance import provenance
from case_studies.tools.stream import stream
from pmgp.core.importance import curvature, peak
from pmgp.core.iterative.langevin import LangevinState, StochasticLangevin

__all__ = ["CENSUS", "EXACT", "METHODS", "NAMES", "SCALES", "Cell", "Extent", "Scale", "cells", "run_cell"]

CENSUS = "census"

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

    data: str
    method: str
    chain: int

    @property
    def name(self) -> str:
        """File name without ending."""
        return f"chain-{self.data}-{self.method}-{self.chain}".replace(" ", "").replace(",", "-")


class Extent(NamedTuple):
    """How much of a data set is seen, and how long its chains are.

    `rows`, `subset`: rows that are seen, and those of them that M is from; `chains` of each method; `iterations` of
    Langevin dynamics, whose first half is dropped, while exact chains have five times as many, of which a quarter is
    dropped; `first`, `last`: the largest and the smallest step.
    """

    rows: int
    subset: int
    chains: int
    iterations: int
    first: float
    last: float


@dataclass(frozen=True)
class Scale:
    """How large the study is.

    Parameters
    ----------
    name : str
    seed : int
    extents : dict of Extent
        By data set.
    kept : int
        Draws of a chain that are stored, evenly spaced.
    """

    name: str
    seed: int
    extents: dict[str, Extent]
    kept: int

    def settings(self, cell: Cell) -> dict[str, Any]:
        """Return the settings with which a finished cell must have been made."""
        extent = self.extents[cell.data]
        return {"scale": self.name, "seed": self.seed, "n": extent.rows, "iterations": extent.iterations}


SCALES = {
    "quick": Scale(
        "quick",
        34,
        {CONCRETE: Extent(150, 75, 3, 1000, 0.02, 5e-3), CENSUS: Extent(400, 200, 3, 1000, 0.02, 5e-3)},
        100,
    ),
    "paper": Scale(
        "paper",
        34,
        {CONCRETE: Extent(1030, 500, 10, 40_000, 0.1, 1e-4), CENSUS: Extent(22_784, 1000, 5, 10_000, 0.05, 5e-6)},
        400,
    ),
}
AFFORDABLE = 2000
"""Largest number of rows with an exact chain."""


def cells(scale: Scale) -> list[Cell]:
    """All cells of a scale."""
    return [
        Cell(name, method, chain)
        for name, extent in scale.extents.items()
        for method in METHODS
        if method != EXACT or extent.rows <= AFFORDABLE
        for chain in range(extent.chains)
    ]


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
    X, y, extent = *_whole(cell.data), scale.extents[cell.data]
    chosen = stream(scale.seed, "langevin").permutation(len(y))[: extent.rows]
    target, start = (_target(X[rows], y[rows]) for rows in (np.sort(chosen), chosen[: extent.subset]))
    center = peak(start.both, np.zeros(len(NAMES))).theta
    M = np.linalg.inv(curvature(start.both, center))
    rng, began = stream(scale.seed, "langevin", cell.method, cell.chain), time.process_time()
    theta = rng.multivariate_normal(center, M)
    if cell.method == EXACT:
        chain = np.array(list(_metropolis(rng, target, theta, 5 * extent.iterations)))
        dropped = len(chain) // 4
    else:
        chain = np.array(list(_langevin(rng, target, theta, extent, cell.method, np.linalg.cholesky(M))))
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


def _whole(name: str) -> tuple[np.ndarray, np.ndarray]:
    return concrete() if name == CONCRETE else standardized(*data.whole(name))


def _target(X: np.ndarray, y: np.ndarray) -> Posterior:
    return Posterior(Isotropic(cdist(X, X, "sqeuclidean"), y))


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
    rng: np.random.Generator, target: Posterior, theta: np.ndarray, extent: Extent, method: str, factor: np.ndarray
) -> Iterator[np.ndarray]:
    """Yield draws of Langevin dynamics, whose steps fall over all iterations unless gradients have little noise."""
    steps, state = StochasticLangevin(factor, extent.first, extent.last, extent.iterations), LangevinState(theta)
    for _ in range(extent.iterations):
        gradient = target.likelihood.estimate(rng, state.theta, SOLVERS[method], PROBES) + 1.0 - np.exp(state.theta)
        state = steps.step(rng, state, gradient)
        if not np.abs(state.theta).max() < FARTHEST:
            return
        yield state.theta
