"""The pseudo-marginal chain as the articles describe it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from case_studies.tools.problem import Problem
from case_studies.tools.samplers import Iterate
from pmgp.core.adaptation.step_size import StepSize
from pmgp.core.approximations import Approximation
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.marginal.evaluation import Evaluator, Fitted, Ready
from pmgp.core.theta_updates.densities import JointState

__all__ = ["PlainPseudoMarginal"]

TARGET_ACCEPTANCE = 0.25


class _State(NamedTuple):
    """State of the chain: log p(theta) + log p^(y|theta), stored and never computed again, and the step size."""

    evaluate: Evaluator
    log_density: float
    step_size: StepSize
    exact: bool


@dataclass(frozen=True)
class PlainPseudoMarginal:
    """Algorithm 1: random-walk proposals, an approximation from nothing at each, independent importance samples.

    Proposals have a covariance that is a multiple of the identity.

    Parameters
    ----------
    approximation : Approximation
    draws : int
        Number of importance samples N_imp.
    step_size : float, optional
        Step size of all proposals; without it the chain learns one for an acceptance of 25 % while it tunes.
    tunes_on_evidence : bool
        Sample under the approximation's own evidence while the chain tunes, as section 4.4 does.
    repeats : int
        Updates in each iteration.
    """

    approximation: Approximation
    draws: int
    step_size: float | None = None
    tunes_on_evidence: bool = False
    repeats: int = 1

    def start(self, rng: np.random.Generator, problem: Problem, current: JointState, tune: int, draws: int) -> Iterate:
        """Begin a chain."""
        first = 2.4 / np.sqrt(problem.dimension) * 0.5 if self.step_size is None else self.step_size
        evaluate, exact = Evaluator(problem.model.parts, self.approximation), not self.tunes_on_evidence or tune == 0
        value = self._log_density(rng, evaluate, current.theta, exact)
        return Iterate(current.theta, np.nan, np.nan, _State(evaluate, value, StepSize.start(first), exact))

    def step(self, rng: np.random.Generator, problem: Problem, iterate: Iterate, tuning: bool) -> Iterate:
        """One iteration; after tuning on the evidence the first one begins with an estimate where the chain stands."""
        theta, state, rates = iterate.theta, iterate.state, []
        if not tuning and not state.exact:
            state = state._replace(log_density=self._log_density(rng, state.evaluate, theta, True), exact=True)
        for _ in range(self.repeats):
            theta, state, rate = self._update(rng, theta, state, tuning)
            rates.append(rate)
        return Iterate(theta, float(np.mean(rates)), np.nan, state)

    def stop_tuning(self, problem: Problem) -> None:
        """Nothing to do: an iteration is told whether it tunes."""

    def _update(
        self, rng: np.random.Generator, theta: np.ndarray, state: _State, tuning: bool
    ) -> tuple[np.ndarray, _State, float]:
        size = state.step_size.value if tuning else state.step_size.frozen
        proposal = theta + size * rng.standard_normal(theta.shape)
        value = self._log_density(rng, state.evaluate, proposal, state.exact)
        rate = float(np.exp(min(0.0, value - state.log_density))) if np.isfinite(value) else 0.0
        if tuning and self.step_size is None:
            state = state._replace(step_size=state.step_size.updated(rate, TARGET_ACCEPTANCE))
        if rng.uniform() < rate:
            return proposal, state._replace(log_density=value), rate
        return theta, state, rate

    def _log_density(self, rng: np.random.Generator, evaluate: Evaluator, theta: np.ndarray, exact: bool) -> float:
        """Log p(theta) plus the estimate of log p(y|theta), or the approximation's evidence."""
        evaluation = evaluate(theta, None)
        if not isinstance(evaluation, Fitted) or not np.isfinite(evaluation.log_screen):
            return -np.inf
        return self._estimate(rng, evaluate, evaluation) if exact else evaluation.log_screen

    def _estimate(self, rng: np.random.Generator, evaluate: Evaluator, evaluation: Fitted) -> float:
        ready = evaluate.prepare(evaluation)
        if not isinstance(ready, Ready):
            return -np.inf
        estimator = ImportanceSampling(self.draws, antithetic=False)
        return evaluation.log_prior + estimator.estimate(rng, ready.approximation, ready.likelihood).log_evidence
