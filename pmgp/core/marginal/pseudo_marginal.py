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
from typing import NamedTuple

import numpy as np

from pmgp.core.adaptation.mode_prediction import ModePredictor
from pmgp.core.estimators.base import Estimator
from pmgp.core.estimators.importance import Estimate
from pmgp.core.latent_updates.elliptical_slice import EllipticalSliceUpdate
from pmgp.core.marginal.evaluation import Evaluation, Evaluator
from pmgp.core.marginal.proposals import AdaptiveProposal
from pmgp.core.numerics import linalg

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
    """What tuning has fixed: the proposal, the start of Newton's method, the number of importance samples."""

    proposal: AdaptiveProposal
    predictor: ModePredictor | None
    draws: int


class Info(NamedTuple):
    """What an iteration did; `iterations` and `converged` are those of the approximation at the proposal."""

    accepted: bool
    acceptance_rate: float
    indefinite: bool
    latent: np.ndarray
    iterations: int
    converged: bool


@dataclass(frozen=True)
class PseudoMarginalChain:
    """Configuration of the scheme.

    Parameters
    ----------
    estimator : Estimator
    delayed_acceptance : bool
        Screen proposals with the approximation's marginal likelihood.
    latent_moves : int
        Elliptical slice moves for the trace's copy of f, in every iteration.
    refresh_every : int, optional
        Refresh the particles in every so many iterations; 0 for never; what suits the estimator if not given.
    """

    estimator: Estimator
    delayed_acceptance: bool = True
    latent_moves: int = 1
    refresh_every: int | None = None

    def init(self, rng: np.random.Generator, evaluation: Evaluation, frozen: Frozen) -> State:
        """Start the chain at a prepared evaluation."""
        estimate = self._estimate(rng, evaluation, frozen)
        if not np.isfinite(estimate.log_evidence):
            raise FloatingPointError("every importance weight underflows at the chain's starting point")
        return self._state(rng, evaluation, estimate, 0)

    def step(
        self,
        rng: np.random.Generator,
        state: State,
        current: Evaluation,
        evaluate: Evaluator,
        frozen: Frozen,
    ) -> tuple[State, Evaluation, Info]:
        """One iteration.

        Parameters
        ----------
        rng : numpy.random.Generator
        state : State
        current : Evaluation
            The evaluation at ``state.theta``, prepared.
        evaluate : Evaluator
        frozen : Frozen
        """
        proposed = frozen.proposal.propose(rng, state.theta)
        candidate = evaluate(proposed.theta, frozen.predictor)
        steps = 0 if candidate.fitted is None else candidate.fitted.iterations
        converged = candidate.fitted is None or candidate.converged
        indefinite = candidate.indefinite
        estimate, rate = None, 0.0
        screen = candidate.log_screen - current.log_screen + proposed.log_hastings
        if self._passes(rng, screen):
            try:
                candidate = evaluate.prepare(candidate)
            except linalg.NotPositiveDefiniteError:
                indefinite = True
            else:
                estimate, rate = self._accept(rng, state, current, candidate, screen, frozen)
        if estimate is not None:
            state = self._state(rng, candidate, estimate, state.iteration)
            current, candidate = candidate, current
        evaluate.recycle(candidate)
        state = state._replace(iteration=state.iteration + 1)
        refreshes, ahead = self._refreshes(state.iteration), self.estimator.redrawn(frozen.draws)
        if refreshes and ahead:
            current.approximation.draw_ahead(rng, self.latent_moves + ahead)
        latent = self._move_latent(rng, state, current)
        if refreshes:
            state = self.refresh(rng, state._replace(particle=latent), current, frozen)
        return state, current, Info(estimate is not None, rate, indefinite, latent, steps, converged)

    def refresh(self, rng: np.random.Generator, state: State, current: Evaluation, frozen: Frozen) -> State:
        """Redraw the estimate given the retained particle: a Gibbs update of the extended target."""
        estimate = self.estimator.estimate_given(
            rng, current.approximation, current.likelihood, state.particle, frozen.draws
        )
        return self._state(rng, current, estimate, state.iteration)

    def _refreshes(self, iteration: int) -> bool:
        every = self.estimator.refresh_every if self.refresh_every is None else self.refresh_every
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
        current: Evaluation,
        candidate: Evaluation,
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

    def _estimate(self, rng: np.random.Generator, evaluation: Evaluation, frozen: Frozen) -> Estimate:
        return self.estimator.estimate(rng, evaluation.approximation, evaluation.likelihood, frozen.draws)

    def _state(self, rng: np.random.Generator, evaluation: Evaluation, estimate: Estimate, iteration: int) -> State:
        particle = estimate.choose(rng)
        return State(evaluation.theta, particle, estimate.log_evidence, estimate.effective_size, iteration)

    def _move_latent(self, rng: np.random.Generator, state: State, current: Evaluation) -> np.ndarray:
        # A move towards p(f|theta, y) would make a draw from q neither the one nor the other.
        if not self.estimator.exact:
            return state.particle
        operator = EllipticalSliceUpdate(self.latent_moves)
        return operator.move(rng, state.particle, current.approximation, current.likelihood)
