"""Hybrid Monte Carlo for f: isotropic, and with a mass matrix taken from the prior or near the posterior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pmgp.core.gaussians import Prior
from pmgp.core.latent_updates.coordinates import (
    LatentDensity,
    ScaledDensity,
    latent,
    scaled_by_posterior,
    scaled_by_prior,
)
from pmgp.core.latent_updates.variants import check_variant
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.transitions.base import Point, TransitionInfo
from pmgp.core.transitions.hamiltonian import hamiltonian

__all__ = ["HamiltonianUpdate"]

COORDINATES: dict[str, Callable[[Prior, Likelihood], LatentDensity | ScaledDensity | None]] = {
    "isotropic": latent,
    "v1": scaled_by_posterior,
    "v2": scaled_by_prior,
}


@dataclass(frozen=True)
class HamiltonianUpdate:
    """Hybrid Monte Carlo for f.

    Parameters
    ----------
    variant : {"v1", "v2", "isotropic"}
        The inverse mass matrix: "v1" (K^-1 + C)^-1 with C the Fisher information at the prior mean, "v2" K (section
        3.6 of the comparative evaluation), "isotropic" the identity.
    max_leapfrog : int
        The number of leapfrog steps is uniform from 1 to this one.

    Raises
    ------
    ValueError
        For another variant, or a number of leapfrog steps below one.
    """

    variant: str = "v1"
    max_leapfrog: int = 10
    target_acceptance: ClassVar[float] = 0.65
    largest_step_size: ClassVar[float] = np.inf

    def __post_init__(self) -> None:
        check_variant(self.variant, tuple(COORDINATES))
        if not isinstance(self.max_leapfrog, int | np.integer) or self.max_leapfrog < 1:
            raise ValueError(f"max_leapfrog must be an integer of at least 1, not {self.max_leapfrog}")

    def initial_step_size(self, n: int) -> float:
        """Where tuning starts: the scaling of the stable step with dimension."""
        return 0.5 * n**-0.25

    def prepare(self, prior: Prior, likelihood: Likelihood) -> LatentDensity | ScaledDensity | None:
        """Make the factor of the inverse mass matrix; None where K is indefinite."""
        return COORDINATES[self.variant](prior, likelihood)

    def init(self, target: LatentDensity | ScaledDensity, f: np.ndarray) -> Point:
        """Start at f."""
        return target.at(target.enter(f), gradient=True)

    def restore(self, target: object, point: Point) -> Point:
        """Nothing is left out of a stored point."""
        return point

    def step(
        self, rng: np.random.Generator, point: Point, target: LatentDensity | ScaledDensity, step_size: float
    ) -> tuple[Point, TransitionInfo]:
        """One trajectory."""
        return hamiltonian(rng, point, target, step_size, self.max_leapfrog)
