"""Chains as tasks of an executor.

A task is a chain's number, its random generator, its starting point and the step method, which is made once and sent.
It needs no model, and its draws go into the run's store. So any `concurrent.futures.Executor` can run it, in any
process that sees the folder, and a task that is submitted again continues from the store.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import pymc as pm
from pymc.initial_point import make_initial_point_fns_per_chain
from pymc.util import RandomGeneratorState, get_state_from_generator, random_generator_from_state
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from pmgp.interface.executors import EVERY, Ended, Executors, pickled, run_all, table_of
from pmgp.interface.sampling.address import LOOK, Address, Folder, StoreError
from pmgp.interface.sampling.chains import chain_folder, iterations_in, recovered
from pmgp.interface.sampling.permit import Permit, withdraw
from pmgp.interface.sampling.recorded_step import RecordedStep, storing
from pmgp.interface.sampling.stored_run import MANIFEST, RunSettings

_log = logging.getLogger("pymc.pmgp")


@dataclass(frozen=True)
class ChainTask:
    """The information that a worker needs to draw one chain, in addition to the step method."""

    number: int
    rng: RandomGeneratorState
    start: dict[str, np.ndarray]
    tune: int
    draws: int

    def run(self, step: RecordedStep, permit: Permit) -> None:
        """Draw the iterations that the store lacks, until the chain is complete or the permit ends."""
        looked, every = time.monotonic(), LOOK if isinstance(permit.run, Address) else EVERY
        try:
            step.begin(self.number, random_generator_from_state(self.rng), self.tune, self.draws)
            point = self.start
            for _ in range(self.tune + self.draws):
                point, _ = step.step(point)
                if time.monotonic() - looked >= every:
                    looked = time.monotonic()
                    if not permit.holds():
                        return
        finally:
            step.close()


def tasks(model: pm.Model, settings: RunSettings, initvals: object, draws: int) -> list[ChainTask]:
    """Return tasks with the generators and the starting points that `pymc.sample` would give the chains."""
    rngs = settings.seed.generator().spawn(settings.chains)
    seeds = [rng.integers(2**30) for rng in rngs]
    starts = make_initial_point_fns_per_chain(model=model, overrides=initvals, jitter_rvs=set(), chains=len(rngs))
    return [
        ChainTask(number, get_state_from_generator(rng), starts[number](seeds[number]), settings.tune, draws)
        for number, rng in enumerate(rngs)
    ]


def run_task(step: bytes, task: ChainTask, permit: Permit) -> None:
    """Draw a chain in a worker of an executor.

    A worker needs the run's folder, and must be able to write to it.
    """
    permit.check()
    with storing(permit.run, task.number):
        task.run(cloudpickle.loads(step), permit)


class ChainWork:
    """The chains of a run, as work for an executor."""

    def __init__(self, step: RecordedStep, chains: Sequence[ChainTask], stall_limit: float, progress: Progress) -> None:
        self.run, self.chains, self.stall_limit = step.run, chains, stall_limit
        self.advice = _advice(step.run)
        self.all_ended: list[Ended] = []
        self._looked = -LOOK
        self._sent = pickled(step, step.inner.name)
        self._progress = progress
        self._bar = progress.add_task("", total=sum(chain.tune + chain.draws for chain in chains))

    def begin(self) -> list[Callable[[], None]]:
        """Give a permit for the calls that are made now."""
        self._permit = Permit.given(self.run)
        return [partial(run_task, self._sent, chain, self._permit) for chain in self.chains]

    def moved(self) -> list[int]:
        """Return the iterations of each chain in the store, as of the last look, and show their sum."""
        if not isinstance(self.run, Address) or time.monotonic() - self._looked >= LOOK:
            self._stored = [iterations_in(chain_folder(self.run, chain.number)) for chain in self.chains]
            self._looked = time.monotonic()
            self._progress.update(self._bar, completed=sum(self._stored))
        return self._stored

    def ended(self, one: Ended) -> None:
        """Note where a chain was drawn."""
        self.all_ended.append(one)

    def stop(self) -> None:
        """Withdraw the permit, after which the next look is due."""
        self._looked = -LOOK
        withdraw(self.run)


def complete(
    executors: Executors, step: RecordedStep, chains: Sequence[ChainTask], shows: bool, stall_limit: float
) -> None:
    """Run all chains to their ends, with one progress bar, and log where each was drawn, if this `shows`.

    Workers that die are replaced if `executors` makes them; those that stall, lack a package or do not share the folder
    raise an error.
    """
    columns = (TextColumn("Chains"), BarColumn(), TextColumn("{task.completed} of {task.total} iterations"))
    with Progress(*columns, TimeElapsedColumn(), disable=not shows) as progress:
        work = ChainWork(step, chains, stall_limit, progress)
        run_all(executors, work)
        work.stop()
        work.moved()
    _check_stored(step.run, chains)
    if shows:
        rows = sorted((f"chain {one.number}", one) for one in work.all_ended)
        _log.info("Chains were drawn, or finished, on\n%s", table_of(rows))


def _advice(run: Folder) -> str:
    if not (run / MANIFEST).exists():
        return "Nothing is kept of a run without a folder: give out=, and pmgp.resume can continue after an error"
    return (
        f"The draws so far are in {run}; pmgp.resume continues from there with another executor. If executor= is a "
        "function that makes one, it is called again when a worker dies"
    )


def _check_stored(run: Folder, chains: Sequence[ChainTask]) -> None:
    for chain in chains:
        if recovered(chain_folder(run, chain.number)).iterations < chain.tune + chain.draws:
            raise StoreError(
                f"chain {chain.number} has ended, but its draws are not in {run}: set out= to a folder that this "
                "machine and all workers share"
            )
