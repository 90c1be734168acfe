"""Samplers of theta and f: a scheme for theta, with transitions of f in between or none, or pseudo-marginal steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from case_studies.tools.problem import Problem
from pmgp.core.adaptation.step_size import StepSize
from pmgp.core.latent_updates import HamiltonianUpdate
from pmgp.core.theta_updates.densities import JointState
from pmgp.core.theta_updates.schemes import Scheme
from pmgp.core.transitions.base import Density, Point

__all__ = ["Alternating", "Conditional", "Iterate", "Marginal", "Sampler"]


class Iterate(NamedTuple):
    """A chain between two iterations.

    Attributes
    ----------
    theta : (dimension,) array
    acceptance, latent_acceptance : float
        Mean acceptance probabilities in the last iteration; not a number where nothing was proposed.
    state : object
        What the sampler needs besides.
    """

    theta: np.ndarray
    acceptance: float
    latent_acceptance: float
    state: Any


class Sampler(Protocol):
    """One way to sample a problem."""

    def start(self, rng: np.random.Generator, problem: Problem, current: JointState, tune: int, draws: int) -> Iterate:
        """Begin a chain."""
        ...

    def step(self, rng: np.random.Generator, problem: Problem, iterate: Iterate, tuning: bool) -> Iterate:
        """One iteration."""
        ...

    def stop_tuning(self, problem: Problem) -> None:
        """Fix what was learned, between the last tuning iteration and the first that is kept."""
        ...


class _Learned(NamedTuple):
    """Where the chain stands, and what it has learned."""

    current: JointState
    adaptations: tuple[Any, ...]
    latent_step: StepSize


@dataclass(frozen=True)
class Alternating:
    """A transition of theta by a scheme, then transitions of f given theta.

    Parameters
    ----------
    scheme : Scheme
    latent_updates : int
        Number of transitions of f in each iteration.
    learns_covariance : bool
        Proposals of theta adopt the covariance of the tuning draws, as in pmgp's step methods; otherwise it stays a
        multiple of the identity, as in the article.
    latent : HamiltonianUpdate
    """

    scheme: Scheme
    latent_updates: int
    learns_covariance: bool = False
    latent: HamiltonianUpdate = field(default_factory=lambda: HamiltonianUpdate("prior", max_leapfrog=10))

    def start(self, rng: np.random.Generator, problem: Problem, current: JointState, tune: int, draws: int) -> Iterate:
        """Begin a chain."""
        # The covariance is adopted at fractions of the tuning iterations: never, where there are none.
        adaptations = self.scheme.start(problem.dimension, tune if self.learns_covariance else 0)
        latent_step = StepSize.start(self.latent.initial_step_size(current.latent.f.size))
        return Iterate(current.theta, np.nan, np.nan, _Learned(current, adaptations, latent_step))

    def step(self, rng: np.random.Generator, problem: Problem, iterate: Iterate, tuning: bool) -> Iterate:
        """One iteration."""
        current, adaptations, latent_step = iterate.state
        outcome = self.scheme.step(rng, current, problem.model, adaptations, tuning)
        acceptance = float(np.mean([info.acceptance_rate for info in outcome.infos]))
        current, latent_step, latent_acceptance = self._move_latent(rng, problem, outcome.current, latent_step, tuning)
        learned = _Learned(current, outcome.adaptations, latent_step)
        return Iterate(current.theta, acceptance, latent_acceptance, learned)

    def stop_tuning(self, problem: Problem) -> None:
        """Nothing to do: an iteration is told whether it tunes."""

    def _move_latent(
        self, rng: np.random.Generator, problem: Problem, current: JointState, step: StepSize, tuning: bool
    ) -> tuple[JointState, StepSize, float]:
        part, rates = current.latent, []
        target = self.latent.prepare(part.prior, problem.model.likelihood(current.theta))
        point = self.latent.init(target, part.f)
        for _ in range(self.latent_updates):
            point, info = self.latent.step(rng, point, target, step.value if tuning else step.frozen)
            rates.append(info.acceptance_rate)
            if tuning:
                step = step.updated(info.acceptance_rate, self.latent.target_acceptance)
        return current._replace(latent=part._replace(f=point.payload)), step, float(np.mean(rates))


class _Fixed(NamedTuple):
    """A conditional density of theta, where the chain stands in it, and what it has learned."""

    density: Density
    point: Point
    adaptation: Any


@dataclass(frozen=True)
class Conditional:
    """Transitions of theta in one conditional density: f, or what a scheme makes of it, keeps its first value.

    The density stays the same, so gradients and metrics where the chain stands are not computed again.

    Parameters
    ----------
    scheme : Scheme
        With one stage.
    learns_covariance : bool
        As that of :class:`Alternating`.
    """

    scheme: Scheme
    learns_covariance: bool = False

    def start(self, rng: np.random.Generator, problem: Problem, current: JointState, tune: int, draws: int) -> Iterate:
        """Begin a chain."""
        [stage] = self.scheme.stages
        [adaptation] = self.scheme.start(problem.dimension, tune if self.learns_covariance else 0)
        density = stage(problem.model, current, rng)
        state = _Fixed(density, self.scheme.begun(density, current.theta), adaptation)
        return Iterate(current.theta, np.nan, np.nan, state)

    def step(self, rng: np.random.Generator, problem: Problem, iterate: Iterate, tuning: bool) -> Iterate:
        """One iteration."""
        density, point, adaptation = iterate.state
        point, adaptation, info = self.scheme.moved_on(rng, point, density, adaptation, tuning)
        return Iterate(point.position, info.acceptance_rate, np.nan, _Fixed(density, point, adaptation))

    def stop_tuning(self, problem: Problem) -> None:
        """Nothing to do: an iteration is told whether it tunes."""


@dataclass(frozen=True)
class Marginal:
    """The pseudo-marginal step method with its defaults, which moves theta and f together and tunes itself."""

    def start(self, rng: np.random.Generator, problem: Problem, current: JointState, tune: int, draws: int) -> Iterate:
        """Begin a chain."""
        method, parts = problem.pseudo_marginal, problem.model.parts
        method.setup_chain(rng, tune, draws)
        point = parts.unravel(current.theta) | {parts.latent_value.name: current.latent.f}
        return Iterate(current.theta, np.nan, np.nan, point)

    def step(self, rng: np.random.Generator, problem: Problem, iterate: Iterate, tuning: bool) -> Iterate:
        """One iteration; the method has the random generator already."""
        point, [stats] = problem.pseudo_marginal.step(iterate.state)
        return Iterate(problem.model.parts.ravel(point), stats["acceptance_rate"], np.nan, point)

    def stop_tuning(self, problem: Problem) -> None:
        """Fix the proposals and choose the number of importance samples."""
        problem.pseudo_marginal.stop_tuning()
