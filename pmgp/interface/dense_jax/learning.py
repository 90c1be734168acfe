"""One proposal for all chains, learned from their common draws while they tune, and frozen afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from pmgp.core.adaptation.moments import Moments
from pmgp.core.dense_jax.chain import Proposal, Screened
from pmgp.core.transitions.mixture import BURN_IN, MIXED, REFIT_EVERY, TUNING_INDEPENDENCE, independent_share
from pmgp.core.transitions.proposals import AdaptiveProposal


@dataclass
class Learning:
    """The schedule of `core.transitions.mixture.IndependenceMixture`, for several chains at once.

    Parameters
    ----------
    dimension : int
        The length of theta.
    length : int
        Tuning iterations.
    target_acceptance : float
        Acceptance rate of the random walk.
    """

    dimension: int
    length: int
    target_acceptance: float
    iteration: int = 0
    rates: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    own: AdaptiveProposal = field(init=False)
    moments: Moments = field(init=False)

    def __post_init__(self) -> None:
        self.own = AdaptiveProposal(self.dimension, self.target_acceptance)
        self.moments = Moments(self.dimension)

    def learn(self, theta: np.ndarray, report: Screened) -> None:
        """Learn from an iteration of all chains: their thetas (chains, dimension), and reports of (chains,) arrays."""
        rates, independent = np.asarray(report.rate), np.asarray(report.independent)
        self.iteration += 1
        if not independent.all():
            self.own = self.own.adapted(float(rates[~independent].mean()), self.iteration)
        if self.iteration > MIXED * self.length:
            self.rates[0].extend(rates[~independent])
            self.rates[1].extend(rates[independent])
        if self.iteration == int(BURN_IN * self.length):
            self.moments = Moments(self.dimension)
        for one in theta:
            self.moments.add(one)
        if self.iteration % REFIT_EVERY == 0 and self.moments.count > self.dimension:
            mixed = self.iteration >= MIXED * self.length
            self.own = self.own.refitted(self.moments, TUNING_INDEPENDENCE if mixed else 0.0)

    def freeze(self) -> None:
        """Weight the components of the proposal by their success."""
        walk, independent = self.rates
        share = independent_share(walk, independent, self.dimension)
        self.own = replace(self.own, independence=share)

    @property
    def proposal(self) -> Proposal:
        """The proposal as the programs take it."""
        own, identity, zero = self.own, np.eye(self.dimension), np.zeros(self.dimension)
        factors = (identity, identity) if own.factor is None else (own.factor, own.inverse_factor)
        location = zero if own.location is None else own.location
        return Proposal(*map(np.asarray, (own.independence, np.exp(own.log_scale), location, *factors)))
