"""Draws of theta that are weighed, in this process or on an executor."""

from __future__ import annotations

import pickle
from functools import lru_cache, partial

import numpy as np
from numpy.random import SeedSequence
from rich.progress import track

from pmgp.core.importance import StudentMixture
from pmgp.interface.executors import Cells, Executors
from pmgp.interface.importance.targets import Target, Weighed
from pmgp.interface.steps.threads import ThreadShare

# Smallest number of tasks for an executor, so that many workers share the work.
LEAST_TASKS = 32


class Weighing:
    """Draws from a proposal, with their weights; more can be added.

    `theta` (draws, dimension) are on the unconstrained scale, and `weighed` has an element for each of them.
    """

    def __init__(
        self,
        target: Target,
        proposal: StudentMixture,
        rng: np.random.Generator,
        executor: Executors | None,
        progressbar: bool,
    ) -> None:
        self.target, self.rng = target, rng
        self._proposal, self._executor, self._progressbar = proposal, executor, progressbar
        self.theta = np.empty((0, proposal.locations.shape[1]))
        self.weighed: list[Weighed] = []

    def add(self, draws: int) -> None:
        """Draw and weigh so many."""
        theta = self._proposal.sample(self.rng, draws)
        seeds = SeedSequence(self.rng.integers(2**63)).spawn(draws)
        self.weighed += weigh(self.target, theta, seeds, self._executor, self._progressbar)
        self.theta = np.concatenate([self.theta, theta])

    @property
    def log_weights(self) -> np.ndarray:
        """The logs of the weights, (draws,).

        Raises ValueError if all of them vanish.
        """
        found = np.array([one.log_joint for one in self.weighed]) - self._proposal.log_density(self.theta)
        if not np.isfinite(found).any():
            raise ValueError(
                "all weights vanish: p(y|theta) could not be computed, or is zero, at all draws around the maximum; "
                "sample the model with pmgp.PseudoMarginal, whose errors name the reason"
            )
        return found


def weigh(
    target: Target, theta: np.ndarray, seeds: list[SeedSequence], executor: Executors | None, progressbar: bool
) -> list[Weighed]:
    """Weigh draws one after another, or on an executor; each has its own random numbers."""
    if executor is None:
        shown = track(zip(theta, seeds, strict=True), "Weighing", total=len(theta), disable=not progressbar)
        return [_weighed(target, one, seed) for one, seed in shown]
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
