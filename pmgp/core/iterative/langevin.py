"""Stochastic gradient Langevin dynamics for theta, with unbiased gradients.

See Filippone and Engler (2015), sections 2.3 and 5: theta moves by (eps / 2) M g plus N(0, eps M), where
eps = a / (b + t) falls until the noise of the gradients hardly adds to that of the normal, and is then held.
**Not exact**: no proposal is rejected, so the draws have an error of the order of eps. Drop the draws before eps is
held.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pmgp.core.numerics.storable import storable


@storable
class LangevinState(NamedTuple):
    """The state of a chain.

    - `theta` (p,)
    - `iteration`: t
    - `held`: the step size that is held; zero while it falls
    - `recent` tuple of (p,) arrays: gradients of the incomplete batch
    """

    theta: np.ndarray
    iteration: int = 0
    held: float = 0.0
    recent: tuple[np.ndarray, ...] = ()


@dataclass(frozen=True)
class StochasticLangevin:
    """Steps of stochastic gradient Langevin dynamics.

    - `factor` (p, p): lower Cholesky factor of M
    - `first`, `last`: step sizes eps at the first iteration and after `horizon` iterations
    - `share`: the step size is held once the gradients' noise adds less than this fraction to the variance of the
      normal in any direction: (eps / 4) times the largest eigenvalue of M^1/2 V M^1/2, with V the gradients' covariance
    - `batch`: number of gradients from which V is estimated
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
        # a / (b + t), which is `first` at 0 and `last` at the horizon.
        b = self.horizon * self.last / (self.first - self.last)
        return self.first * b / (b + state.iteration)

    def step(self, rng: np.random.Generator, state: LangevinState, gradient: np.ndarray) -> LangevinState:
        """Return the state after a step along an estimate of the log-density's gradient."""
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
