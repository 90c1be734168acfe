"""Pseudo-marginal transitions of theta: Algorithm 1 of the pseudo-marginal article, as surrogate transitions.

The target is extended by the importance samples and the index of one of them, which is then an exact draw from
p(f|theta, y). Three things are added to the article's algorithm; each leaves the extended target invariant.

- *The screen* (surrogate transitions, Liu 2001; with a single one, delayed acceptance, Christen and Fox 2005): theta
  moves by transitions that leave the approximation's own posterior, a deterministic density, invariant. Their result
  is accepted with the ratio of estimate and screen, so one unbiased estimate corrects them all. If theta has not
  moved, no estimate is made, and K need not be factorized.
- *Latent draws*: the trace gets a copy of the retained particle after a fixed number of elliptical slice moves at the
  current theta, the same in every iteration. Moving it only after rejections, or letting moves accumulate until the
  next acceptance, would correlate the number of moves with the weight of the particle and bias the draws.
- *Refreshment* (as in particle Gibbs): at the end of an iteration that copy becomes the retained particle, and all
  other particles and the stored estimate are redrawn given it. This frees a chain that is stuck on an overestimate.

Apart from this, the stored estimate of the current state is never recomputed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import exp, isfinite
from typing import Any, NamedTuple, cast

import numpy as np

from pmgp.core.adaptation.mode_prediction import Predictor
from pmgp.core.estimators.base import Estimate, Estimator, SharesDraws
from pmgp.core.estimators.importance import renewed
from pmgp.core.latent_updates.elliptical_slice import EllipticalSliceUpdate
from pmgp.core.marginal.evaluation import Evaluator, Indefinite, Ready
from pmgp.core.marginal.screen import ScreenDensity
from pmgp.core.numerics.storable import storable
from pmgp.core.transitions.base import AdaptiveTransition, Point, TransitionInfo
from pmgp.core.transitions.metropolis_hastings import Proposing
from pmgp.core.transitions.mixture import IndependenceMixture


@storable
class State(NamedTuple):
    """The state of a chain between two iterations, without the approximation at theta, which is a function of theta.

    `theta` (dimension,); `particle` (n,): the retained particle, a draw from p(f|theta, y); `log_estimate`: log of
    p^(y|theta), unbiased; `effective_size`: effective number of importance samples in the estimate.
    """

    theta: np.ndarray
    particle: np.ndarray
    log_estimate: float
    effective_size: float
    iteration: int


@storable
class Frozen(NamedTuple):
    """The results of tuning: learned transitions, a predictor of starts, the number of draws.

    The number of draws is None for an estimator that knows its own. `estimator` is set if tuning has chosen one, which
    then replaces the chain's own.
    """

    learned: Any
    predictor: Predictor | None
    draws: int | None
    estimator: Estimator | None = None


class Info(NamedTuple):
    """A report of one iteration.

    - `acceptance_rate`: acceptance probability of the correction; zero if theta did not move on the screen
    - `screen`: reports of the transitions on the screen
    - `latent` (n,): the trace's copy of f
    - `iterations`: total number of iterations of all fits
    - `converged`, `indefinite`: whether all of them converged, and whether K was indefinite anywhere
    """

    accepted: bool
    acceptance_rate: float
    screen: tuple[TransitionInfo, ...]
    latent: np.ndarray
    iterations: int
    converged: bool
    indefinite: bool


_Candidate = tuple[Point | None, float, tuple[TransitionInfo, ...]]
"""The candidate for theta, the log of a factor of the correction, and reports of the screen."""


# Iterations between refreshments. A conditional estimate that takes only a few more columns of one product is worth its
# time in every iteration; one that takes as long as an estimate at a proposal is not.
REFRESH_SHARED, REFRESH_ALONE = 1, 10


@dataclass(frozen=True)
class PseudoMarginalChain:
    """The configuration of the pseudo-marginal scheme, whose methods move a chain.

    Parameters
    ----------
    estimator : Estimator
    transition : AdaptiveTransition
        The transition of theta, on the screen if there is one.
    delayed_acceptance : bool
        Whether to screen with the approximation's marginal likelihood. Without the screen, an estimate is made for
        every proposal, and the transition must make proposals (`Proposing`).
    transitions : int
        Number of transitions on the screen that one estimate corrects.
    latent_moves : int
        Elliptical slice moves for the trace's copy of f, in every iteration. It must be zero if the estimate is not
        unbiased: a move towards p(f|theta, y) would turn a draw from q into a draw from neither.
    refresh_every : int, optional
        Number of iterations between refreshments of the particles; 0 for none. The default depends on the estimator.

    Raises
    ------
    ValueError
        For incompatible settings.
    """

    estimator: Estimator
    transition: AdaptiveTransition = field(default_factory=IndependenceMixture)
    delayed_acceptance: bool = True
    transitions: int = 1
    latent_moves: int = 1
    refresh_every: int | None = None

    def __post_init__(self) -> None:
        if not self.delayed_acceptance and (self.transitions > 1 or not isinstance(self.transition, Proposing)):
            raise ValueError(
                "delayed_acceptance=False needs transitions=1, and a Metropolis-Hastings proposal of theta, since an "
                f"estimate is made for each proposal; not transitions={self.transitions} with {self.transition!r}"
            )

    def init(self, rng: np.random.Generator, evaluation: Ready, frozen: Frozen) -> State:
        """Return the first state of a chain."""
        estimate = self._estimate(rng, evaluation, frozen)
        if not np.isfinite(estimate.log_evidence):
            raise FloatingPointError("every importance weight underflows at the chain's starting point")
        return self._state(rng, evaluation, estimate, 0)

    def step(
        self, rng: np.random.Generator, state: State, current: Point, evaluate: Evaluator, frozen: Frozen
    ) -> tuple[State, Point, Info]:
        """Make one iteration; return the new state, the screen at its theta, and a report.

        Parameters
        ----------
        rng : numpy.random.Generator
        state : State
        current : Point
            Point of the screen at ``state.theta``, where the evaluation is `Ready`.
        evaluate : Evaluator
        frozen : Frozen
        """
        density = ScreenDensity(evaluate, frozen.predictor)
        candidate, log_ratio, infos = self._candidate(rng, current, density, frozen)
        estimate, rate, iteration = None, 0.0, state.iteration + 1
        if candidate is not None:
            ready = evaluate.prepare(candidate.payload)
            # The unprepared evaluation is dropped: its matrices are most of the memory.
            candidate = Point(candidate.position, candidate.log_density, ready, *candidate[3:])
            if isinstance(ready, Ready):
                estimate, rate = self._accept(rng, state, current.payload, ready, log_ratio, frozen)
                if estimate is not None:
                    state, current = self._state(rng, ready, estimate, iteration), candidate
            density.indefinite |= isinstance(ready, Indefinite)
            del ready
        del candidate
        if estimate is None:
            state = State(*state[:-1], iteration)
        state, latent = self._update_latent(rng, state, current.payload, frozen)
        counts = density.iterations, density.converged, density.indefinite
        return state, current, Info(estimate is not None, rate, infos, latent, *counts)

    def _candidate(
        self, rng: np.random.Generator, current: Point, density: ScreenDensity, frozen: Frozen
    ) -> _Candidate:
        """Return the result of the transitions on the screen, if theta has moved; without a screen, a proposal."""
        if not self.delayed_acceptance:
            return self._proposal(rng, current, density, frozen)
        moved, infos = current, []
        for _ in range(self.transitions):
            moved, info = self.transition.step(rng, moved, density, frozen.learned)
            infos.append(info)
        return None if moved is current else moved, 0.0, tuple(infos)

    def _proposal(self, rng: np.random.Generator, current: Point, density: ScreenDensity, frozen: Frozen) -> _Candidate:
        proposed = cast(Proposing, self.transition).propose(rng, current.position, frozen.learned)
        point = density.at(proposed.position)
        log_ratio = point.log_density - current.log_density + proposed.log_hastings
        return point if isfinite(log_ratio) else None, log_ratio, ()

    def _update_latent(
        self, rng: np.random.Generator, state: State, current: Ready, frozen: Frozen
    ) -> tuple[State, np.ndarray]:
        """Return the state, after a refreshment if one is due, and the trace's copy of f."""
        sharing = self._sharing(frozen)
        every = self.refreshed_every(sharing is not None)
        if every == 0 or state.iteration % every:
            return state, self._move_latent(rng, state, current)
        if self.latent_moves == 1 and sharing is not None:
            q, likelihood = current.approximation, current.likelihood
            renewal = renewed(rng, state.particle, q, likelihood, sharing, frozen.draws)
            if renewal is not None:
                latent, estimate, particle = renewal
                values = estimate.log_evidence, estimate.effective_size, state.iteration
                return State(current.theta, particle, *values), latent
        shared = self._shared_draws(rng, current, sharing, frozen)
        if sharing is None or shared is None:
            latent = self._move_latent(rng, state, current)
            return self.refresh(rng, state._replace(particle=latent), current, frozen), latent
        latent = self._move_latent(rng, state, current, shared[: self.latent_moves])
        known = current.approximation, current.likelihood, latent, shared[self.latent_moves :]
        return self._state(rng, current, sharing.estimate_from(*known), state.iteration), latent

    def estimator_of(self, frozen: Frozen) -> Estimator:
        """Return the estimator that tuning has chosen, or the chain's own."""
        return self.estimator if frozen.estimator is None else frozen.estimator

    def refreshed_every(self, sharing: bool) -> int:
        """Return the iterations between refreshments, for an estimator with or without shared draws; 0 for none."""
        if self.refresh_every is not None:
            return self.refresh_every
        return REFRESH_SHARED if sharing else REFRESH_ALONE

    def _sharing(self, frozen: Frozen) -> SharesDraws | None:
        """Return the estimator if it shares draws, or None."""
        if frozen.estimator is None:
            return self._own_sharing
        return frozen.estimator if isinstance(frozen.estimator, SharesDraws) else None

    @cached_property
    def _own_sharing(self) -> SharesDraws | None:
        """The chain's own estimator if it shares draws, or None; cached because the check takes microseconds."""
        return self.estimator if isinstance(self.estimator, SharesDraws) else None

    @cached_property
    def _latent_update(self) -> EllipticalSliceUpdate:
        return EllipticalSliceUpdate(self.latent_moves)

    def _shared_draws(
        self, rng: np.random.Generator, current: Ready, sharing: SharesDraws | None, frozen: Frozen
    ) -> np.ndarray | None:
        """Return draws from q less its mean, for the moves and the refreshment, made as columns of one matrix."""
        if sharing is None:
            return None
        redrawn = sharing.redrawn(frozen.draws or 1)
        return current.approximation.sample_deviations(rng, self.latent_moves + redrawn) if redrawn else None

    def refresh(self, rng: np.random.Generator, state: State, current: Ready, frozen: Frozen) -> State:
        """Return the state with an estimate redrawn given the particle: a Gibbs update of the extended target."""
        estimate = self.estimator_of(frozen).estimate_given(
            rng, current.approximation, current.likelihood, state.particle, frozen.draws
        )
        return self._state(rng, current, estimate, state.iteration)

    def _accept(
        self, rng: np.random.Generator, state: State, current: Ready, candidate: Ready, log_ratio: float, frozen: Frozen
    ) -> tuple[Estimate | None, float]:
        """Return the candidate's estimate if it is accepted, or None, and the acceptance probability."""
        estimate = self._estimate(rng, candidate, frozen)
        log_ratio += (candidate.log_prior + estimate.log_evidence - candidate.log_screen) - (
            current.log_prior + state.log_estimate - current.log_screen
        )
        rate = exp(min(0.0, log_ratio)) if isfinite(estimate.log_evidence) else 0.0
        return (estimate if rng.random() < rate else None), rate

    def _estimate(self, rng: np.random.Generator, evaluation: Ready, frozen: Frozen) -> Estimate:
        estimator = self.estimator_of(frozen)
        return estimator.estimate(rng, evaluation.approximation, evaluation.likelihood, frozen.draws)

    def _state(self, rng: np.random.Generator, evaluation: Ready, estimate: Estimate, iteration: int) -> State:
        particle = estimate.choose(rng)
        return State(evaluation.theta, particle, estimate.log_evidence, estimate.effective_size, iteration)

    def _move_latent(
        self, rng: np.random.Generator, state: State, current: Ready, auxiliaries: np.ndarray | None = None
    ) -> np.ndarray:
        if self.latent_moves == 0:
            return state.particle
        return self._latent_update.move(rng, state.particle, current.approximation, current.likelihood, auxiliaries)
