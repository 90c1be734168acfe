"""The maximum of log p(y|theta) + log p(theta) for multivariate normal observations, factorized or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from pmgp.core.importance import curvature, peak, student_at
from pmgp.core.iterative.ascent import Climbed, climb, distance
from pmgp.core.iterative.gaussian import IterativeEvidence
from pmgp.core.iterative.settings import Iterative, suitable_rank
from pmgp.core.iterative.solvers import IndefiniteMatrixError, NotConvergedError, watched
from pmgp.interface.backends import NumpyTiles
from pmgp.interface.importance.targets import MarginalTarget
from pmgp.interface.iterative_evidence import IterativeDensity
from pmgp.interface.model.theta_vector import ThetaVector

LogPrior = Callable[[np.ndarray], tuple[float, np.ndarray]]

# With more points than this, gradients come from solutions of systems. These are faster than a factorization from about
# 2,000 points on where the kernel is smooth, and take twice as long for 4,000 points with short length-scales in nine
# dimensions (`python -m benchmarks --only solutions`, products by NumPy).
LARGEST_FACTORIZED = 5_000
# Points whose maximum and curvature are the start of a climb.
SUBSET = 500
# Largest distance to the maximum at which a climb ends, in posterior deviations.
NEAR = 0.05
# Gradients with fresh probes at the end, whose mean gives the last step, and whose spread gives its error: so many, and
# more while the error is larger than this, in posterior deviations along each direction.
FRESH, MOST_FRESH, LARGEST_ERROR = 4, 12, 0.3
# Numbers in arrays of n elements: for each column of the preconditioner or subset, and for each right-hand side.
EACH_COLUMN, EACH_SIDE = 8, 14


class ObservedMaximum(NamedTuple):
    """A maximum, on the unconstrained scale: theta (p,), and what `Maximum` says of it."""

    theta: np.ndarray
    log_evidence: float
    converged: bool
    message: str


def log_prior_of(model: pm.Model, observed: TensorVariable, theta: ThetaVector) -> LogPrior:
    """Return the function from theta to log p(theta), without the Jacobian, and its gradient."""
    variables = [v for v in (*model.basic_RVs, *model.potentials) if v is not observed]
    terms = model.logp(vars=variables, sum=False, jacobian=False)
    function = theta.compile_gradient([], pt.add(*[term.sum() for term in terms], 0.0), interpreted=True)

    def log_prior(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = function(theta)
        return float(value), gradient

    return log_prior


def by_factorization(
    target: MarginalTarget, prior: LogPrior, start: np.ndarray, max_iterations: int
) -> ObservedMaximum:
    """Climb with L-BFGS, whose values and gradients each take a Cholesky factorization.

    Raises ValueError if there is no value at the start.
    """

    def density(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = target.evidence(theta)
        log_prior, slope = prior(theta)
        return value + log_prior, gradient + slope

    found = peak(density, start, max_iterations)
    return ObservedMaximum(found.theta, target.evidence(found.theta)[0], found.converged, found.message)


def by_solutions(
    density: IterativeDensity, prior: LogPrior, start: np.ndarray | None, max_iterations: int, progressbar: bool
) -> ObservedMaximum:
    """Climb along gradients from solutions of linear systems.

    The climb begins at `start`, or at the maximum for some of the points. All of its gradients have the same probes.
    Then the mean of gradients with fresh probes gives a last step. An interruption ends it with the best theta so far.

    Raises NotConvergedError if there is no solution at the start, or at the end.
    """
    climbing = _Climbing(density, prior)
    beginning, inverse = climbing.beginning(start)
    try:
        with _shown(climbing, inverse, progressbar) as gradient:
            return _ended(climbing, climb(gradient, beginning, inverse, NEAR, max_iterations))
    except KeyboardInterrupt:
        if climbing.best is None:
            raise
        return climbing.best


def density_of(
    model: pm.Model, size: int, solver: Iterative, compile_kwargs: dict[str, Any] | None
) -> IterativeDensity:
    """Return the density of n = `size` observations, whose gradients the solver gives in the memory that it allows."""
    method = IterativeEvidence(solver.tolerance, solver.probes, solver.cap)
    tiles = NumpyTiles(memory=_left_by_gradients(solver, size))
    return IterativeDensity(model, solver.rank, method, tiles, compile_kwargs)


def _left_by_gradients(solver: Iterative, size: int) -> float:
    """Return the memory that gradients leave for the elements of K."""
    columns = max(suitable_rank(solver.rank, size), min(SUBSET, size))
    needed = 8.0 * size * (EACH_COLUMN * columns + EACH_SIDE * (solver.probes + 1))
    if needed > solver.memory:
        raise MemoryError(
            f"gradients for {size} points take {needed / 1e6:.3g} MB, and memory= allows "
            f"{solver.memory / 1e6:.3g}: allow more, for example pmgp.marginal.Iterative(memory={1.1 * needed:.2g})"
        )
    return solver.memory - needed


class _Climbing:
    """Gradients of log p(y|theta) + log p(theta), with the same probes and pivots, or with fresh ones."""

    def __init__(self, density: IterativeDensity, prior: LogPrior) -> None:
        self.density, self._prior = density, prior
        self.best: ObservedMaximum | None = None
        self._points: np.ndarray | None = None
        self._made, self._highest = 0, -np.inf

    def beginning(self, given: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return where to begin, and a guess of the posterior covariance there, from some of the points."""
        size = self.density.size
        chosen = np.sort(np.random.default_rng(0).permutation(size)[:SUBSET])

        def of_subset(theta: np.ndarray) -> tuple[float, np.ndarray]:
            return self.density.of_subset(theta, chosen)

        at = peak(of_subset, self.density.theta.initial).theta if given is None else given
        factor = student_at(at, curvature(of_subset, at)).factors[0]
        return at, factor @ factor.T * (len(chosen) / size)

    def gradient(self, theta: np.ndarray) -> np.ndarray | None:
        """Return the gradient with the same probes and pivots each time, or None, but for the first, without it."""
        self._made += 1
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
            said = f"{self._made} gradients and an interruption; with start= this point, the search continues"
            self.best, self._highest = ObservedMaximum(theta, log_evidence, False, said), value
        return gradient

    def log_prior(self, theta: np.ndarray) -> float:
        """Return the part of the density that is not the evidence."""
        return self._prior(theta)[0]

    def fresh(self, seed: int, theta: np.ndarray, points: np.ndarray | None = None) -> tuple[np.ndarray, float]:
        """Return a gradient, and the log-evidence, with the probes of a seed."""
        found = self.density.estimate(np.random.default_rng(seed), theta, points)
        return self.density.gradient(theta, found) + self._prior(theta)[1], found.log_evidence


