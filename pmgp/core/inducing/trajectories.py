"""Trajectories of v about its Gaussian, for which the motion is solved exactly.

In w, where the Gaussian is N(0, I), position and momentum rotate about the origin, and only the rest of the density
changes the momentum, in kicks (Beskos et al. 2011; Shahbaba et al. 2014). If the Gaussian fits, a quarter of a turn
gives an independent draw. A kick may be any function of the position, so rough derivatives only lower the
acceptance rate.
"""

from __future__ import annotations

from math import ceil, cos, exp, pi, sin
from typing import NamedTuple

import numpy as np

from pmgp.core.adaptation.step_size import StepSize
from pmgp.core.inducing.conditional import GaussianFit, WhitenedConditional
from pmgp.core.numerics.linalg import triangular_solve

# The angle of one turn is tuned to this acceptance rate, and a trajectory makes about a quarter of a full turn.
TARGET = 0.85
QUARTER = 0.5 * pi
FIRST = 0.6
MOST_STEPS = 8
# Lengths vary, so that trajectories do not return to their start.
SHORTEST = 0.6


class Moved(NamedTuple):
    """End of a trajectory.

    `w` (k, m); `evaluations`: number of evaluations of the likelihood and of its derivatives.
    """

    w: np.ndarray
    acceptance_rate: float
    evaluations: int


class _Rest(NamedTuple):
    """The density of w divided by that of N(0, I)."""

    conditional: WhitenedConditional
    fit: GaussianFit

    def place(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return v and the latent values."""
        v = self.fit.mode + self.fit.deviation(w)
        return v, self.conditional.latent(v)

    def value(self, w: np.ndarray, v: np.ndarray, latent: np.ndarray) -> float:
        """Return the logarithm of the density."""
        return self.conditional.log_density(v, latent) + 0.5 * float(np.vdot(w, w))

    def kick(self, w: np.ndarray) -> np.ndarray:
        """Return the log-density's gradient in w, as exact as the likelihood's derivatives."""
        v, latent = self.place(w)
        slope = self.conditional.pulled_back(self.conditional.slope(latent)) - v
        return np.array([triangular_solve(L, row) for L, row in zip(self.fit.factors, slope, strict=True)]) + w


def angle_to_learn() -> StepSize:
    """Return the angle that a step of a trajectory turns through, before tuning."""
    return StepSize.start(FIRST, largest=QUARTER)


def trajectory(
    rng: np.random.Generator, conditional: WhitenedConditional, fit: GaussianFit, w: np.ndarray, angle: float
) -> Moved:
    """Move w along a trajectory, whose end is accepted or rejected with the exact density.

    `w` (k, m); `angle`: largest turn between two kicks.
    """
    rest, steps = _Rest(conditional, fit), min(ceil(QUARTER / angle), MOST_STEPS)
    momentum, turn = rng.standard_normal(w.shape), angle * rng.uniform(SHORTEST, 1.0)
    with np.errstate(all="ignore"):
        before = rest.value(w, *rest.place(w)) - _energy(w, momentum)
        candidate, momentum = _turned(rest, w, momentum, turn, steps)
        log_ratio = rest.value(candidate, *rest.place(candidate)) - _energy(candidate, momentum) - before
    rate = exp(min(log_ratio, 0.0)) if log_ratio == log_ratio else 0.0
    return Moved(candidate if rng.uniform() < rate else w, rate, steps + 3)


def _turned(rest: _Rest, w: np.ndarray, momentum: np.ndarray, turn: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Make turns with half a kick before the first, half a kick after the last, and whole kicks between them."""
    cosine, sine = cos(turn), sin(turn)
    momentum = momentum + 0.5 * turn * rest.kick(w)
    for step in range(steps):
        w, momentum = cosine * w + sine * momentum, cosine * momentum - sine * w
        momentum = momentum + (turn if step < steps - 1 else 0.5 * turn) * rest.kick(w)
    return w, momentum


def _energy(w: np.ndarray, momentum: np.ndarray) -> float:
    """Return the energy of the Gaussian part, which rotations conserve."""
    return 0.5 * float(np.vdot(w, w) + np.vdot(momentum, momentum))
