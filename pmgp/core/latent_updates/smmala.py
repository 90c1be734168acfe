"""Simplified manifold MALA for f, with the metric K^-1 + R(f)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pmgp.core.gaussians import Prior
from pmgp.core.latent_updates.coordinates import LatentDensity
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.transitions.base import Point, TransitionInfo
from pmgp.core.transitions.langevin import langevin


class ManifoldDensity(LatentDensity):
    """The density of f with the metric G(f) = K^-1 + R(f), R the Fisher information (appendix A.1).

    K is inverted once, and G is factorized at every proposal, unless R has not changed: the information of the
    volatility model, for example, does not depend on f.
    """

    def _weighted(self, deviation: np.ndarray) -> np.ndarray:
        return self.prior.precision_product(deviation)

    def with_metric(self, point: Point, known: Point | None = None) -> Point | None:
        """Return a point with the factor of G, or None if the information at f is not finite."""
        information = self.likelihood.fisher_information(point.payload)
        if known is not None and np.array_equal(information, known.metric_key):
            return point._replace(metric_factor=known.metric_factor, metric_key=information)
        factor = self.prior.precision_factor(information)
        return None if factor is None else point._replace(metric_factor=factor, metric_key=information)


@dataclass(frozen=True)
class LangevinUpdate:
    """Langevin proposals with a metric that depends on the position (Algorithm 2 of the comparative evaluation)."""

    target_acceptance: ClassVar[float] = 0.57
    largest_step_size: ClassVar[float] = np.inf

    def initial_step_size(self, n: int) -> float:
        """Return the step size at which tuning starts, scaled with dimension as usual for Langevin proposals."""
        return n ** (-1.0 / 6.0)

    def prepare(self, prior: Prior, likelihood: Likelihood) -> ManifoldDensity | None:
        """Return the density of f with K factorized and inverted, or None if K is indefinite."""
        factorized = prior.factorized()
        return None if factorized is None else ManifoldDensity(factorized.inverted(), likelihood)

    def init(self, target: ManifoldDensity, f: np.ndarray) -> Point:
        """Return the point at f."""
        point = target.at(f, gradient=True)
        complete = target.with_metric(point)
        return point._replace(log_density=-np.inf) if complete is None else complete

    def restore(self, target: ManifoldDensity, point: Point) -> Point:
        """Return a point that was stored without its metric, completed."""
        return point if point.metric_factor.size else self.init(target, point.payload)

    def step(
        self, rng: np.random.Generator, point: Point, target: ManifoldDensity, step_size: float
    ) -> tuple[Point, TransitionInfo]:
        """Make one transition; return the new point and a report."""
        return langevin(rng, point, target, step_size)
