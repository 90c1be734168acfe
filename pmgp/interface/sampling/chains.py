"""The folder of one chain of a run, on a disk or in a store of objects."""

from __future__ import annotations

from pathlib import Path
from typing import overload

from pmgp.interface.sampling import blocks, segments, stored_chain
from pmgp.interface.sampling.address import Address, Folder
from pmgp.interface.sampling.plain import from_bytes
from pmgp.interface.sampling.segments import SegmentedChain
from pmgp.interface.sampling.stored_chain import DRAWS, STATE, Recovered, StoredChain


@overload
def chain_folder(run: Path, chain: int) -> Path: ...
@overload
def chain_folder(run: Folder, chain: int) -> Folder: ...
def chain_folder(run: Folder, chain: int) -> Folder:
    """Return the folder of a chain in the folder of its run."""
    return run / f"chain-{chain}"


def opened(folder: Folder) -> StoredChain | SegmentedChain:
    """Open the folder to continue its chain."""
    return SegmentedChain(folder) if isinstance(folder, Address) else StoredChain(folder)


def recovered(folder: Folder) -> Recovered:
    """Return the last whole state of a chain for which all draws are whole."""
    return segments.recovered(folder) if isinstance(folder, Address) else stored_chain.recovered(folder)


def remove(folder: Folder) -> None:
    """Remove the draws and states, but no other files."""
    if isinstance(folder, Address):
        folder.remove(segments.names_in(folder))
        return
    for path in [path for name in (DRAWS, STATE) for path in blocks.written(folder / name)]:
        path.unlink(missing_ok=True)


def iterations_in(folder: Folder) -> int:
    """Return the number of iterations before the last stored state."""
    state = _last_state(folder)
    return 0 if state is None else state.number


def seconds_spent(folder: Folder) -> float:
    """Return the approximate time, in seconds, that the stored draws took."""
    state = _last_state(folder)
    return 0.0 if state is None else from_bytes(state.data)[0]


def _last_state(folder: Folder) -> blocks.Block | None:
    return segments.last_state(folder) if isinstance(folder, Address) else stored_chain.last_state(folder)
