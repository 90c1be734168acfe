"""Hybrid Monte Carlo for f: isotropic, or with a mass matrix from the prior or close to the posterior's precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pmgp.core.gaussians import Prior
from pmgp.core.latent_updates.base import check_name
from pmgp.core.latent_updates.coordinates import (
    LatentDensity,
    ScaledDensity,
    latent,
    scaled_by_posterior,
    scaled_by_prior,
)
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.transitions.adaptive import check_leapfrog
from pmgp.core.transitions.base import Point, TransitionInfo
from pmgp.core.transitions.hamiltonian import hamiltonian

MASSES: dict[str, Callable[[Prior, Likelihood], LatentDensity | ScaledDensity | None]] = {
    "posterior": scaled_by_posterior,
    "prior": scaled_by_prior,
    "identity": latent,
}


@dataclass(frozen=True)
class HamiltonianUpdate:
    """Hybrid Monte Carlo for f.

    Parameters
    ----------
    mass : {"posterior", "prior", "identity"}
        The mass matrix: K^-1 + C with C the Fisher information at the prior mean for "posterior", K^-1 for "prior", or
        the identity (section 3.6 of the comparative evaluation, which calls the first two "HMC v1" and "HMC v2").
    max_leapfrog : int
        The number of leapfrog steps is uniform from 1 to this value.

    Raises
    ------
    ValueError
        For an unknown mass, or a number of leapfrog steps below one.
    """

    mass: str = "posterior"
    max_leapfrog: int = 10
    target_acceptance: ClassVar[float] = 0.65
    largest_step_size: ClassVar[float] = np.inf

    def __post_init__(self) -> None:
        check_name(self.mass, tuple(MASSES), "mass")
        check_leapfrog(self.max_leapfrog)

    def initial_step_size(self, n: int) -> float:
        """Return the step size at which tuning starts, scaled with dimension like the largest stable step."""
        return 0.5 * n**-0.25

    def prepare(self, prior: Prior, likelihood: Likelihood) -> LatentDensity | ScaledDensity | None:
        """Return the density in coordinates that the mass matrix scales, or None if K is indefinite."""
        return MASSES[self.mass](prior, likelihood)

    def init(self, target: LatentDensity | ScaledDensity, f: np.ndarray) -> Point:
        """Return the point at f."""
        return target.at(target.enter(f), gradient=True)

    def restore(self, target: object, point: Point) -> Point:
        """Return the point: stored points are complete."""
        return point

    def step(
        self, rng: np.random.Generator, point: Point, target: LatentDensity | ScaledDensity, step_size: float
    ) -> tuple[Point, TransitionInfo]:
        """Make one trajectory; return the new point and a report."""
        return hamiltonian(rng, point, target, step_size, self.max_leapfrog)
