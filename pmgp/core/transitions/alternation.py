"""An alternation of proposals and trajectories, whose shares are measured while a chain tunes.

The choice between the two does not depend on the position: each of them is reversible, and so is the whole. Proposals
take one evaluation, trajectories several gradients. A turn is valued by its expected squared jump, and its price is
counted in evaluations, never measured by a clock, so that the draws depend on the seed alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from pmgp.core.adaptation.jump_values import JumpValues
from pmgp.core.adaptation.scaling import Scaling
from pmgp.core.numerics.storable import storable
from pmgp.core.transitions.adaptive import HamiltonianMonteCarlo
from pmgp.core.transitions.base import Density, Point, TransitionInfo
from pmgp.core.transitions.mixture import IndependenceMixture, LearnedMixture

# Component number of trajectories, after those of the mixture.
TRAJECTORY = 2
# Fractions of tuning from which turns are measured, and at which measurement restarts: both kinds are then final.
MEASURED_FROM, RESTARTED_AT = 0.2, 0.5
REFIT_EVERY = 25
# The better kind alone would be most efficient; the other guards against regions that tuning has not seen.
BOUNDS_OF_SHARE = (0.1, 0.9)
# Prices in evaluations: of a trajectory's step with its gradient, and of the correction after any turn.
GRADIENT, REST = 1.67, 1.5


@storable
class LearnedAlternation(NamedTuple):
    """Learned state of the alternation.

    - `share`: share of the trajectories
    - `values`: values of each component
    - `position` (dimension,): position after the last turn; empty before the first
    - `iteration`, `length`: iteration and length of tuning
    """

    proposals: LearnedMixture
    trajectories: Scaling
    share: float
    values: tuple[JumpValues, ...]
    position: np.ndarray
    iteration: int
    length: int


@storable
@dataclass(frozen=True)
class Alternation:
    """Alternation of an `IndependenceMixture` and `HamiltonianMonteCarlo`."""

    proposals: IndependenceMixture = field(default_factory=IndependenceMixture)
    trajectories: HamiltonianMonteCarlo = field(default_factory=HamiltonianMonteCarlo)
    derivatives: ClassVar[int] = 1

    def start(self, dimension: int, length: int) -> LearnedAlternation:
        """Begin with equal shares."""
        proposals, trajectories = self.proposals.start(dimension, length), self.trajectories.start(dimension, length)
        return LearnedAlternation(proposals, trajectories, 0.5, _nothing(dimension), np.empty(0), 0, length)

    def step(
        self, rng: np.random.Generator, point: Point, density: Density, learned: LearnedAlternation
    ) -> tuple[Point, TransitionInfo]:
        """Take one turn; the gradient is computed if the last turn has not done so."""
        if rng.uniform() >= learned.share:
            return self.proposals.step(rng, point, density, learned.proposals)
        known = point if point.gradient.size else point._replace(gradient=density.gradient(point.position))
        moved, info = self.trajectories.step(rng, known, density, learned.trajectories)
        return point if moved is known else moved, info._replace(component=TRAJECTORY)

    def learn(self, learned: LearnedAlternation, point: Point, info: TransitionInfo) -> LearnedAlternation:
        """Take in a tuning iteration: both kinds learn from the position, and the kind that moved from the outcome."""
        iteration = learned.iteration + 1
        learned = learned._replace(
            proposals=self.proposals.learn(learned.proposals, point, info),
            trajectories=self._scaled(learned.trajectories, point, info),
            values=_valued(learned, point, info),
            position=point.position,
            iteration=iteration,
        )
        if iteration in (int(MEASURED_FROM * learned.length), int(RESTARTED_AT * learned.length)):
            return learned._replace(values=_nothing(len(point.position)))
        measured = iteration >= MEASURED_FROM * learned.length and iteration % REFIT_EVERY == 0
        return learned._replace(share=self._share(learned)) if measured else learned

    def freeze(self, learned: LearnedAlternation) -> LearnedAlternation:
        """Return the constant that sampling uses, with the last measured share."""
        share = self._share(learned) if learned.length else learned.share
        proposals = self.proposals.freeze(learned.proposals)
        trajectories = self.trajectories.freeze(learned.trajectories)
        nothing = _nothing(len(trajectories.factor))
        return LearnedAlternation(proposals, trajectories, share, nothing, np.empty(0), 0, 0)

    def _share(self, learned: LearnedAlternation) -> float:
        """Return the share of trajectories; unchanged if one of the two kinds was never used."""
        independence = self.proposals.freeze(learned.proposals).proposal.independence
        walk, independent, trajectory = learned.values
        proposals = walk.weighted(1.0 - independence).joined(independent.weighted(independence))
        if not proposals.turns or not trajectory.turns:
            return learned.share
        variance = np.diag(learned.proposals.moments.covariance())
        worth, other = trajectory.efficiency(variance), proposals.efficiency(variance)
        if worth + other == 0.0:
            return learned.share
        return float(np.clip(worth**2 / (worth**2 + other**2), *BOUNDS_OF_SHARE))

    def _scaled(self, scaling: Scaling, point: Point, info: TransitionInfo) -> Scaling:
        if info.component == TRAJECTORY:
            return self.trajectories.learn(scaling, point, info)
        return self.trajectories.visit(scaling, point)


def _nothing(dimension: int) -> tuple[JumpValues, ...]:
    return (JumpValues.start(dimension),) * 3


def _valued(learned: LearnedAlternation, point: Point, info: TransitionInfo) -> tuple[JumpValues, ...]:
    """Add the value of a turn; the first turn has no earlier position to compare with."""
    if not learned.position.size:
        return learned.values
    price = REST + info.evaluations * (GRADIENT if info.component == TRAJECTORY else 1.0)
    values = list(learned.values)
    values[info.component] = values[info.component].added(point.position - learned.position, price)
    return tuple(values)
