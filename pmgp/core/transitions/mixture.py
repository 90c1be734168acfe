"""A mixture of a random walk and independent proposals that learns its components and their weights.

The choice of the component does not depend on the position, so each component has its own Hastings ratio.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import ndtri

from pmgp.core.adaptation.emulator import Visited
from pmgp.core.adaptation.moments import Moments
from pmgp.core.numerics.storable import storable
from pmgp.core.transitions.adaptive import check_target
from pmgp.core.transitions.base import Density, Point, TransitionInfo
from pmgp.core.transitions.metropolis_hastings import Proposed, metropolis_hastings
from pmgp.core.transitions.proposals import INDEPENDENT, WALK, AdaptiveProposal

# Fractions of tuning: draws before BURN_IN are forgotten; from MIXED on the independence component takes part.
BURN_IN = 0.2
MIXED = 0.5
REFIT_EVERY = 25
TUNING_INDEPENDENCE = 0.5
BOUNDS_OF_INDEPENDENCE = (0.05, 0.9)
# Largest share with an emulator, whose proposals are nearly all accepted.
LARGEST_EMULATED = 0.95


@storable
class LearnedMixture(NamedTuple):
    """Learned state of the mixture.

    - `length`: number of tuning iterations; zero for a frozen proposal
    - `moments`: moments of the draws after the burn-in
    - `rates`: acceptance rates of the random walk and of independent proposals, since both are made
    - `walks`: number of the random walk's proposals
    - `visited`: values to which an emulator is fitted
    """

    proposal: AdaptiveProposal
    length: int
    moments: Moments
    iteration: int = 0
    rates: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())
    walks: int = 0
    visited: Visited | None = None

    @classmethod
    def fixed(cls, proposal: AdaptiveProposal) -> LearnedMixture:
        """Return a state that learns nothing more."""
        return cls(proposal, 0, Moments(proposal.dimension))


@storable
@dataclass(frozen=True)
class IndependenceMixture:
    """Metropolis-Hastings with an `AdaptiveProposal`.

    Parameters
    ----------
    target_acceptance : float
        Acceptance rate to which the random walk is scaled; the articles use 20 to 30 %.
    emulates : bool
        Whether independent proposals follow an emulator of the log-density. The density must be the same in every
        iteration, and theta must have few elements.

    Raises
    ------
    ValueError
        For a rate that is not between 0 and 1.
    """

    target_acceptance: float = 0.25
    emulates: bool = False
    derivatives: ClassVar[int] = 0

    def __post_init__(self) -> None:
        check_target(self.target_acceptance)

    def start(self, dimension: int, length: int) -> LearnedMixture:
        """Begin with a random walk."""
        visited = Visited(dimension) if self.emulates else None
        proposal = AdaptiveProposal(dimension, self.target_acceptance)
        return LearnedMixture(proposal, length, Moments(dimension), visited=visited)

    def propose(self, rng: np.random.Generator, position: np.ndarray, learned: LearnedMixture) -> Proposed:
        """Draw a position."""
        return learned.proposal.propose(rng, position)

    def step(
        self, rng: np.random.Generator, point: Point, density: Density, learned: LearnedMixture
    ) -> tuple[Point, TransitionInfo]:
        """Make one transition."""
        return metropolis_hastings(rng, point, density, learned.proposal.propose(rng, point.position))

    def learn(self, learned: LearnedMixture, point: Point, info: TransitionInfo) -> LearnedMixture:
        """Take in the outcome of one tuning iteration, or only the position if another kind of component made it."""
        rate, rates, proposal, walks = info.acceptance_rate, learned.rates, learned.proposal, learned.walks
        if info.component == WALK:
            walks += 1
            proposal = proposal.adapted(rate, walks)
        if learned.iteration >= MIXED * learned.length and info.component in (WALK, INDEPENDENT):
            walk, independent = rates
            rates = (walk, (*independent, rate)) if info.component == INDEPENDENT else ((*walk, rate), independent)
        iteration = learned.iteration + 1
        forget = iteration == int(BURN_IN * learned.length)
        moments = Moments(len(point.position)) if forget else learned.moments
        moments.add(point.position)
        if iteration % REFIT_EVERY == 0 and moments.count > len(point.position):
            mixed = iteration >= MIXED * learned.length
            proposal = proposal.refitted(moments, TUNING_INDEPENDENCE if mixed else 0.0)
        if learned.visited is not None and iteration > BURN_IN * learned.length:
            proposal = _visiting(learned, proposal, info)
        return LearnedMixture(proposal, learned.length, moments, iteration, rates, walks, learned.visited)

    def freeze(self, learned: LearnedMixture) -> LearnedMixture:
        """Return the proposal for sampling, with its two components weighted by their success."""
        if learned.length == 0:
            return learned
        proposal = learned.proposal
        if learned.visited is not None:
            proposal = proposal.emulating(learned.visited)
        largest = BOUNDS_OF_INDEPENDENCE[1] if proposal.emulator is None else LARGEST_EMULATED
        independence = independent_share(*learned.rates, proposal.dimension, largest)
        return LearnedMixture.fixed(replace(proposal, independence=independence))


def _visiting(learned: LearnedMixture, proposal: AdaptiveProposal, info: TransitionInfo) -> AdaptiveProposal:
    """Add a visited point; return the proposal, with an emulator once independent proposals begin."""
    assert learned.visited is not None
    if info.proposed is not None:
        learned.visited.add(*info.proposed)
    begins = learned.iteration + 1 == int(MIXED * learned.length)
    return proposal.emulating(learned.visited) if begins else proposal


def independent_share(
    walk: Sequence[float], independent: Sequence[float], dimension: int, largest: float = BOUNDS_OF_INDEPENDENCE[1]
) -> float:
    """Return the share of independent proposals, from the acceptance rates of both components."""
    if not independent:
        return 0.0
    gain = _independent_efficiency(float(np.mean(independent)))
    other = _walk_efficiency(float(np.mean(walk)) if walk else 0.0, dimension)
    # The better component alone would be most efficient; the other guards against regions that tuning has not seen.
    return float(np.clip(gain**2 / (gain**2 + other**2), BOUNDS_OF_INDEPENDENCE[0], largest))


def _independent_efficiency(rate: float) -> float:
    """Return how many independent draws an iteration of an independence sampler with this acceptance rate gives.

    If log importance weights are normal with variance s^2, the acceptance rate is 2 Phi(-s / sqrt 2), and the share of
    effective draws is exp(-s^2): a rate of 0.3 is still good, and one of 0.05 is worthless.
    """
    return float(np.exp(-2.0 * ndtri(0.5 * np.clip(rate, 1e-12, 1.0)) ** 2))


def _walk_efficiency(rate: float, dimension: int) -> float:
    """Return the efficiency of a random walk near its best scale, 0.33 / dimension (Gelman, Roberts and Gilks 1996)."""
    return max(1.3 * rate, 0.01) / dimension
