"""Weighted draws of theta, computed in this process or on an executor."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from functools import lru_cache, partial

import numpy as np
from numpy.random import SeedSequence
from rich.progress import Progress, track

from pmgp.core.importance import Refitted, SplitMixture, Start, all_maxima
from pmgp.core.numerics.threads import suitable_threads, threads_limited
from pmgp.interface.executors import Cells, Executors
from pmgp.interface.importance.progress import shown
from pmgp.interface.importance.targets import Target, Weighed
from pmgp.interface.importance.trust import Trust, trust_in
from pmgp.interface.steps.threads import ThreadShare

# Smallest number of tasks for an executor, so that many workers share the work.
LEAST_TASKS = 32
# From so many draws for each hyper-parameter on the proposal is improved: its widths take a tenth of the evaluations or
# less, and a covariance is known well enough from half of the draws.
ENOUGH_EACH = 20


class Weighing:
    """Draws from a proposal, with their weights; more can be added, and the proposal can be fitted to them once.

    `theta` (draws, dimension) are on the unconstrained scale, and `weighed` has an element for each of them.
    """

    def __init__(
        self,
        target: Target,
        proposal: SplitMixture,
        rng: np.random.Generator,
        executor: Executors | None,
        progressbar: bool,
    ) -> None:
        self.target, self.rng = target, rng
        self._proposal, self._executor, self._progressbar = proposal, executor, progressbar
        self._refitted: Refitted | None = None
        self._left_out = np.empty(0, dtype=int)
        self.theta = np.empty((0, proposal.dimension))
        self.weighed: list[Weighed] = []

    @property
    def maxima(self) -> int:
        """The number of maxima that the proposals know."""
        return len(self._proposal.components) if self._refitted is None else self._refitted.components

    def add(self, draws: int) -> None:
        """Draw and weigh so many."""
        if self._refitted is None:
            theta, left_out = self._proposal.sample(self.rng, draws), len(self.theta) + np.arange(draws)
        else:
            theta, left_out = self._refitted.sample(self.rng, draws)
        seeds = SeedSequence(self.rng.integers(2**63)).spawn(draws)
        self.weighed += weigh(self.target, theta, seeds, self._executor, self._progressbar)
        self.theta = np.concatenate([self.theta, theta])
        self._left_out = np.concatenate([self._left_out, left_out])

    def drawn(self, draws: int) -> Trust:
        """Draw and weigh so many.

        Where they are enough, the proposal's widths are found first, and the second half of the draws are from one that
        is fitted to the first half. Only the number of draws decides on this. If their weights did, their mean would be
        biased.

        Raises ValueError if all weights vanish.
        """
        if draws < ENOUGH_EACH * self.theta.shape[1]:
            self.add(draws)
        else:
            self._find_widths()
            self.add(draws - draws // 2)
            self.refit()
            self.add(draws // 2)
        return trust_in(self.log_weights)

    def _find_widths(self) -> None:
        with Progress(disable=not self._progressbar) as progress:
            total = 2 * self._proposal.dimension * len(self._proposal.components)
            task = progress.add_task("Looking at the proposal's axes", total=total)

            def value(theta: np.ndarray) -> float:
                found = self.target.value(theta)
                progress.advance(task)
                return found

            with threads_limited(suitable_threads(self.target.size)):
                self._proposal = self._proposal.fitted(value)

    def refit(self) -> None:
        """Fit the proposal of further draws to those so far, once.

        Climbs from the draws with the largest weights look for further maxima.
        """
        if self._refitted is not None:
            return
        words = "Looking for other maxima"
        with (
            threads_limited(suitable_threads(self.target.size)),
            shown(self.target.climbed, words, self._progressbar) as density,
        ):

            def extended(theta: np.ndarray) -> SplitMixture:
                start = Start(theta, self._proposal.components[0].scale)
                return SplitMixture.about(all_maxima(density, self._proposal.maxima, [start], self.target.value))

            self._refitted = Refitted(self._proposal, self.theta, self._log_weights, extended)

    @property
    def log_weights(self) -> np.ndarray:
        """The logs of the weights, (draws,).

        Raises ValueError if all of them vanish.
        """
        found = self._log_weights
        if not np.isfinite(found).any():
            raise ValueError(
                "all weights vanish: p(y|theta) could not be computed, or is zero, at all draws around the maximum; "
                "sample the model with pmgp.PseudoMarginal, whose errors name the reason"
            )
        return found

    @property
    def _log_weights(self) -> np.ndarray:
        drawn = (
            self._proposal.log_density(self.theta)
            if self._refitted is None
            else self._refitted.log_density(self.theta, self._left_out)
        )
        return np.array([one.log_joint for one in self.weighed]) - drawn


def weigh(
    target: Target, theta: np.ndarray, seeds: list[SeedSequence], executor: Executors | None, progressbar: bool
) -> list[Weighed]:
    """Weigh draws one after another, or on an executor; each has its own random numbers."""
    if executor is None:
        pairs: Iterable[tuple[np.ndarray, SeedSequence]] = zip(theta, seeds, strict=True)
        # Where it shows nothing, a progress bar starts a thread all the same.
        pairs = track(pairs, "Weighing", total=len(theta)) if progressbar else pairs
        return [_weighed(target, one, seed) for one, seed in pairs]
    sent, found = pickle.dumps(target), dict[str, list[Weighed]]()
    parts = np.array_split(np.arange(len(theta)), min(LEAST_TASKS, len(theta)))
    calls = {
        f"draws {i[0]} to {i[-1]}": partial(_received_and_weighed, sent, theta[i], seeds[i[0] : i[-1] + 1])
        for i in parts
    }
    Cells(calls, found.__setitem__, "Nothing is kept: make the same call again").run(executor, "Weighing", progressbar)
    return [one for name in calls for one in found[name]]


def _received_and_weighed(sent: bytes, theta: np.ndarray, seeds: list[SeedSequence]) -> list[Weighed]:
    return [_weighed(_received(sent), one, seed) for one, seed in zip(theta, seeds, strict=True)]


@lru_cache(maxsize=1)
def _received(sent: bytes) -> Target:
    """Return a target from another process, whose functions are compiled once for all tasks of a worker."""
    return pickle.loads(sent)


def _weighed(target: Target, theta: np.ndarray, seed: SeedSequence) -> Weighed:
    with ThreadShare.default().limited(target.size):
        return target.weighed(np.random.default_rng(seed), theta)
