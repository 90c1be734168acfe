"""The article's samplers, exactly as it describes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from case_studies.tools.plain_pseudo_marginal import PlainPseudoMarginal
from case_studies.tools.problem import Problem
from case_studies.tools.samplers import Iterate, Sampler
from pmgp.core.joint_density import DifferentiableModel
from pmgp.core.theta_updates.densities import JointState
from pmgp.core.theta_updates.schemes import Outcome, Scheme

__all__ = ["PlainPseudoMarginal", "Repeated", "RepeatedWithin", "Traced"]


@dataclass(frozen=True, kw_only=True)
class Repeated(Scheme):
    """Several updates of theta by another scheme in each iteration: section 4.3.

    Parameters
    ----------
    scheme : Scheme
    repeats : int
    """

    scheme: Scheme
    repeats: int

    def start(self, dimension: int, length: int) -> tuple[Any, ...]:
        """Begin to learn."""
        return self.scheme.start(dimension, self.repeats * length)

    def step(
        self,
        rng: np.random.Generator,
        current: JointState,
        model: DifferentiableModel,
        adaptations: tuple[Any, ...],
        tuning: bool,
    ) -> Outcome:
        """Update theta, and f where it moves with theta."""
        infos: list = []
        for _ in range(self.repeats):
            current, adaptations, new = self.scheme.step(rng, current, model, adaptations, tuning)
            infos.extend(new)
        return Outcome(current, adaptations, tuple(infos))


@dataclass(frozen=True, kw_only=True)
class RepeatedWithin(Repeated):
    """Several updates of theta in one conditional density: surrogate data, if any, are drawn once per iteration."""

    def step(
        self,
        rng: np.random.Generator,
        current: JointState,
        model: DifferentiableModel,
        adaptations: tuple[Any, ...],
        tuning: bool,
    ) -> Outcome:
        """Update theta, and f where it moves with theta."""
        [stage], [learned] = self.scheme.stages, adaptations
        density = stage(model, current, rng)
        point, infos = self.scheme.begun(density, current.theta), []
        for _ in range(self.repeats):
            point, learned, info = self.scheme.moved_on(rng, point, density, learned, tuning)
            infos.append(info)
        return Outcome(JointState(point.position, point.payload), (learned,), tuple(infos))


@dataclass(frozen=True)
class Traced:
    """Another sampler, whose values of theta after tuning are kept.

    Parameters
    ----------
    sampler : Sampler

    Attributes
    ----------
    trace : list of (dimension,) arrays
    """

    sampler: Sampler
    trace: list[np.ndarray] = field(default_factory=list)

    def start(self, rng: np.random.Generator, problem: Problem, current: JointState, tune: int, draws: int) -> Iterate:
        """Begin a chain."""
        return self.sampler.start(rng, problem, current, tune, draws)

    def step(self, rng: np.random.Generator, problem: Problem, iterate: Iterate, tuning: bool) -> Iterate:
        """One iteration."""
        moved = self.sampler.step(rng, problem, iterate, tuning)
        if not tuning:
            self.trace.append(moved.theta)
        return moved

    def stop_tuning(self, problem: Problem) -> None:
        """Fix what was learned."""
        self.sampler.stop_tuning(problem)
