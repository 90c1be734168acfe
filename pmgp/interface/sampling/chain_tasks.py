"""Chains as tasks of an executor.

A task is a chain's number, its random generator, its starting point and the step method, which is made once and sent.
It needs no model, and its draws go into the run's store. So any `concurrent.futures.Executor` can run it, in any
process that sees the folder, and a task that is submitted again continues from the store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, BrokenExecutor, Executor, Future, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import pymc as pm
from pymc.initial_point import make_initial_point_fns_per_chain
from pymc.util import RandomGeneratorState, get_state_from_generator, random_generator_from_state
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from pmgp.interface.sampling import blocks
from pmgp.interface.sampling.recorded_step import RecordedStep, chain_folder
from pmgp.interface.sampling.stored_chain import STATE, StoreError, recovered
from pmgp.interface.sampling.stored_run import RunSettings, versions

STOP = "stop"
"""The file in a run's folder that tells its workers to stop."""
EVERY = 0.25
"""Seconds between two checks of the store."""
GRACE = 60.0
"""Seconds to wait for workers that were told to stop."""
ATTEMPTS = 3
"""The number of executors that may break in a row without a new iteration in the store."""

type Executors = Executor | Callable[[], Executor]


class WorkerError(RuntimeError):
    """A chain could not be sent to a worker, or its worker died or has other versions of the packages.

    Examples
    --------
    >>> import pmgp
    >>> from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
    >>> class Unreachable(ThreadPoolExecutor):
    ...     def submit(self, *arguments):
    ...         raise BrokenExecutor("the cluster does not answer")
    >>> with pmgp.models.classifier([[0.0], [1.0]], [0, 1]):
    ...     try:
    ...         pmgp.sample(draws=10, tune=10, executor=Unreachable(), progressbar=False)
    ...     except pmgp.WorkerError as error:
    ...         print(error)
    a worker died: the cluster does not answer. ...
    """


@dataclass(frozen=True)
class ChainTask:
    """The information that a worker needs to draw one chain, in addition to the step method."""

    number: int
    rng: RandomGeneratorState
    start: dict[str, np.ndarray]
    tune: int
    draws: int

    def run(self, step: RecordedStep) -> None:
        """Draw the iterations that the store lacks, until the chain is complete or the run is stopped."""
        stop, looked = step.run / STOP, time.monotonic()
        try:
            step.begin(self.number, random_generator_from_state(self.rng), self.tune, self.draws)
            point = self.start
            for _ in range(self.tune + self.draws):
                point, _ = step.step(point)
                if time.monotonic() - looked >= EVERY:
                    looked = time.monotonic()
                    if stop.exists():
                        return
        finally:
            step.close()


def check_executor(executor: Executors | None) -> None:
    """Refuse an object that is neither an executor nor callable.

    Raises
    ------
    TypeError
    """
    if executor is not None and not isinstance(executor, Executor) and not callable(executor):
        raise TypeError(
            f"executor must be a concurrent.futures.Executor or a function that makes one, not {executor!r}; a Dask "
            "client gives one by client.get_executor()"
        )


def tasks(model: pm.Model, settings: RunSettings, initvals: object, draws: int) -> list[ChainTask]:
    """Return tasks with the generators and the starting points that `pymc.sample` would give the chains."""
    rngs = settings.seed.generator().spawn(settings.chains)
    seeds = [rng.integers(2**30) for rng in rngs]
    starts = make_initial_point_fns_per_chain(model=model, overrides=initvals, jitter_rvs=set(), chains=len(rngs))
    return [
        ChainTask(number, get_state_from_generator(rng), starts[number](seeds[number]), settings.tune, draws)
        for number, rng in enumerate(rngs)
    ]


def run_task(expected: dict[str, str], step: bytes, task: ChainTask) -> None:
    """Draw a chain in a worker of an executor.

    Raises
    ------
    WorkerError
        If the worker has other versions of the packages, with which draws would differ.
    """
    here = versions()
    others = [f"{name} {here[name]} and not {version}" for name, version in expected.items() if here[name] != version]
    if others:
        raise WorkerError(f"the worker has {', '.join(others)}: install the same versions on all machines")
    task.run(cloudpickle.loads(step))


