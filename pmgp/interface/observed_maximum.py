"""The maximum of log p(y|theta) + log p(theta) for multivariate normal observations, factorized or not."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pmgp.core.adaptation.units import units
from pmgp.core.importance import peak
from pmgp.core.iterative.ascent import Climbed, distance
from pmgp.interface.climbing import NEAR, Climbing, LogPrior
from pmgp.interface.importance.targets import MarginalTarget
from pmgp.interface.iterative_evidence import IterativeDensity
from pmgp.interface.model.theta_vector import ThetaVector

# Gradients with fresh probes at the end, whose mean gives the last step, and whose spread gives its error: so many, and
# more while the error is larger than this, in posterior deviations along each direction.
FRESH, MOST_FRESH, LARGEST_ERROR = 4, 12, 0.3


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

    found = peak(density, start, max_iterations, units(target.log_prior, lambda theta: density(theta)[0], start))
    return ObservedMaximum(found.theta, target.evidence(found.theta)[0], found.converged, found.message)


def by_solutions(
    density: IterativeDensity, prior: LogPrior, start: np.ndarray | None, max_iterations: int, progressbar: bool
) -> ObservedMaximum:
    """Climb along gradients from solutions of linear systems.

    The climb begins at `start`, or at the maximum for some of the points. All of its gradients have the same probes.
    Then the mean of gradients with fresh probes gives a last step. An interruption ends it with the best theta so far.

    Raises NotConvergedError if there is no solution at the start, or at the end.
    """
    climbing = Climbing(density, prior)
    try:
        with climbing.shown(progressbar):
            return _ended(climbing, climbing.climb(start, max_iterations))
    except KeyboardInterrupt:
        if climbing.best is None:
            raise
    return ObservedMaximum(*climbing.best, False, f"{climbing.made} gradients and an interruption")


def _ended(climbing: Climbing, found: Climbed) -> ObservedMaximum:
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


def _fresh(climbing: Climbing, found: Climbed) -> tuple[np.ndarray, np.ndarray]:
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
