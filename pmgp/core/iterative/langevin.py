"""Stochastic gradient Langevin dynamics for theta, with unbiased gradients.

Filippone and Engler (2015), sections 2.3 and 5: theta moves by (eps / 2) M g plus N(0, eps M), with eps = a / (b + t)
that falls until the gradients' noise hardly adds to the normal's, and is held then. **Not exact**: no proposal is
rejected, so that the posterior is sampled but for an error of the order of eps. Draws before eps is held are to be
dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pmgp.core.numerics.storable import storable


@storable
class LangevinState(NamedTuple):
    """State of a chain.

    Attributes
    ----------
    theta : (p,) array
    iteration : int
        t.
    held : float
        The step that is held; zero while it falls.
    recent : tuple of (p,) arrays
        Gradients of the batch that is not yet full.
    """

    theta: np.ndarray
    iteration: int = 0
    held: float = 0.0
    recent: tuple[np.ndarray, ...] = ()


@dataclass(frozen=True)
class StochasticLangevin:
    """Steps of stochastic gradient Langevin dynamics.

    Parameters
    ----------
    factor : (p, p) array
        Lower Cholesky factor of M.
    first, last : float
        Steps eps at the first iteration and after `horizon` of them.
    horizon : int
    share : float
        The step is held once the noise of the gradients adds less than this part to the normal's variance, in any
        direction: (eps / 4) times the largest eigenvalue of M^1/2 V M^1/2.
    batch : int
        Gradients from which V is estimated.
    """

    factor: np.ndarray
    first: float = 0.1
    last: float = 1e-4
    horizon: int = 40_000
    share: float = 0.002
    batch: int = 100

    def __post_init__(self) -> None:
        if not 0.0 < self.last < self.first:
            raise ValueError(f"steps must fall from first to last, and be positive: {self.first}, {self.last}")
        if self.batch < 2 or self.horizon < 1:
            raise ValueError(f"batch must be at least 2 and horizon at least 1, not {self.batch} and {self.horizon}")

    def size(self, state: LangevinState) -> float:
        """Return the step size of the next iteration."""
        if state.held:
            return state.held
        # a / (b + t) that is `first` at 0 and `last` at the horizon.
        b = self.horizon * self.last / (self.first - self.last)
        return self.first * b / (b + state.iteration)

    def step(self, rng: np.random.Generator, state: LangevinState, gradient: np.ndarray) -> LangevinState:
        """Move along an estimate of the log-density's gradient at the state."""
        size = self.size(state)
        drift = 0.5 * size * (self.factor @ (self.factor.T @ gradient))
        noise = np.sqrt(size) * (self.factor @ rng.standard_normal(len(gradient)))
        recent = (*state.recent, gradient)
        held = state.held
        if len(recent) == self.batch:
            held = held or (size if self._negligible(size, np.array(recent)) else 0.0)
            recent = ()
        return LangevinState(state.theta + drift + noise, state.iteration + 1, held, recent)

    def _negligible(self, size: float, gradients: np.ndarray) -> bool:
        """Return whether the gradients' noise is small compared with the normal's."""
        scaled = (gradients - gradients.mean(axis=0)) @ self.factor
        largest = np.linalg.eigvalsh(np.atleast_2d(scaled.T @ scaled) / (len(scaled) - 1))[-1]
        return bool(0.25 * size * largest < self.share)