def complete(executors: Executors, step: RecordedStep, chains: Sequence[ChainTask], shows: bool) -> None:
    """Run all chains to their ends, with one progress bar.

    Parameters
    ----------
    executors : Executor, or a function without arguments that makes one
        A function is called again if a worker's death breaks the executor.
    step : RecordedStep
    chains : sequence of ChainTask
    shows : bool
        Whether progress is shown.

    Raises
    ------
    WorkerError
        If the step method cannot be pickled, a worker lacks a package or has another version of it, or workers die.
    StoreError
        If a worker wrote to a folder that this process does not see.
    """
    sent = _pickled(step)
    (step.run / STOP).unlink(missing_ok=True)
    columns = (TextColumn("Chains"), BarColumn(), TextColumn("{task.completed} of {task.total} iterations"))
    with Progress(*columns, TimeElapsedColumn(), disable=not shows) as progress:
        bar = progress.add_task("", total=sum(chain.tune + chain.draws for chain in chains))

        def show() -> None:
            progress.update(bar, completed=sum(_stored(step.run, chain) for chain in chains))

        _until_done(executors, sent, step.run, chains, show)
    for chain in chains:
        if recovered(chain_folder(step.run, chain.number)).iterations < chain.tune + chain.draws:
            raise StoreError(
                f"chain {chain.number} has ended, but its draws are not in {step.run}: give as out= a folder that this "
                "machine and all workers share"
            )


def _pickled(step: RecordedStep) -> bytes:
    try:
        return cloudpickle.dumps(step)
    except Exception as error:
        raise WorkerError(
            f"{step.inner.name} cannot be sent to workers, because it cannot be pickled: {error}"
        ) from error


def _stored(run: Path, chain: ChainTask) -> int:
    """Return the number of iterations before the last stored state of a chain."""
    state = blocks.read(chain_folder(run, chain.number) / STATE)
    return 0 if state is None else state.number


def _until_done(
    executors: Executors, sent: bytes, run: Path, chains: Sequence[ChainTask], show: Callable[[], None]
) -> None:
    """Run all chains in an executor, and if it breaks, run the rest of them in another one."""
    attempts = ATTEMPTS
    while True:
        before = [_stored(run, chain) for chain in chains]
        try:
            with opened(executors) as executor:
                return _run_all(executor, sent, run, chains, show)
        except BrokenExecutor as error:
            moved = before != [_stored(run, chain) for chain in chains]
            attempts = ATTEMPTS if moved else attempts - 1
            if isinstance(executors, Executor) or not attempts:
                raise WorkerError(
                    f"a worker died: {error}. The draws so far are in {run}; pmgp.resume continues from there with "
                    "another executor. If executor= is a function that makes one, it is called again instead"
                ) from error


def opened(executors: Executors) -> AbstractContextManager[Executor]:
    """Return a context with the executor that is given, or with one that is made and shut down."""
    return nullcontext(executors) if isinstance(executors, Executor) else executors()


def _run_all(executor: Executor, sent: bytes, run: Path, chains: Sequence[ChainTask], show: Callable[[], None]) -> None:
    waiting: set[Future[None]] = set()
    try:
        waiting |= {executor.submit(run_task, versions(), sent, chain) for chain in chains}
        while waiting:
            done, waiting = wait(waiting, timeout=EVERY, return_when=FIRST_EXCEPTION)
            show()
            for future in done:
                future.result()
    except ModuleNotFoundError as error:
        raise WorkerError(f"a worker lacks {error.name}: install the same packages on all machines") from error
    finally:
        if waiting:
            _stop(waiting, run)


def _stop(waiting: set[Future[None]], run: Path) -> None:
    """Cancel the chains that have not begun, and wait until the others have seen the file that stops them."""
    (run / STOP).touch()
    running = [future for future in waiting if not future.cancel()]
    wait(running, timeout=GRACE)
    (run / STOP).unlink(missing_ok=True)
