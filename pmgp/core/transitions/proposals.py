"""Proposals of two kinds, learned during tuning and frozen afterwards.

They are mixed: a random walk with the full covariance of the tuning draws (adaptive Metropolis; Haario, Saksman and
Tamminen 2001), and an independence proposal, a multivariate t fitted to the same draws. Where the posterior is close
to elliptical the second one makes nearly independent draws; where it is not, the first one keeps the chain moving.

With an emulator of the log-density, the independence proposal is the result of one transition that leaves the emulated
density s invariant: one of several draws from the t is picked, in proportion to s over t. Because
that transition is reversible, the Hastings ratio is s(theta) over s(theta') (surrogate transitions, Liu 2001): with a
good emulator nearly all proposals are accepted.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import log1p, sqrt
from typing import Any

import numpy as np
from scipy.special import logsumexp

from pmgp.core.adaptation.emulator import Emulator, Visited, fitted
from pmgp.core.adaptation.moments import Moments
from pmgp.core.numerics.compiled.loading import compiled, vectors
from pmgp.core.numerics.storable import storable
from pmgp.core.transitions.metropolis_hastings import Proposed

# The components.
WALK, INDEPENDENT = 0, 1

INITIAL_SCALE = 0.5
DEGREES_OF_FREEDOM = 5.0
# The t is a little wider than the draws it was fitted to, so that the importance ratio is bounded in practice.
INFLATION = 1.15
# Number of draws from the t that are tried at once, with up to three elements and with more.
TRIES_OF_THREE, TRIES = 16, 64
# Share of the t in the emulated density. Far from the points that tuning has visited, the emulator is not reliable, and
# a chain would stay for a long time where it is much too low.
SHARE_OF_T = 0.1
# Number of draws from the t that determine its share.
DRAWS_FOR_SHARE = 500


@storable
@dataclass(frozen=True)
class AdaptiveProposal:
    """The mixture proposal; :meth:`adapted` and :meth:`refitted` return changed copies, and `propose` only reads.

    - `dimension`: length of theta
    - `target_rate`: acceptance rate to which the random walk is scaled; the articles use 20 to 30 %
    - `independence`: probability of the independence component, zero until the t has been fitted
    - `lowest`, `highest`: bounds of the emulator's log-density less that of the t: the share of the t, and the largest
      difference at the visited points. Far from these the emulator may have any value
    """

    dimension: int
    target_rate: float = 0.25
    independence: float = 0.0
    log_scale: float = np.log(INITIAL_SCALE)
    location: np.ndarray | None = None
    factor: np.ndarray | None = None
    emulator: Emulator | None = None
    lowest: float = -np.inf
    highest: float = np.inf
    inverse_factor: np.ndarray | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.factor is not None:
            object.__setattr__(self, "inverse_factor", np.linalg.inv(self.factor))

    def propose(self, rng: np.random.Generator, theta: np.ndarray) -> Proposed:
        """Draw theta' given theta, both of shape (dimension,), on the unconstrained scale."""
        independent = self.independence > 0.0 and rng.random() < self.independence
        if independent and self.emulator is not None:
            return self._emulated(rng, theta)
        normals = rng.standard_normal(self.dimension)
        if not independent:
            step = normals if self.factor is None else self.factor @ normals
            return Proposed(theta + np.exp(self.log_scale) * step, 0.0, WALK)
        assert self.location is not None
        assert self.factor is not None
        divisor = sqrt(rng.chisquare(DEGREES_OF_FREEDOM) / DEGREES_OF_FREEDOM)
        proposal = self.location + INFLATION * (self.factor @ normals) / divisor
        return Proposed(proposal, self._log_t(theta) - self._log_t(proposal), INDEPENDENT)

    def _log_t(self, theta: np.ndarray) -> float:
        """Return the log-density of the fitted t up to a constant."""
        assert self.inverse_factor is not None
        standard = self.inverse_factor @ (theta - self.location) / INFLATION
        exponent = 0.5 * (DEGREES_OF_FREEDOM + self.dimension)
        return -exponent * log1p(float(standard @ standard) / DEGREES_OF_FREEDOM)

    def _emulated(self, rng: np.random.Generator, theta: np.ndarray) -> Proposed:
        """Make one transition of the multiple-trial independence sampler for the emulated density."""
        tries = TRIES_OF_THREE if self.dimension <= 3 else TRIES
        tried, log_emulated = np.empty((tries + 1, self.dimension)), np.empty(tries + 1)
        drawn = rng.standard_normal((tries, self.dimension)), rng.chisquare(DEGREES_OF_FREEDOM, tries), rng.random(2)
        start = np.ascontiguousarray(theta, np.float64)
        chosen = compiled("emulated.transition")(*drawn, start, *self._parts, tried, log_emulated)
        return Proposed(tried[chosen], float(log_emulated[0] - log_emulated[chosen]), INDEPENDENT)

    @cached_property
    def _parts(self) -> tuple[Any, ...]:
        """The parts of the t and of the emulator, contiguous along the axis that the kernel reads."""
        assert self.location is not None
        assert self.factor is not None
        assert self.inverse_factor is not None
        assert self.emulator is not None
        e = self.emulator
        of_t = vectors(self.location, self.factor.T, self.inverse_factor)
        emulated = vectors(e.location, e.inverse_factor, e.linear, e.square, e.nodes.T, e.weights)
        return (*of_t, *emulated, e.constant, e.lengthscale, self.lowest, self.highest)

    def _draws_of_t(self, rng: np.random.Generator, size: int) -> np.ndarray:
        assert self.factor is not None
        normals = rng.standard_normal((size, self.dimension))
        divisors = np.sqrt(rng.chisquare(DEGREES_OF_FREEDOM, size) / DEGREES_OF_FREEDOM)
        return self.location + INFLATION * (normals @ self.factor.T) / divisors[:, None]

    def _log_t_of(self, theta: np.ndarray) -> np.ndarray:
        """Return the log-density of the t at several points: (size, dimension) -> (size,)."""
        assert self.inverse_factor is not None
        standard = (theta - self.location) @ self.inverse_factor.T / INFLATION
        exponent = 0.5 * (DEGREES_OF_FREEDOM + self.dimension)
        return -exponent * np.log1p(np.einsum("ij,ij->i", standard, standard) / DEGREES_OF_FREEDOM)

    def _log_ratios(self, theta: np.ndarray, log_t: np.ndarray) -> np.ndarray:
        """Return log-ratios of the density that proposals follow to the t: (size, dimension) -> (size,)."""
        assert self.emulator is not None
        return np.logaddexp(np.minimum(self.emulator.at(theta) - log_t, self.highest), self.lowest)

    def emulating(self, visited: Visited) -> AdaptiveProposal:
        """Return the proposal with an emulator fitted to the visited points, or without one if these are too few."""
        if self.location is None or self.inverse_factor is None:
            return self
        emulator = fitted(visited, self.location, self.inverse_factor)
        if emulator is None:
            return replace(self, emulator=None, lowest=-np.inf, highest=np.inf)
        positions, values = visited.values
        highest = float((values - self._log_t_of(positions)).max())
        bounded = replace(self, emulator=emulator, lowest=-np.inf, highest=highest)
        # The same draws in every call: the learned state is a function of the chain alone.
        draws = self._draws_of_t(np.random.default_rng(0), DRAWS_FOR_SHARE)
        ratios = bounded._log_ratios(draws, self._log_t_of(draws))
        return replace(bounded, lowest=float(np.log(SHARE_OF_T) + logsumexp(ratios) - np.log(DRAWS_FOR_SHARE)))

    def adapted(self, acceptance: float, iteration: int) -> AdaptiveProposal:
        """Move the random walk's scale towards the target rate (Robbins and Monro).

        - `acceptance`: acceptance probability of the last random-walk proposal
        - `iteration`: number of proposals so far; the steps shrink with it
        """
        gain = min(1.0, 5.0 / (iteration + 1.0) ** 0.6)
        return replace(self, log_scale=self.log_scale + gain * (acceptance - self.target_rate))

    def refitted(self, moments: Moments, independence: float) -> AdaptiveProposal:
        """Take location and covariance from the tuning draws; the first fit restarts the random walk's scale."""
        factor = np.linalg.cholesky(moments.covariance())
        log_scale = self.log_scale
        if self.factor is None:
            log_scale = float(np.log(2.4 / np.sqrt(self.dimension)))
        return replace(
            self, location=moments.mean.copy(), factor=factor, log_scale=log_scale, independence=independence
        )
