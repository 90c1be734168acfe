"""Schemes that alternate with updates of f: sufficient, ancillary, interweaving, surrogate and joint.

Each is a sequence of stages; in each stage theta moves in a conditional density. See section 2 of the comparative
evaluation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pmgp.core.approximations import Approximation, Laplace
from pmgp.core.joint_density import DifferentiableModel
from pmgp.core.theta_updates.densities import AncillaryDensity, JointState, SufficientDensity, ThetaDensity
from pmgp.core.theta_updates.joint_update import JointDensity
from pmgp.core.theta_updates.surrogate import SurrogateDensity
from pmgp.core.theta_updates.variance import ConjugateVariance
from pmgp.core.transitions.adaptive import RandomWalk
from pmgp.core.transitions.base import AdaptiveTransition, Density, Point, TransitionInfo

__all__ = ["AncillaryScheme", "InterweavingScheme", "JointScheme", "Scheme", "SufficientScheme", "SurrogateScheme"]

Stage = Callable[[DifferentiableModel, JointState, np.random.Generator], ThetaDensity]


def _sufficient(model: DifferentiableModel, current: JointState, rng: np.random.Generator) -> SufficientDensity:
    return SufficientDensity(model, current)


def _ancillary(model: DifferentiableModel, current: JointState, rng: np.random.Generator) -> AncillaryDensity:
    return AncillaryDensity(model, current)


def _surrogate(model: DifferentiableModel, current: JointState, rng: np.random.Generator) -> SurrogateDensity:
    return SurrogateDensity(model, current, rng.standard_normal(current.latent.f.size))


class Outcome(NamedTuple):
    """The result of one iteration of a scheme: the chain's state, learned adaptations, and a report of each stage."""

    current: JointState
    adaptations: tuple[Any, ...]
    infos: tuple[TransitionInfo, ...]


@dataclass(frozen=True)
class Scheme:
    """A scheme, which makes one transition of theta in each stage of an iteration."""

    operator: AdaptiveTransition = field(default_factory=RandomWalk)
    _stages: ClassVar[tuple[Stage, ...]] = ()

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The conditional densities in which theta moves, one after another."""
        return self._stages

    def start(self, dimension: int, length: int) -> tuple[Any, ...]:
        """Return the initial adaptation of each stage, which has its own step size."""
        return tuple(self.operator.start(dimension, length) for _ in self.stages)

    def step(
        self,
        rng: np.random.Generator,
        current: JointState,
        model: DifferentiableModel,
        adaptations: tuple[Any, ...],
        tuning: bool,
    ) -> Outcome:
        """Update theta, and f if it moves with theta, leaving p(theta, f|y) invariant."""
        learned, infos = [], []
        for stage, adaptation in zip(self.stages, adaptations, strict=True):
            point, adaptation, info = self.moved(rng, stage(model, current, rng), current.theta, adaptation, tuning)
            current = JointState(point.position, point.payload)
            learned.append(adaptation)
            infos.append(info)
        return Outcome(current, tuple(learned), tuple(infos))

    def moved(
        self, rng: np.random.Generator, density: Density, theta: np.ndarray, learned: Any, tuning: bool
    ) -> tuple[Point, Any, TransitionInfo]:
        """Make one transition in a conditional density; return the point, the learned state, and a report."""
        return self.moved_on(rng, self.begun(density, theta), density, learned, tuning)

    def begun(self, density: Density, theta: np.ndarray) -> Point:
        """Return the point at theta, with the gradient if the operator needs it."""
        return density.at(theta, gradient=self.operator.derivatives > 0)

    def moved_on(
        self, rng: np.random.Generator, point: Point, density: Density, learned: Any, tuning: bool
    ) -> tuple[Point, Any, TransitionInfo]:
        """Make one transition from a point of the same density, keeping what is computed there."""
        learned = learned if tuning else self.operator.freeze(learned)
        point, info = self.operator.step(rng, point, density, learned)
        return point, self.operator.learn(learned, point, info) if tuning else learned, info


@dataclass(frozen=True)
class AncillaryScheme(Scheme):
    """AA: theta given nu = L^-1 (f - m) and y; f moves with theta."""

    _stages: ClassVar[tuple[Stage, ...]] = (_ancillary,)


@dataclass(frozen=True)
class SufficientScheme(Scheme):
    """SA: theta given f, after a draw of a conjugate variance from its full conditional if there is one."""

    variance: ConjugateVariance | None = None
    _stages: ClassVar[tuple[Stage, ...]] = (_sufficient,)

    def step(
        self,
        rng: np.random.Generator,
        current: JointState,
        model: DifferentiableModel,
        adaptations: tuple[Any, ...],
        tuning: bool,
    ) -> Outcome:
        """Draw the conjugate variance if there is one, and update theta."""
        if self.variance is not None:
            current = self.variance.draw(rng, current)
        return super().step(rng, current, model, adaptations, tuning)


@dataclass(frozen=True)
class InterweavingScheme(SufficientScheme):
    """ASIS: theta given f, then nu from f and the new theta, then theta given nu and y (equation 6)."""

    _stages: ClassVar[tuple[Stage, ...]] = (_sufficient, _ancillary)


@dataclass(frozen=True)
class SurrogateScheme(Scheme):
    """SURR: theta given surrogate data and the whitened residual of f."""

    _stages: ClassVar[tuple[Stage, ...]] = (_surrogate,)


@dataclass(frozen=True)
class JointScheme(Scheme):
    """KHR: theta and f proposed and accepted together."""

    approximation: Approximation = field(default_factory=Laplace)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """One stage."""
        return (self._density,)

    def _density(self, model: DifferentiableModel, current: JointState, rng: np.random.Generator) -> JointDensity:
        normals = rng.standard_normal((2, 1, current.latent.f.size))
        return JointDensity(model, current, self.approximation, normals)
