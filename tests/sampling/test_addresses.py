"""Runs stored by an address: the draws of a run in a folder, whatever is cut off, missing, changed or refused."""

from __future__ import annotations

import errno
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import pmgp
from pmgp.interface.sampling import StoredRun, delete, segments
from pmgp.interface.sampling.address import Address, StoreError, folder_of
from pmgp.interface.sampling.chains import chain_folder, recovered, seconds_spent
from pmgp.interface.sampling.segments import SegmentedChain
from pmgp.interface.sampling.stored_cells import StoredCells
from tests.sampling.runs import QUIET, SETTINGS, assert_same_run, kill_at, killed, resumed
from tests.sampling.test_stores import assert_replays, iteration
from tests.sampling.workers import pool

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture
def memory():
    """An empty folder in the memory of this process."""
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]
    return "memory://bucket/run"


@pytest.fixture(scope="module")
def alone(sample):
    return sample()


@pytest.fixture
def chain(memory):
    """Nine iterations in three segments."""
    chain = SegmentedChain(folder_of(memory))
    for first in (0, 3, 6):
        chain.write([iteration(number) for number in range(first, first + 3)], {"after": first + 3}, 0.5)
    return chain.folder


def names(folder: Address) -> list[str]:
    return [path.name for path in folder.iterdir()]


def assert_holds(folder: Address, count: int) -> SegmentedChain:
    """The chain can be opened after so many iterations, all of them are there, and no other segments."""
    chain = SegmentedChain(folder)
    assert_replays(chain, count)
    assert names(folder) == [f"segment-{first:012d}" for first in range(0, count, 3)]
    return chain


def test_draws_are_those_of_a_run_without_a_store(sample, alone, probit_model, step, memory, monkeypatch):
    """Nothing is unpickled from the store."""
    assert_same_run(sample(out=memory, flush_every=0.0), alone)
    folder = chain_folder(folder_of(memory), 1)
    assert len(names(folder)) == SETTINGS["tune"] + SETTINGS["draws"]
    assert seconds_spent(folder) > 0.0
    with monkeypatch.context() as patch:
        for name in ("load", "loads", "Unpickler", "_Unpickler"):
            patch.setattr(pickle, name, None)
        assert len(list(SegmentedChain(folder).replay())) == SETTINGS["tune"] + SETTINGS["draws"]
        assert StoredRun.load(folder_of(memory)).start()[1] is None
    assert_same_run(resumed(memory, probit_model, step=step), alone)


def test_a_killed_run_goes_on(sample, alone, probit_model, step, tmp_path):
    """The second chain is killed while it tunes, in a store that other processes see."""
    out = f"local://{tmp_path}/run"
    killed(partial(sample, out=out, callback=kill_at(25, 1), flush_every=0.0))
    assert [recovered(chain_folder(folder_of(out), number)).iterations for number in (0, 1)] == [120, 26]
    assert_same_run(resumed(out, probit_model, step=step), alone)


def test_workers_write_by_an_address(sample, alone, tmp_path):
    assert_same_run(sample(executor=partial(pool, 1), out=f"local://{tmp_path}/run"), alone)


def test_threads_write_into_memory(sample, alone, memory):
    with ThreadPoolExecutor(1) as threads:
        assert_same_run(sample(executor=threads, out=memory), alone)
    assert "workers" not in names(folder_of(memory))


def test_what_was_written_is_replayed(chain):
    assert recovered(chain).damage is None
    assert_holds(chain, 9)


@pytest.mark.parametrize("length", [0, 10, 200, -1])
def test_a_segment_that_was_cut_off_is_named_and_made_again(chain, length):
    last = chain / "segment-000000000006"
    whole = last.read_bytes()
    last.write_bytes(whole[:length])
    found = recovered(chain)
    assert (found.iterations, found.damage) == (6, "its segment 'segment-000000000006' is damaged")
    opened = assert_holds(chain, 6)
    opened.write([iteration(number) for number in (6, 7, 8)], {"after": 9}, 0.5)
    assert last.read_bytes() == whole
    assert_holds(chain, 9)


def test_a_missing_segment_is_named_and_those_after_it_are_made_again(chain):
    (chain / "segment-000000000003").unlink()
    found = recovered(chain)
    assert (found.iterations, found.damage) == (3, "its segment 'segment-000000000003' is missing")
    assert_holds(chain, 3)


@pytest.mark.parametrize("place", [0, 10, 40, -1])
def test_a_changed_byte_is_named(chain, place):
    segment = chain / "segment-000000000003"
    data = bytearray(segment.read_bytes())
    data[place] ^= 1
    segment.write_bytes(bytes(data))
    assert recovered(chain).damage == "its segment 'segment-000000000003' is damaged"
    assert_holds(chain, 3)


def test_the_segment_of_another_place_is_not_taken(chain):
    (chain / "segment-000000000003").write_bytes((chain / "segment-000000000000").read_bytes())
    assert recovered(chain).damage == "its segment 'segment-000000000003' is damaged"


def test_a_chain_has_one_writer(chain):
    first, second = SegmentedChain(chain), SegmentedChain(chain)
    first.write([iteration(9)], {"after": 10}, 0.5)
    with pytest.raises(StoreError, match=r"another process has written memory://.*segment-000000000009"):
        second.write([iteration(9), iteration(10)], {"after": 11}, 0.5)
    assert recovered(chain).iterations == 10


def test_a_write_whose_answer_was_lost_counts(chain):
    first, again = SegmentedChain(chain), SegmentedChain(chain)
    for one in (first, again):
        one.write([iteration(9)], {"after": 10}, 0.5)
    assert again.count == 10


