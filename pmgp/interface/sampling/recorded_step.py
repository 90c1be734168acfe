"""A step method that stores what another one draws, and gives it back before it draws anew.

To PyMC it is a step method like others, so that chains in worker processes, progress bars, interruptions and the trace
are PyMC's. Each chain is written by the process that draws it. A run that goes on is the same call of `pymc.sample`
again: the iterations in the store come first, at the speed of reading, then the saved state is restored, and the next
draw is the one that would have followed. So chains may have been stopped at different iterations, and the trace holds
what a run without interruption would have given.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from pymc.step_methods.arraystep import PopulationArrayStepShared
from pymc.step_methods.compound import BlockedStep, CompoundStep, flatten_steps
from pymc.util import get_random_generator

from pmgp.interface.sampling.parent import end_with_parent
from pmgp.interface.sampling.plain import from_bytes
from pmgp.interface.sampling.stored_chain import Iteration, StoredChain


def chain_folder(run: Path, chain: int) -> Path:
    """Where a chain of a run is stored."""
    return run / f"chain-{chain}"


class RecordedStep(CompoundStep):
    """A step method with a store.

    Parameters
    ----------
    inner : BlockedStep or CompoundStep
        Makes the draws.
    run : Path
        The run's folder.
    first_key : int
        The last part of the spawn key of the first chain's random generator. PyMC does not tell step methods which
        chain they serve; their generator's key does.
    flush_every : float
        Seconds after which draws and state are written; zero for every iteration.

    Raises
    ------
    ValueError
        For step methods in which chains depend on each other.
    """

    def __init__(self, inner: BlockedStep | CompoundStep, run: Path, first_key: int, flush_every: float) -> None:
        super().__init__(flatten_steps(inner))
        if any(isinstance(method, PopulationArrayStepShared) for method in self.methods):
            raise ValueError(f"{self.name} moves all chains together; such a run can be neither stored nor continued")
        self.inner = inner
        self.run = run
        self.first_key = first_key
        self.flush_every = flush_every
        self._made_in = os.getpid()
        self._chain: StoredChain | None = None

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """Begin a chain in a process of PyMC's, whose number only its generator's key says."""
        end_with_parent(self._made_in)
        rng = get_random_generator(rng, copy=False)
        self.begin(rng.bit_generator.seed_seq.spawn_key[-1] - self.first_key, rng, tune, draws)

    def begin(self, chain: int, rng: np.random.Generator, tune: int, draws: int) -> None:
        """Begin the chain with this number, with what is stored of it."""
        self.close()
        self.inner.setup_chain(rng, tune, draws)
        self._chain = StoredChain(chain_folder(self.run, chain))
        self._stored = self._chain.replay()
        self._begin, self._tuned, self._end = self._chain.count, tune, tune + draws
        self._iteration, self._seconds = 0, 0.0
        self._unwritten: list[Iteration] = []
        self._written_at = time.monotonic()

    def step(self, point: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
        """The next stored iteration, or a new one."""
        assert self._chain is not None
        iteration = next(self._stored) if self._iteration < self._begin else self._drawn(point, self._chain)
        self._iteration += 1
        self._write_if_due(self._chain)
        return iteration.point, iteration.stats

    def stop_tuning(self) -> None:
        """Do nothing: a chain ends its tuning itself, before its first draw, unless that lies in what is stored."""

    def _drawn(self, point: dict[str, np.ndarray], chain: StoredChain) -> Iteration:
        if self._iteration == self._begin and chain.state is not None:
            self._seconds, self.sampling_state = from_bytes(chain.state)
        begun = time.perf_counter()
        if self._iteration == self._tuned:
            self.inner.stop_tuning()
        iteration = Iteration(*self.inner.step(point))
        self._seconds += time.perf_counter() - begun
        # In worker processes arrays of the point may be memory that the next point is written to.
        copied = {name: np.array(value) for name, value in iteration.point.items()}
        self._unwritten.append(Iteration(copied, [dict(stats) for stats in iteration.stats]))
        return iteration

    def _write_if_due(self, chain: StoredChain) -> None:
        due = self._iteration == self._end or time.monotonic() - self._written_at >= self.flush_every
        if due and self._unwritten:
            chain.write(self._unwritten, self.sampling_state, self._seconds)
            self._unwritten, self._written_at = [], time.monotonic()

    def close(self) -> None:
        """Let go of the chain's files. What was not written was drawn after the last state, and is drawn again."""
        if self._chain is not None:
            self._chain.close()
            self._chain = None
