"""Hamiltonian Monte Carlo, for any density (Algorithm 1 of the comparative evaluation)."""

from __future__ import annotations

import numpy as np

from pmgp.core.transitions.base import Density, Point, TransitionInfo
from pmgp.core.transitions.metropolis_hastings import metropolis_choice


def hamiltonian(
    rng: np.random.Generator, point: Point, density: Density, step_size: float, max_leapfrog: int, min_leapfrog: int = 1
) -> tuple[Point, TransitionInfo]:
    """Hybrid Monte Carlo with a unit mass matrix and a random number of leapfrog steps (Algorithm 1).

    The number is uniform between `min_leapfrog` and `max_leapfrog`. The point must have its gradient. Adjacent half
    steps of the momentum are made as one.
    """
    position, gradient = point.position, point.gradient
    momentum = rng.standard_normal(position.shape)
    steps = int(rng.integers(min_leapfrog, max_leapfrog + 1))
    kinetic = 0.5 * float(momentum @ momentum)
    with np.errstate(all="ignore"):
        momentum += 0.5 * step_size * gradient
        for _ in range(steps - 1):
            position = position + step_size * momentum
            momentum += step_size * density.gradient(position)
        candidate = density.at(position + step_size * momentum, gradient=True)
        momentum += 0.5 * step_size * candidate.gradient
        log_ratio = candidate.log_density - point.log_density + kinetic - 0.5 * float(momentum @ momentum)
    moved, info = metropolis_choice(rng, point, candidate, log_ratio, steps)
    energy_error = -log_ratio if log_ratio == log_ratio else np.inf
    return moved, info._replace(energy_error=energy_error, step_size=step_size)
