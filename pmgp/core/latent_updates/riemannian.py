"""Hamiltonian Monte Carlo for f with a metric, as in samplers (a) to (f) of the article on classes and sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pmgp.core.gaussians import Prior
from pmgp.core.latent_updates.base import check_name
from pmgp.core.latent_updates.metrics import METRICS, MovingMetricDensity
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.transitions.adaptive import check_leapfrog
from pmgp.core.transitions.base import Point, TransitionInfo
from pmgp.core.transitions.riemannian import Solver, riemannian

DEFAULT_SOLVER = Solver()


@dataclass(frozen=True)
class RiemannianUpdate:
    """Riemann manifold Hamiltonian Monte Carlo for f.

    Parameters
    ----------
    metric : {"local", "fixed", "identity"}
        "local" is K^-1 + W(f) with the curvature W of the likelihood, and uses the generalized leapfrog. "fixed" takes
        W at the constant f that fits the data best (probabilities n_c / n for labels of classes). "identity" is I.
    max_leapfrog : int
        The number of leapfrog steps is uniform from 1 to this value.
    solver : Solver
        Solver of the implicit steps.

    Raises
    ------
    ValueError
        For an unknown metric, or a number of leapfrog steps below one.
    """

    metric: str = "local"
    max_leapfrog: int = 10
    solver: Solver = DEFAULT_SOLVER
    target_acceptance: ClassVar[float] = 0.65
    largest_step_size: ClassVar[float] = np.inf

    def __post_init__(self) -> None:
        check_name(self.metric, tuple(METRICS), "metric")
        check_leapfrog(self.max_leapfrog)

    def initial_step_size(self, n: int) -> float:
        """Return the step size at which tuning starts, scaled with dimension like the largest stable step."""
        return 0.5 * n**-0.25

    def prepare(self, prior: Prior, likelihood: Likelihood) -> MovingMetricDensity | None:
        """Return the density of f with its metric, or None if K is indefinite."""
        factorized = prior.factorized()
        return None if factorized is None else METRICS[self.metric](factorized, likelihood)

    def init(self, target: MovingMetricDensity, f: np.ndarray) -> Point:
        """Return the point at f."""
        point, metric = target.at(f, gradient=True), target.metric_at(f)
        return point._replace(log_density=-np.inf) if metric is None else point._replace(metric_factor=metric)

    def restore(self, target: MovingMetricDensity, point: Point) -> Point:
        """Return a point that was stored without its metric, completed."""
        return self.init(target, point.payload) if isinstance(point.metric_factor, np.ndarray) else point

    def step(
        self, rng: np.random.Generator, point: Point, target: MovingMetricDensity, step_size: float
    ) -> tuple[Point, TransitionInfo]:
        """Make one trajectory; return the new point and a report."""
        return riemannian(rng, point, target, step_size, self.max_leapfrog, self.solver)
