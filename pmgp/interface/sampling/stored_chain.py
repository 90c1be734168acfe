"""The folder of one chain: its draws in their order, and the sampling state after the last of them.

Draws are appended in blocks; then the state is replaced, with the number of iterations before it. So a whole state
shows how many draws are valid, and later ones are dropped when the chain continues.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from pmgp.interface.sampling import blocks
from pmgp.interface.sampling.address import StoreError
from pmgp.interface.sampling.plain import from_bytes, to_bytes

try:
    import fcntl
except ImportError:  # Windows has no such locks.
    fcntl = None  # type: ignore[assignment]

DRAWS, STATE = "draws", "state"
PATIENCE = 10.0
"""Seconds to wait for a process that still writes: after a kill of their parent, workers end soon."""


class Iteration(NamedTuple):
    """The values of all free variables on the unconstrained scale, and the statistics of each step method."""

    point: dict[str, np.ndarray]
    stats: list[dict[str, Any]]


class Recovered(NamedTuple):
    """The part of a stored chain that is whole.

    These are the iterations before the last whole state, zero if the chain has to start again; the end of their draws
    in the file; the seconds that were spent until then, with the state; and a description of damage other than a
    truncated last block.
    """

    iterations: int
    end: int
    state: bytes | None
    damage: str | None


def recovered(folder: Path) -> Recovered:
    """Return the last whole state of a chain for which all draws are whole; another process may be writing it."""
    found = _recovered(folder)
    # A process that opens the chain may move a state between two reads, so damage is what two looks find.
    return found if found.damage is None else _recovered(folder)


def _recovered(folder: Path) -> Recovered:
    paths = folder / STATE, blocks.previous(folder / STATE)
    # Before the draws: those of a state are written before it, so they are there when it is.
    states = [(path.name, state) for path in paths for state in blocks.first_of(path)]
    ends = {block.number: block.end for block in blocks.blocks_of(folder / DRAWS)}
    damage = None
    for name, state in states:
        if state is None:
            damage = damage or f"its file {name!r} is damaged"
        elif state.number in ends:
            return Recovered(state.number, ends[state.number], state.data, damage)
        else:
            damage = damage or f"its draws are damaged after iteration {max(ends, default=0)} of {state.number}"
    return Recovered(0, 0, None, damage)


def last_state(folder: Path) -> blocks.Block | None:
    """Return the last whole state, without a look at the draws."""
    return blocks.read(folder / STATE) or blocks.read(blocks.previous(folder / STATE))


class StoredChain:
    """A chain's folder, opened to continue the chain; no other process may have it open.

    The folder is made if it does not exist.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        (folder / DRAWS).touch()
        self._file = (folder / DRAWS).open("r+b")
        _lock(self._file, folder)
        self.count, end, self.state, _ = recovered(folder)
        self._file.truncate(end)
        self._file.seek(end)
        self._keep_only_whole_states()

    def _keep_only_whole_states(self) -> None:
        """Make the state that is used the current one, so that the next replacement keeps it."""
        last = blocks.read(self.folder / STATE)
        if self.state is not None and (last is None or last.number != self.count):
            blocks.previous(self.folder / STATE).replace(self.folder / STATE)

    def replay(self) -> Iterator[Iteration]:
        """Yield the iterations before the state."""
        if self.count:
            for block in blocks.blocks_of(self.folder / DRAWS):
                yield from iterations_of(from_bytes(block.data))

    def write(self, iterations: Sequence[Iteration], state: Any, seconds: float) -> None:
        """Append iterations, and replace the state with the one after them; `seconds` is the total time so far."""
        self.count += len(iterations)
        blocks.append(self._file, to_bytes(columns(iterations)), self.count)
        blocks.replace(self.folder / STATE, to_bytes((seconds, state)), self.count)

    def close(self) -> None:
        """Close the folder, so that other processes can open it."""
        # A block that a full disk has no room for is tried again, and not needed: its draws come after the last state.
        with suppress(OSError):
            self._file.close()


def _lock(file: BinaryIO, folder: Path) -> None:
    if fcntl is None:
        return
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                file.close()
                raise StoreError(f"another process writes to {folder}; wait until it has ended, or end it") from None
            time.sleep(0.05)
        else:
            return


def columns(iterations: Sequence[Iteration]) -> list[Any]:
    """Return iterations stacked by equal shapes, without statistics that are objects, such as PyMC's warnings."""
    stacked = []
    for _, group in groupby(map(_plain, iterations), key=_layout):
        points, stats = zip(*group, strict=True)
        stacked.append([len(points), _stacked(points), [_stacked(method) for method in zip(*stats, strict=True)]])
    return stacked


def _plain(iteration: Iteration) -> Iteration:
    return Iteration(_arrays(iteration.point), [_arrays(stats) for stats in iteration.stats])


def _arrays(values: dict[str, Any]) -> dict[str, np.ndarray]:
    arrays = {name: np.asarray(value) for name, value in values.items()}
    return {name: array for name, array in arrays.items() if not array.dtype.hasobject}


def _layout(iteration: Iteration) -> list[Any]:
    parts = [iteration.point, *iteration.stats]
    return [[(name, value.shape, value.dtype.str) for name, value in part.items()] for part in parts]


def _stacked(values: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.stack([value[name] for value in values]) for name in values[0]}


def iterations_of(stacked: list[Any]) -> Iterator[Iteration]:
    """Yield the iterations that `columns` has stacked."""
    for length, points, stats in stacked:
        for row in range(length):
            # Scalars come back as arrays without dimensions, which compiled functions need in points.
            point = {name: values[row, ...].copy() for name, values in points.items()}
            yield Iteration(point, [{name: values[row] for name, values in method.items()} for method in stats])
