"""A step method that stores the draws of another one, and returns stored draws before it makes new ones.

To PyMC it is a step method like others, so chains in worker processes, progress bars, interruptions and the trace are
PyMC's. The process that draws a chain also writes it. To continue a run, `pymc.sample` is called again with the same
arguments: the iterations in the store come first, at the speed of reading, then the saved state is restored, and the
next draw is the one that would have followed. So chains may have been stopped at different iterations, and the trace is
that of a run without interruption.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from pymc.step_methods.arraystep import PopulationArrayStepShared
from pymc.step_methods.compound import BlockedStep, CompoundStep, flatten_steps
from pymc.util import get_random_generator

from pmgp.interface.sampling.address import Folder, StoreError
from pmgp.interface.sampling.chains import chain_folder, opened
from pmgp.interface.sampling.parent import end_with_parent
from pmgp.interface.sampling.plain import from_bytes
from pmgp.interface.sampling.segments import SegmentedChain
from pmgp.interface.sampling.stored_chain import Iteration, StoredChain


@contextmanager
def storing(run: Folder, chain: int) -> Iterator[None]:
    """Say in errors of the block that write a chain how its run can continue."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"chain {chain} could not be stored by the process on {platform.node()}: {error}. The contents of {run} "
            "are intact: once it can be written to again, pmgp.resume continues the run, if out= was given"
        ) from error


class RecordedStep(CompoundStep):
    """A step method with a store.

    PyMC does not tell step methods the number of their chain, but the last part of the spawn key of their generator
    gives it; `first_key` is that of the first chain. Draws and state are written every `flush_every` seconds, or in
    every iteration. Step methods in which chains depend on each other are refused.
    """

    def __init__(self, inner: BlockedStep | CompoundStep, run: Folder, first_key: int, flush_every: float) -> None:
        super().__init__(flatten_steps(inner))
        if any(isinstance(method, PopulationArrayStepShared) for method in self.methods):
            raise ValueError(f"{self.name} moves all chains together; such a run can be neither stored nor continued")
        self.inner = inner
        self.run = run
        self.first_key = first_key
        self.flush_every = flush_every
        self._made_in = os.getpid()
        self._chain: StoredChain | SegmentedChain | None = None

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """Begin a chain in one of PyMC's processes; the key of its generator gives its number."""
        end_with_parent(self._made_in)
        rng = get_random_generator(rng, copy=False)
        self.begin(rng.bit_generator.seed_seq.spawn_key[-1] - self.first_key, rng, tune, draws)

    def begin(self, chain: int, rng: np.random.Generator, tune: int, draws: int) -> None:
        """Begin the chain with this number, with its stored draws."""
        self.close()
        self.inner.setup_chain(rng, tune, draws)
        self._number = chain
        with storing(self.run, chain):
            self._chain = opened(chain_folder(self.run, chain))
        self._stored = self._chain.replay()
        self._begin, self._tuned, self._end = self._chain.count, tune, tune + draws
        self._iteration, self._seconds = 0, 0.0
        self._unwritten: list[Iteration] = []
        self._written_at = time.monotonic()

    def step(self, point: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
        """Return the next stored iteration, or a new one."""
        assert self._chain is not None
        iteration = next(self._stored) if self._iteration < self._begin else self._drawn(point, self._chain)
        self._iteration += 1
        self._write_if_due(self._chain)
        return iteration.point, iteration.stats

    def stop_tuning(self) -> None:
        """Do nothing: a chain ends its tuning itself, before its first draw, unless that draw is stored."""

    def _drawn(self, point: dict[str, np.ndarray], chain: StoredChain | SegmentedChain) -> Iteration:
        if self._iteration == self._begin and chain.state is not None:
            self._seconds, self.sampling_state = from_bytes(chain.state)
        begun = time.perf_counter()
        if self._iteration == self._tuned:
            self.inner.stop_tuning()
        iteration = Iteration(*self.inner.step(point))
        self._seconds += time.perf_counter() - begun
        # In worker processes the next point may be written to the memory of this one.
        copied = {name: np.array(value) for name, value in iteration.point.items()}
        self._unwritten.append(Iteration(copied, [dict(stats) for stats in iteration.stats]))
        return iteration

    def _write_if_due(self, chain: StoredChain | SegmentedChain) -> None:
        due = self._iteration == self._end or time.monotonic() - self._written_at >= self.flush_every
        if due and self._unwritten:
            with storing(self.run, self._number):
                chain.write(self._unwritten, self.sampling_state, self._seconds)
            self._unwritten, self._written_at = [], time.monotonic()

    def close(self) -> None:
        """Close the chain's files. Draws that were not written came after the last state, and are made again."""
        if self._chain is not None:
            self._chain.close()
            self._chain = None
