"""Metropolis transitions for f: isotropic, and Neal's two versions scaled by the prior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pmgp.core.gaussians import Prior
from pmgp.core.latent_updates.base import check_name
from pmgp.core.latent_updates.coordinates import LatentDensity, ScaledDensity, latent, scaled_by_prior
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.transitions.base import Point, TransitionInfo
from pmgp.core.transitions.metropolis_hastings import metropolis_choice, random_walk

PROPOSALS = ("autoregressive", "random_walk", "isotropic")


@dataclass(frozen=True)
class MetropolisUpdate:
    """A Metropolis update of f, with one of three proposals.

    Parameters
    ----------
    proposal : {"autoregressive", "random_walk", "isotropic"}
        With e standard normal and z = L e, "autoregressive" proposes m + sqrt(1 - step^2) (f - m) + step z (equation 12
        of the comparative evaluation, its "MH v2"), "random_walk" proposes f + step z (equation 11, "MH v1"), and
        "isotropic" proposes f + step e (section 3.1).

    Raises
    ------
    ValueError
        For an unknown proposal.
    """

    proposal: str = "autoregressive"
    target_acceptance: ClassVar[float] = 0.25

    def __post_init__(self) -> None:
        check_name(self.proposal, PROPOSALS, "proposal")

    def initial_step_size(self, n: int) -> float:
        """Return the step size at which tuning starts."""
        return 0.1 if self.proposal != "isotropic" else 2.4 / np.sqrt(n)

    @property
    def largest_step_size(self) -> float:
        """The largest step that tuning may reach; an autoregressive step of one is a draw from the prior."""
        return 1.0 if self.proposal == "autoregressive" else np.inf

    def prepare(self, prior: Prior, likelihood: Likelihood) -> LatentDensity | ScaledDensity | None:
        """Return the density of the proposal's coordinates with K factorized, or None if K is indefinite."""
        return (latent if self.proposal == "isotropic" else scaled_by_prior)(prior, likelihood)

    def init(self, target: LatentDensity | ScaledDensity, f: np.ndarray) -> Point:
        """Return the point at f."""
        if self.proposal == "autoregressive":
            return _point_of_likelihood(target, f)
        return target.at(target.enter(f))

    def restore(self, target: object, point: Point) -> Point:
        """Return the point: stored points are complete."""
        return point

    def step(
        self, rng: np.random.Generator, point: Point, target: LatentDensity | ScaledDensity, step_size: float
    ) -> tuple[Point, TransitionInfo]:
        """Make one transition; return the new point and a report."""
        if isinstance(target, ScaledDensity) and self.proposal == "autoregressive":
            return _autoregressive(rng, point, target, min(step_size, 1.0))
        return random_walk(rng, point, target, step_size)


def _point_of_likelihood(target: LatentDensity | ScaledDensity, f: np.ndarray) -> Point:
    """Return a point with only the log-likelihood, since the proposal is reversible under the prior."""
    return Point(f, float(target.likelihood.log_likelihood(f)), f)


def _autoregressive(
    rng: np.random.Generator, point: Point, target: ScaledDensity, step_size: float
) -> tuple[Point, TransitionInfo]:
    mean = target.coordinates.mean
    prior_draw = target.coordinates.deviation(rng.standard_normal(point.position.shape))
    kept = np.sqrt(1.0 - step_size**2)
    candidate = _point_of_likelihood(target, mean + kept * (point.position - mean) + step_size * prior_draw)
    return metropolis_choice(rng, point, candidate, candidate.log_density - point.log_density, 1)
