"""Tuning of a pseudo-marginal chain, under the approximation's own marginal likelihood.

Adaptation uses the deterministic approximation, so that a large overestimate of p(y|theta) cannot trap the chain before
its proposals are adapted (section 4.4 of the pseudo-marginal article). The same transition later moves on the screen.
All that was learned is frozen when tuning ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pmgp.core.adaptation.mode_prediction import ModePredictor, Predictor, SameStart
from pmgp.core.adaptation.moments import Moments
from pmgp.core.marginal.evaluation import Evaluator
from pmgp.core.marginal.screen import ScreenDensity
from pmgp.core.numerics.storable import storable
from pmgp.core.transitions.base import AdaptiveTransition, Point, TransitionInfo

# Fractions of tuning: draws before BURN_IN are forgotten; from KEPT_FROM on draws are kept. Starts are regressed on
# theta from PREDICTED_FROM on; the regression begins again at RESTARTED_AT, without the starts from before the chain
# reached the posterior.
BURN_IN = 0.2
KEPT_FROM = 0.5
PREDICTED_FROM, RESTARTED_AT = 0.1, 0.4
REFIT_EVERY = 25
# Early iterations after which fits also start from the chain's current fit, as the chain moves fast at first.
EARLY = (1, 2, 4, 8, 16)
# The number of theta from the second half that are kept to measure the spread of log p^ at the end.
KEPT = 12
# Proposals with a lower acceptance rate are too far away to be used in the regression of starts.
SMALLEST_RATE = 1e-6


@storable
@dataclass
class Tuning:
    """Accumulators of one chain's tuning phase.

    `dimension`, `size`: lengths of theta and of the approximation's start; `length`: number of tuning iterations.

    - `learned`: state that the transition has learned
    - `moments`: moments of theta
    - `predictor`, `former`: the current predictor, and the previous one until the current one has coefficients
    - `nearby` (size,) or None: start of fits while nothing can be predicted: the result of a fit at a theta of the
      chain
    - `kept` list of (dimension,) arrays
    """

    transition: AdaptiveTransition
    dimension: int
    size: int
    length: int
    iteration: int = 0
    learned: Any = field(init=False)
    moments: Moments = field(init=False)
    predictor: ModePredictor | None = None
    former: ModePredictor | None = None
    nearby: np.ndarray | None = None
    kept: list[np.ndarray] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.learned = self.transition.start(self.dimension, self.length)
        self.moments = Moments(self.dimension)

    def step(self, rng: np.random.Generator, current: Point, evaluate: Evaluator) -> tuple[Point, TransitionInfo]:
        """Make one transition under the approximate marginal likelihood, and learn from it.

        `current`: point of :meth:`density` at the chain's theta.
        """
        density = self.density(evaluate)
        moved, info = self.transition.step(rng, current, density, self.learned)
        if moved is not current:
            # The exact chain may start here, and needs K's factor.
            fitted = moved.payload.with_prior_factor()
            moved = current if fitted is None else moved._replace(payload=fitted)
        self.learned = self.transition.learn(self.learned, moved, info)
        self._learn(moved, density if info.acceptance_rate > SMALLEST_RATE else None)
        if self.starts_changed:
            self.nearby = evaluate.start_from(moved.payload)
        return moved, info._replace(accepted=moved is not current)

    def density(self, evaluate: Evaluator) -> ScreenDensity:
        """Return the screen for one iteration."""
        return ScreenDensity(evaluate, self.starts, learning=self.predictor is not None)

    @property
    def starts(self) -> Predictor | None:
        """The predictor of the starts of fits, a function of the stored state, so that a resumed chain has the same."""
        for predictor in (self.predictor, self.former):
            if predictor is not None and predictor.coefficients is not None:
                return predictor
        return None if self.nearby is None else SameStart(self.nearby)

    def _learn(self, current: Point, visited: ScreenDensity | None) -> None:
        if self.predictor is not None and visited is not None:
            for theta, start in visited.pairs:
                self.predictor.add(theta, start)
        self.iteration += 1
        if self.iteration == int(BURN_IN * self.length):
            self.moments = Moments(self.dimension)
        self.moments.add(current.position)
        if self.iteration % REFIT_EVERY == 0 and self.moments.count > self.dimension:
            self._refit_predictor()
        if self.iteration >= KEPT_FROM * self.length and self.iteration % max(1, self.length // (2 * KEPT)) == 0:
            self.kept = [*self.kept, current.position][-KEPT:]

    def _refit_predictor(self) -> None:
        begins = self.iteration >= PREDICTED_FROM * self.length and (self.predictor is None or self._drifted())
        restarts = self.iteration - REFIT_EVERY < RESTARTED_AT * self.length <= self.iteration
        if begins or restarts:
            # A predictor that was fitted far away is of no use here.
            self.former = None if begins else self.predictor
            scale = np.sqrt(np.diag(self.moments.covariance()))
            self.predictor = ModePredictor(self.dimension, self.size, self.moments.mean.copy(), scale)
        if self.predictor is not None:
            self.predictor.solve()
            if self.predictor.coefficients is not None:
                self.former = None

    def _drifted(self) -> bool:
        """Return whether the chain is far from the theta for which the predictor's powers are well scaled."""
        assert self.predictor is not None
        return bool(np.any(np.abs(self.moments.mean - self.predictor.location) > 2.0 * self.predictor.scale))

    @property
    def starts_changed(self) -> bool:
        """Whether the last iteration changed the starts of fits: earlier evaluations then belong to another q."""
        return self.iteration % REFIT_EVERY == 0 or self.iteration in EARLY
