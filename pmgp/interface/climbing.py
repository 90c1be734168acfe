"""Climbs to the maximum of log p(y|theta) + log p(theta) along gradients from solutions of linear systems."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from pmgp.core.adaptation.units import units
from pmgp.core.importance import curvature, peak, scale_at
from pmgp.core.importance.peak import STEP as DIFFERENCE
from pmgp.core.iterative.ascent import Climbed, climb, distance
from pmgp.core.iterative.gaussian import IterativeEvidence
from pmgp.core.iterative.settings import Iterative, suitable_rank
from pmgp.core.iterative.solvers import IndefiniteMatrixError, NotConvergedError, watched
from pmgp.interface.backends import NumpyTiles
from pmgp.interface.iterative_evidence import IterativeDensity

LogPrior = Callable[[np.ndarray], tuple[float, np.ndarray]]

# With more points than this, gradients come from solutions of systems. These are faster than a factorization from about
# 2,000 points on where the kernel is smooth, and take twice as long for 4,000 points with short length-scales in nine
# dimensions (`python -m benchmarks --only solutions`, products by NumPy).
LARGEST_FACTORIZED = 5_000
# Points whose maximum and curvature are the start of a climb.
SUBSET = 500
# Largest distance to the maximum at which a climb ends, in posterior deviations.
NEAR = 0.05
# Numbers in arrays of n elements: for each column of the preconditioner, and for each right-hand side.
EACH_COLUMN, EACH_SIDE = 8, 14


def density_of(
    model: pm.Model, size: int, solver: Iterative, compile_kwargs: dict[str, Any] | None
) -> IterativeDensity:
    """Return the density of n = `size` observations, whose gradients the solver gives in the memory that it allows."""
    method = IterativeEvidence(solver.tolerance, solver.probes, solver.cap)
    tiles = NumpyTiles(memory=_left_by_gradients(solver, size))
    return IterativeDensity(model, solver.rank, method, tiles, compile_kwargs)


def _left_by_gradients(solver: Iterative, size: int) -> float:
    """Return the memory that gradients leave for the elements of K."""
    needed = 8.0 * size * (EACH_COLUMN * suitable_rank(solver.rank, size) + EACH_SIDE * (solver.probes + 1))
    if needed > solver.memory:
        raise MemoryError(
            f"gradients for {size} points take {needed / 1e6:.3g} MB, and memory= allows "
            f"{solver.memory / 1e6:.3g}: allow more, for example pmgp.marginal.Iterative(memory={1.1 * needed:.2g})"
        )
    return solver.memory - needed


class Best(NamedTuple):
    """The best theta (p,) of a climb so far, with its log-evidence."""

    theta: np.ndarray
    log_evidence: float


class Climbing:
    """Gradients of log p(y|theta) + log p(theta), with the same probes and pivots, or with fresh ones.

    `made` counts them, and `best` is the best theta so far, or None.
    """

    def __init__(self, density: IterativeDensity, prior: LogPrior) -> None:
        self.density, self._prior = density, prior
        self.made = 0
        self.best: Best | None = None
        self._points: np.ndarray | None = None
        self._highest = -np.inf
        self._report: Callable[[str], None] = lambda words: None

    def climb(self, start: np.ndarray | None, max_iterations: int) -> Climbed:
        """Climb from `start`, or from the maximum for some of the points; all gradients have the same probes.

        Raises NotConvergedError if there is no solution at the start.
        """
        beginning, inverse = self._beginning(start)

        def gradient(theta: np.ndarray) -> np.ndarray | None:
            found = self._same_or_none(theta)
            left = "no solution" if found is None else f"{distance(found, inverse):.2g} deviations left"
            self._report(f"Maximum: gradient {self.made}, {left}")
            return found

        return climb(gradient, beginning, inverse, NEAR, max_iterations)

    def fresh(self, seed: int, theta: np.ndarray, points: np.ndarray | None = None) -> tuple[np.ndarray, float]:
        """Return a gradient, and the log-evidence, with the probes of a seed."""
        self.made += 1
        found = self.density.estimate(np.random.default_rng(seed), theta, points)
        return self.density.gradient(theta, found) + self._prior(theta)[1], found.log_evidence

    def log_prior(self, theta: np.ndarray) -> float:
        """Return the part of the density that is not the evidence."""
        return self._prior(theta)[0]

    @contextmanager
    def shown(self, progressbar: bool) -> Iterator[None]:
        """Display the number of gradients, the distance that is left, and the residual of each solution."""
        with Progress(TextColumn("{task.description}"), TimeElapsedColumn(), disable=not progressbar) as progress:
            words = "Maximum"
            task = progress.add_task(words, total=None)

            def report(said: str) -> None:
                nonlocal words
                words = said
                progress.update(task, description=words)

            self._report = report
            with watched(lambda residual: progress.update(task, description=f"{words}; {residual}")):
                yield

    def _beginning(self, given: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return where to begin, and a guess of the posterior covariance there, from some of the points."""
        size = self.density.size
        chosen = np.random.default_rng(0).permutation(size)[:SUBSET]
        at, scale = scale_given_rows(self.density, chosen, given)
        return at, scale * (len(chosen) / size)

    def _same_or_none(self, theta: np.ndarray) -> np.ndarray | None:
        """Return the gradient with the same probes and pivots each time, or None, but for the first, without it."""
        if self._points is None:
            self._points = self.density.points(np.random.default_rng(1), theta)
            return self._same(theta)
        try:
            return self._same(theta)
        except (NotConvergedError, IndefiniteMatrixError):
            return None

    def _same(self, theta: np.ndarray) -> np.ndarray:
        """Return the gradient, and keep theta if it is the best so far: values with the same probes can be compared."""
        gradient, log_evidence = self.fresh(2, theta, self._points)
        value = log_evidence + self.log_prior(theta)
        if value > self._highest:
            self.best, self._highest = Best(theta, log_evidence), value
        return gradient


def scale_given_rows(
    density: IterativeDensity, chosen: np.ndarray, at: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the maximum of the posterior given some observations, or `at`, and the inverse of its curvature there.

    `chosen`: indices of the observations.
    """
    of_rows, initial = density.of_rows(chosen), density.theta.initial if at is None else at
    scale = units(lambda theta: density.log_prior(theta)[0], lambda theta: of_rows(theta)[0], initial)
    if at is None:
        at = peak(of_rows, initial, units=scale).theta
    return at, scale_at(curvature(of_rows, at, DIFFERENCE * scale), scale)