def _ended(climbing: _Climbing, found: Climbed) -> ObservedMaximum:
    """Take the last step, and say how far from the maximum it may have ended."""
    gradients, values = _fresh(climbing, found)
    mean, directions = gradients.mean(axis=0), np.sqrt(len(found.theta))
    left, error = distance(mean, found.inverse), _error(gradients, found)
    theta, log_evidence, near = found.theta, values.mean(), left < directions
    if near:
        theta = found.theta + found.inverse @ mean
        # A quadratic rises by half the square of the distance; the prior's share of that is known.
        log_evidence += 0.5 * left**2 + climbing.log_prior(found.theta) - climbing.log_prior(theta)
    message = (
        f"{found.evaluations + len(values)} gradients by conjugate gradients, whose noise moves the maximum by about "
        f"{error:.2g} posterior standard deviations in each direction; the log-evidence has the standard error "
        f"{values.std(ddof=1) / np.sqrt(len(values)):.2g}"
    )
    return ObservedMaximum(theta, float(log_evidence), bool(near and found.distance <= NEAR), message)


def _fresh(climbing: _Climbing, found: Climbed) -> tuple[np.ndarray, np.ndarray]:
    """Return gradients (k, p) and log-evidences (k,) with fresh probes, as many as the error asks for."""
    gradients, values = np.empty((0, len(found.theta))), np.empty(0)
    while len(values) < FRESH or (len(values) < MOST_FRESH and _error(gradients, found) > LARGEST_ERROR):
        gradient, value = climbing.fresh(3 + len(values), found.theta)
        gradients, values = np.vstack([gradients, gradient]), np.append(values, value)
    return gradients, values


def _error(gradients: np.ndarray, found: Climbed) -> float:
    """Return the error of the maximum along each direction, in posterior deviations, from that of a mean gradient."""
    spread = gradients.std(axis=0, ddof=1) / np.sqrt(len(gradients))
    return distance(spread, found.inverse) / len(found.theta) ** 0.5


@contextmanager
def _shown(
    climbing: _Climbing, inverse: np.ndarray, progressbar: bool
) -> Iterator[Callable[[np.ndarray], np.ndarray | None]]:
    """Yield the gradient with a display of the number of evaluations, the distance that is left, and the residual."""
    with Progress(TextColumn("{task.description}"), TimeElapsedColumn(), disable=not progressbar) as progress:
        words = "Maximum"
        task = progress.add_task(words, total=None)
        done = 0

        def shown(theta: np.ndarray) -> np.ndarray | None:
            nonlocal done, words
            found = climbing.gradient(theta)
            done += 1
            left = "no solution" if found is None else f"{distance(found, inverse):.2g} deviations left"
            words = f"Maximum: gradient {done}, {left}"
            progress.update(task, description=words)
            return found

        with watched(lambda residual: progress.update(task, description=f"{words}; {residual}")):
            yield shown
