"""What a pseudo-marginal chain learns while it tunes, under the approximation's own marginal likelihood.

Driving the adaptation by the deterministic approximation keeps a lucky, largely overestimated p^(y|theta) from
trapping the chain before its proposals fit (section 4.4 of the pseudo-marginal article). Everything that is learned is
frozen when tuning ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import ndtri

from pmgp.core.adaptation.mode_prediction import ModePredictor
from pmgp.core.adaptation.moments import Moments
from pmgp.core.marginal.evaluation import Evaluated, Evaluation, Evaluator, Fitted
from pmgp.core.marginal.proposals import AdaptiveProposal

__all__ = ["Tuning"]

# Fractions of tuning: draws before BURN_IN are forgotten; from MIXED on the independence component takes part.
BURN_IN = 0.2
MIXED = 0.5
REFIT_EVERY = 25
# How many theta of the second half are kept to measure the spread of log p^ at the end.
KEPT = 12
TUNING_INDEPENDENCE = 0.5
BOUNDS_OF_INDEPENDENCE = (0.05, 0.9)


@dataclass
class Tuning:
    """Accumulators of one chain's tuning phase.

    Parameters
    ----------
    dimension, size : int
        Lengths of theta and of what the approximation starts from.
    length : int
        Number of tuning iterations.
    proposal : AdaptiveProposal
    """

    dimension: int
    size: int
    length: int
    proposal: AdaptiveProposal
    iteration: int = 0
    random_walks: int = 0
    moments: Moments = field(init=False)
    predictor: ModePredictor | None = None
    kept: list[np.ndarray] = field(default_factory=list)
    independent_rates: list[float] = field(default_factory=list)
    random_walk_rates: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.moments = Moments(self.dimension)

    def step(self, rng: np.random.Generator, current: Evaluated, evaluate: Evaluator) -> tuple[Evaluated, bool, float]:
        """One Metropolis-Hastings step under the approximate marginal likelihood, and what is learned from it."""
        proposed = self.proposal.propose(rng, current.theta)
        candidate = evaluate(proposed.theta, self.predictor)
        log_ratio = candidate.log_screen - current.log_screen + proposed.log_hastings
        rate = float(np.exp(min(0.0, log_ratio))) if not np.isnan(log_ratio) else 0.0
        accepted = candidate.with_prior_factor() if rng.uniform() < rate and isinstance(candidate, Fitted) else None
        self._learn(candidate, evaluate, proposed.independent, rate)
        current = current if accepted is None else accepted
        self._remember(current)
        return current, accepted is not None, rate

    def _learn(self, candidate: Evaluation, evaluate: Evaluator, independent: bool, rate: float) -> None:
        late = self.iteration >= MIXED * self.length
        if not independent:
            self.random_walks += 1
            self.proposal = self.proposal.adapted(rate, self.random_walks)
        if late:
            (self.independent_rates if independent else self.random_walk_rates).append(rate)
        if self.predictor is None or not isinstance(candidate, Fitted) or rate <= 1e-6:
            return
        if candidate.approximation.converged:
            self.predictor.add(candidate.theta, evaluate.start_from(candidate))

    def _remember(self, current: Evaluated) -> None:
        self.iteration += 1
        if self.iteration == int(BURN_IN * self.length):
            self.moments = Moments(self.dimension)
        self.moments.add(current.theta)
        if self.iteration % REFIT_EVERY == 0 and self.moments.count > self.dimension:
            mixed = self.iteration >= MIXED * self.length
            self.proposal = self.proposal.refitted(self.moments, TUNING_INDEPENDENCE if mixed else 0.0)
            self._refit_predictor()
        if self.iteration >= MIXED * self.length and self.iteration % max(1, self.length // (2 * KEPT)) == 0:
            self.kept = [*self.kept, current.theta][-KEPT:]

    def _refit_predictor(self) -> None:
        if self.iteration >= 2 * BURN_IN * self.length and (self.predictor is None or self._drifted()):
            scale = np.sqrt(np.diag(self.moments.covariance()))
            self.predictor = ModePredictor(self.dimension, self.size, self.moments.mean.copy(), scale)
        if self.predictor is not None:
            self.predictor.solve()

    def _drifted(self) -> bool:
        """Whether the chain has moved far from where the predictor's powers of theta are well scaled."""
        assert self.predictor is not None
        return bool(np.any(np.abs(self.moments.mean - self.predictor.location) > 2.0 * self.predictor.scale))

    @property
    def just_refitted(self) -> bool:
        """Whether the last iteration changed the predictor, so that what was evaluated before belongs to another q."""
        return self.iteration % REFIT_EVERY == 0

    def frozen_proposal(self) -> AdaptiveProposal:
        """The proposal for sampling, its two components weighed by how well each of them did."""
        if not self.independent_rates:
            return replace(self.proposal, independence=0.0)
        independent = float(np.mean(self.independent_rates))
        walk = float(np.mean(self.random_walk_rates)) if self.random_walk_rates else 0.0
        gain, other = _independent_efficiency(independent), _walk_efficiency(walk, self.dimension)
        # The better one is best alone; the other is there for what tuning has not seen.
        weight = gain**2 / (gain**2 + other**2)
        return replace(self.proposal, independence=float(np.clip(weight, *BOUNDS_OF_INDEPENDENCE)))


def _independent_efficiency(rate: float) -> float:
    """Independent draws an iteration of an independence sampler that accepts at this rate.

    Log importance weights that are normal with variance s^2 are accepted at the rate 2 Phi(-s / sqrt 2), and exp(-s^2)
    of the draws are worth keeping: a rate of 0.3 is still good, and one of 0.05 is worth nothing.
    """
    return float(np.exp(-2.0 * ndtri(0.5 * np.clip(rate, 1e-12, 1.0)) ** 2))


def _walk_efficiency(rate: float, dimension: int) -> float:
    """The same of a random walk near its best scale, 0.33 / dimension (Gelman, Roberts and Gilks 1996), never zero."""
    return max(1.3 * rate, 0.01) / dimension
