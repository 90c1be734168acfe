"""Pseudo-marginal Metropolis-Hastings on theta: Algorithm 1 of the pseudo-marginal article, with delayed acceptance.

The target is extended by the importance samples and the index of one of them, which is then an exact draw from
p(f|theta, y). Three things are added to the article's algorithm; each leaves the extended target invariant.

- *Delayed acceptance* (Christen and Fox 2005): a proposal is screened with the approximation's own marginal
  likelihood, a deterministic function of theta, and the unbiased estimate is made only for those that pass. The
  second stage corrects with the ratio of estimate and screen. A rejected proposal needs no factorization of K.
- *Latent draws*: the trace gets a copy of the retained particle after a fixed number of elliptical slice moves at the
  current theta, in every iteration alike. Moving it only after rejections, or letting moves accumulate until the next
  acceptance, would correlate the number of moves with the weight of the particle and bias the draws.
- *Refreshment* (as in particle Gibbs): at the end of an iteration that copy becomes the retained particle, and all
  others and the stored estimate are redrawn given it. A chain that is stuck on an overestimate comes free.

The stored estimate of the current state is never recomputed otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pmgp.core.adaptation.mode_prediction import ModePredictor
from pmgp.core.estimators.base import Estimate, Estimator, SharesDraws
from pmgp.core.latent_updates.elliptical_slice import EllipticalSliceUpdate
from pmgp.core.marginal.evaluation import Evaluation, Evaluator, Fitted, Indefinite, Ready
from pmgp.core.marginal.proposals import AdaptiveProposal

__all__ = ["Frozen", "Info", "PseudoMarginalChain", "State"]


class State(NamedTuple):
    """The chain between two iterations; the approximation at theta is a function of it and is not part of it.

    Attributes
    ----------
    theta : (dimension,) array
    particle : (n,) array
        The retained particle, a draw from p(f|theta, y).
    log_estimate : float
        Log of p^(y|theta), unbiased.
    effective_size : float
        Effective number of importance samples behind it.
    iteration : int
    """

    theta: np.ndarray
    particle: np.ndarray
    log_estimate: float
    effective_size: float
    iteration: int


class Frozen(NamedTuple):
    """What tuning has fixed: the proposal, the start of Newton's method, the number of importance samples.

    The number is None for an estimator that knows its own.
    """

    proposal: AdaptiveProposal
    predictor: ModePredictor | None
    draws: int | None


class Info(NamedTuple):
    """What an iteration did; `iterations` and `converged` are those of the approximation at the proposal."""

    accepted: bool
    acceptance_rate: float
    indefinite: bool
    latent: np.ndarray
    iterations: int
    converged: bool


# In every how many iterations an estimate given the retained particle is worth its time: always where it is made of a
# few more columns of one product, and rarely where it takes as long as the estimate at a proposal.
REFRESH_SHARED, REFRESH_ALONE = 1, 10


@dataclass(frozen=True)
class PseudoMarginalChain:
    """Configuration of the scheme.

    Parameters
    ----------
    estimator : Estimator
    delayed_acceptance : bool
        Screen proposals with the approximation's marginal likelihood.
    latent_moves : int
        Elliptical slice moves for the trace's copy of f, in every iteration; none if the estimate is no unbiased one,
        as a move towards p(f|theta, y) would make a draw from q neither the one nor the other.
    refresh_every : int, optional
        Refresh the particles in every so many iterations; 0 for never; what suits the estimator if not given.
    """

    estimator: Estimator
    delayed_acceptance: bool = True
    latent_moves: int = 1
    refresh_every: int | None = None

    def init(self, rng: np.random.Generator, evaluation: Ready, frozen: Frozen) -> State:
        """Start the chain."""
        estimate = self._estimate(rng, evaluation, frozen)
        if not np.isfinite(estimate.log_evidence):
            raise FloatingPointError("every importance weight underflows at the chain's starting point")
        return self._state(rng, evaluation, estimate, 0)

    def step(
        self,
        rng: np.random.Generator,
        state: State,
        current: Ready,
        evaluate: Evaluator,
        frozen: Frozen,
    ) -> tuple[State, Ready, Info]:
        """One iteration.

        Parameters
        ----------
        rng : numpy.random.Generator
        state : State
        current : Ready
            The evaluation at ``state.theta``.
        evaluate : Evaluator
        frozen : Frozen
        """
        proposed = frozen.proposal.propose(rng, state.theta)
        candidate: Evaluation | Ready = evaluate(proposed.theta, frozen.predictor)
        screen = candidate.log_screen - current.log_screen + proposed.log_hastings
        fitted = candidate.approximation if isinstance(candidate, Fitted) else None
        steps, converged = (0, True) if fitted is None else (fitted.iterations, fitted.converged)
        # What is not needed any more is not kept: its matrices are most of the memory.
        fitted = None
        if isinstance(candidate, Fitted) and self._passes(rng, screen):
            candidate = evaluate.prepare(candidate)
        estimate, rate, indefinite = None, 0.0, isinstance(candidate, Indefinite)
        if isinstance(candidate, Ready):
            estimate, rate = self._accept(rng, state, current, candidate, screen, frozen)
            if estimate is not None:
                state, current = self._state(rng, candidate, estimate, state.iteration), candidate
        del candidate
        state = state._replace(iteration=state.iteration + 1)
        state, latent = self._update_latent(rng, state, current, frozen)
        return state, current, Info(estimate is not None, rate, indefinite, latent, steps, converged)

    def _update_latent(
        self, rng: np.random.Generator, state: State, current: Ready, frozen: Frozen
    ) -> tuple[State, np.ndarray]:
        """The trace's copy of f, and the state after a refreshment given that copy, where one is due."""
        if not self._refreshes(state.iteration):
            return state, self._move_latent(rng, state, current)
        shared = self._shared_draws(rng, current, frozen)
        if shared is None:
            latent = self._move_latent(rng, state, current)
            return self.refresh(rng, state._replace(particle=latent), current, frozen), latent
        latent = self._move_latent(rng, state, current, shared[: self.latent_moves])
        return self._refreshed(rng, state, current, latent, shared[self.latent_moves :]), latent

    def _refreshed(
        self, rng: np.random.Generator, state: State, current: Ready, latent: np.ndarray, deviations: np.ndarray
    ) -> State:
        assert self._sharing is not None
        estimate = self._sharing.estimate_from(current.approximation, current.likelihood, latent, deviations)
        return self._state(rng, current, estimate, state.iteration)

    @cached_property
    def _sharing(self) -> SharesDraws | None:
        """The estimator, if it is one that shares draws; looked up once, as that takes microseconds."""
        return self.estimator if isinstance(self.estimator, SharesDraws) else None

    def _shared_draws(self, rng: np.random.Generator, current: Ready, frozen: Frozen) -> np.ndarray | None:
        """Draws of q less its mean for the moves and for the refreshment, as columns of one matrix."""
        if self._sharing is None:
            return None
        redrawn = self._sharing.redrawn(frozen.draws or 1)
        return current.approximation.sample_deviations(rng, self.latent_moves + redrawn) if redrawn else None

    def refresh(self, rng: np.random.Generator, state: State, current: Ready, frozen: Frozen) -> State:
        """Redraw the estimate given the retained particle: a Gibbs update of the extended target."""
        estimate = self.estimator.estimate_given(
            rng, current.approximation, current.likelihood, state.particle, frozen.draws
        )
        return self._state(rng, current, estimate, state.iteration)

    def _refreshes(self, iteration: int) -> bool:
        every = self.refresh_every
        if every is None:
            every = REFRESH_ALONE if self._sharing is None else REFRESH_SHARED
        return every > 0 and iteration % every == 0

    def _passes(self, rng: np.random.Generator, screen: float) -> bool:
        """The first stage, on the approximation's posterior; always passed without delayed acceptance."""
        if not np.isfinite(screen):
            return False
        return not self.delayed_acceptance or bool(np.log(rng.uniform()) < screen)

    def _accept(
        self,
        rng: np.random.Generator,
        state: State,
        current: Ready,
        candidate: Ready,
        screen: float,
        frozen: Frozen,
    ) -> tuple[Estimate | None, float]:
        """The second stage: the estimate if the proposal is accepted, and the probability of that."""
        estimate = self._estimate(rng, candidate, frozen)
        correction = (candidate.log_prior + estimate.log_evidence - candidate.log_screen) - (
            current.log_prior + state.log_estimate - current.log_screen
        )
        log_ratio = correction if self.delayed_acceptance else screen + correction
        rate = float(np.exp(min(0.0, log_ratio))) if np.isfinite(estimate.log_evidence) else 0.0
        return (estimate if rng.uniform() < rate else None), rate

    def _estimate(self, rng: np.random.Generator, evaluation: Ready, frozen: Frozen) -> Estimate:
        return self.estimator.estimate(rng, evaluation.approximation, evaluation.likelihood, frozen.draws)

    def _state(self, rng: np.random.Generator, evaluation: Ready, estimate: Estimate, iteration: int) -> State:
        particle = estimate.choose(rng)
        return State(evaluation.theta, particle, estimate.log_evidence, estimate.effective_size, iteration)

    def _move_latent(
        self, rng: np.random.Generator, state: State, current: Ready, auxiliaries: np.ndarray | None = None
    ) -> np.ndarray:
        if self.latent_moves == 0:
            return state.particle
        operator = EllipticalSliceUpdate(self.latent_moves)
        return operator.move(rng, state.particle, current.approximation, current.likelihood, auxiliaries)