def test_a_store_that_forgets_a_segment_is_noticed(sample, alone, probit_model, step, memory, monkeypatch):
    """A chain that was taken up to the last segment would lack draws."""
    create = Address.create

    def forgets(path, data):
        if path.name != "segment-000000000003":
            create(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(Address, "create", forgets)
        sample(out=memory, flush_every=0.0)
    found = recovered(chain_folder(folder_of(memory), 0))
    assert (found.iterations, found.damage) == (3, "its segment 'segment-000000000003' is missing")
    assert_same_run(resumed(memory, probit_model, step=step), alone)


def test_a_number_that_is_given_twice_is_noticed(memory, monkeypatch):
    """The twin names all segments alike; where a store lets it, each replaces the one before."""
    chain = SegmentedChain(folder_of(memory))
    with monkeypatch.context() as patch:
        patch.setattr(segments, "_name", lambda before: "segment-000000000000")
        chain.write([iteration(0)], {"after": 1}, 0.5)
        with pytest.raises(StoreError, match="another process has written"):
            chain.write([iteration(1)], {"after": 2}, 0.5)
        patch.setattr(Address, "create", Address.write_bytes)
        chain.write([iteration(1)], {"after": 2}, 0.5)
    assert recovered(chain.folder) == (0, 0, None, "its segment 'segment-000000000000' is damaged")


def test_a_store_that_replaces_what_is_to_be_created_is_refused(sample, memory, monkeypatch):
    monkeypatch.setattr(Address, "create", Address.write_bytes)
    with pytest.raises(StoreError, match="the store of memory://bucket/run replaces an object"):
        sample(out=memory)
    assert names(folder_of(memory)) == []


def test_processes_that_do_not_see_the_store_are_refused(sample, memory):
    with pytest.raises(StoreError, match=r"in the memory of one process.*cores=1"):
        sample(out=memory, cores=2)
    assert names(folder_of(memory)) == []


def test_workers_that_do_not_see_the_store_are_named(sample, memory):
    with pytest.raises(StoreError, match="does not find this run in memory://bucket/run: set out= to"):
        sample(out=memory, executor=pool)


def test_a_forked_process_has_only_a_copy_of_the_store(chain):
    forked = Address(chain.url, process=1)
    with pytest.raises(StoreError, match="in the memory of one process"):
        SegmentedChain(forked)


class Limited(MemoryFileSystem):
    """A store that other users may read, and that takes so many objects."""

    protocol = "limited"
    store: ClassVar = {}
    pseudo_dirs: ClassVar = [""]
    room = 0
    error: Exception = OSError(errno.EDQUOT, "Disk quota exceeded")

    def open(self, path, mode="rb", **options):
        if mode != "rb":
            if not type(self).room:
                raise self.error
            type(self).room -= 1
        return super().open(path, mode, **options)


@pytest.fixture
def limited(monkeypatch):
    fsspec.register_implementation("limited", Limited, clobber=True)
    monkeypatch.setattr(Limited, "store", {})
    monkeypatch.setattr(Limited, "pseudo_dirs", [""])
    return partial(monkeypatch.setattr, Limited)


def test_a_store_without_room_is_named_and_keeps_what_it_has(sample, alone, probit_model, step, limited):
    limited("room", 20)
    words = r"limited://run/chain-0/segment-\d+ could not be written, OSError: .*quota.*pmgp\.resume"
    with pytest.raises(StoreError, match=words):
        sample(out="limited://run", flush_every=0.0)
    assert recovered(chain_folder(folder_of("limited://run"), 0)).iterations > 10
    limited("room", 1000)
    assert_same_run(resumed("limited://run", probit_model, step=step), alone)


def test_a_worker_without_room_is_named(sample, limited):
    limited("room", 20)
    with (
        ThreadPoolExecutor(1) as threads,
        pytest.raises(StoreError, match=r"chain 0 could not be stored by the process on .* quota.*pmgp\.resume"),
    ):
        sample(out="limited://run", flush_every=0.0, executor=threads)


def test_a_store_that_may_not_be_written_is_named(sample, limited):
    limited("error", PermissionError("Access Denied"))
    with pytest.raises(OSError, match=r"limited://run/probe-.* could not be written, PermissionError: Access Denied"):
        sample(out="limited://run")


def test_a_store_that_fsspec_does_not_know_is_named(sample):
    with pytest.raises(OSError, match=r"nowhere://run could not be .*Protocol not known: nowhere"):
        sample(out="nowhere://run")


def test_cells_are_kept_by_an_address(memory):
    cells = StoredCells({"seed": 1}, memory)
    cells.complete({"one/a": partial(pow, 2, 3)}, None, 60.0, None)
    again = StoredCells({"seed": 1}, memory)
    again.complete({"one/a": partial(pow, 0, 0), "two": partial(pow, 2, 4)}, None, 60.0, None)
    assert again.results == {"one/a": 8, "two": 16}
    with pytest.raises(StoreError, match="with another model, other observations"):
        StoredCells({"seed": 2}, memory).complete({"two": int}, None, 60.0, None)


def test_a_run_is_deleted_and_nothing_else(sample, memory):
    sample(out=memory)
    folder = folder_of(memory)
    (folder / "notes").write_bytes(b"mine")
    (folder / "chain-1" / "notes").write_bytes(b"mine")
    with pytest.raises(StoreError, match="memory://bucket/run is not empty"):
        sample(out=memory)
    delete(folder)
    assert names(folder) == ["chain-1", "notes"]
    assert names(folder / "chain-1") == ["notes"]


def test_an_address_without_a_run_is_named(probit_model, memory):
    with pytest.raises(StoreError, match=r"memory://bucket/run holds no run: run\.json is missing"):
        pmgp.resume(memory, probit_model, **QUIET)


def test_a_file_address_is_a_folder(tmp_path):
    assert folder_of(f"file://{tmp_path}/a%20run") == tmp_path / "a run"
