"""The folder of one chain in a store of whole objects, to which nothing can be appended: each write is a segment.

A segment is an object with two blocks: the draws of some iterations, numbered by the iterations before them, and the
state after them, numbered by the iterations before that. The name has the first of these numbers, so segments follow
each other without a gap. They are created and never replaced: of two processes that write the same chain, one is
refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pmgp.interface.sampling import blocks
from pmgp.interface.sampling.address import Address, StoreError
from pmgp.interface.sampling.plain import from_bytes, to_bytes
from pmgp.interface.sampling.stored_chain import Iteration, Recovered, columns, iterations_of

PREFIX = "segment-"


class Segments(NamedTuple):
    """Whole segments from the first iteration on, each with its draws and state; names of others; and the damage."""

    whole: list[tuple[blocks.Block, blocks.Block]]
    others: list[str]
    damage: str | None


def _name(before: int) -> str:
    return f"{PREFIX}{before:012d}"


def _read(folder: Address) -> Segments:
    stored = folder.read_folder()
    whole: list[tuple[blocks.Block, blocks.Block]] = []
    count, damage = 0, None
    while (data := stored.pop(_name(count), None)) is not None:
        match list(blocks.blocks_in(data)):
            case [draws, state] if draws.number == count < state.number:
                whole.append((draws, state))
                count = state.number
            case _:
                stored[_name(count)] = data
                damage = f"its segment {_name(count)!r} is damaged"
                break
    others = sorted(name for name in stored if name.startswith(PREFIX))
    if others and damage is None:
        damage = f"its segment {_name(count)!r} is missing"
    return Segments(whole, others, damage)


def names_in(folder: Address) -> list[str]:
    """Return the names of all segments, in their order."""
    return [path.name for path in folder.iterdir() if path.name.startswith(PREFIX)]


def recovered(folder: Address) -> Recovered:
    """Return the last state before which no segment is damaged or missing."""
    whole, _, damage = _read(folder)
    return Recovered(whole[-1][1].number, 0, whole[-1][1].data, damage) if whole else Recovered(0, 0, None, damage)


def last_state(folder: Address) -> blocks.Block | None:
    """Return the last whole state, without a look at the draws before it."""
    read = (list(blocks.blocks_of(folder / name)) for name in reversed(names_in(folder)))
    return next((found[1] for found in read if len(found) == 2), None)


class SegmentedChain:
    """A chain's folder in a store of objects, opened to continue the chain.

    Segments after a damaged or a missing one are removed: their draws are made again.
    """

    def __init__(self, folder: Address) -> None:
        folder.check_seen()
        folder.mkdir()
        self.folder = folder
        self._whole, others, _ = _read(folder)
        folder.remove(others)
        self.count, self.state = 0, None
        if self._whole:
            _, last = self._whole[-1]
            self.count, self.state = last.number, last.data

    def replay(self) -> Iterator[Iteration]:
        """Yield the iterations before the state."""
        for draws, _ in self._whole:
            yield from iterations_of(from_bytes(draws.data))

    def write(self, iterations: Sequence[Iteration], state: Any, seconds: float) -> None:
        """Write a segment with these iterations and the state after them; `seconds` is the total time so far."""
        after = self.count + len(iterations)
        data = blocks.framed(to_bytes(columns(iterations)), self.count)
        data += blocks.framed(to_bytes((seconds, state)), after)
        path = self.folder / _name(self.count)
        try:
            path.create(data)
        except FileExistsError:
            # It is this one if the answer to a first attempt was lost.
            if path.read_bytes() != data:
                raise StoreError(
                    f"another process has written {path}; wait until it has ended, or end it, and resume"
                ) from None
        self.count = after

    def close(self) -> None:
        """Do nothing: no file is open."""
