"""Blocks, and chains made of them: whatever is cut off or changed, the last whole state is found."""

from __future__ import annotations

import os
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from pmgp.interface.sampling import blocks, stored_chain
from pmgp.interface.sampling.stored_chain import Iteration, StoredChain, StoreError, recovered


def iteration(number: int) -> Iteration:
    point = {"f": np.arange(3.0) + number, "theta": np.array(0.1 * number)}
    return Iteration(point, [{"accepted": number % 2 == 0, "count": number}, {"rate": 0.5, "warning": None}])


@pytest.fixture
def chain(tmp_path):
    """Nine iterations in three blocks, each with a state."""
    chain = StoredChain(tmp_path / "chain")
    for first in (0, 3, 6):
        chain.write([iteration(number) for number in range(first, first + 3)], {"after": first + 3}, 0.5)
    chain.close()
    return chain.folder


def assert_holds(folder, count: int):
    """The chain can be opened after so many iterations, and all of them are there."""
    chain = StoredChain(folder)
    assert_replays(chain, count)
    chain.close()


def assert_replays(chain, count: int):
    assert chain.count == count
    replayed = list(chain.replay())
    assert len(replayed) == count
    for number, found in enumerate(replayed):
        assert_array_equal(found.point["f"], np.arange(3.0) + number)
        assert found.point["theta"].shape == ()
        assert found.stats == [{"accepted": number % 2 == 0, "count": number}, {"rate": 0.5}]


def test_what_was_written_is_replayed(chain):
    assert recovered(chain).damage is None
    assert_holds(chain, 9)


def test_iterations_of_other_shapes_may_follow_each_other(tmp_path):
    values = [np.zeros(2), np.ones(2), np.ones(3), np.zeros(2)]
    chain = StoredChain(tmp_path)
    chain.write([Iteration({"x": value}, [{}]) for value in values], None, 0.0)
    for value, found in zip(values, chain.replay(), strict=True):
        assert_array_equal(found.point["x"], value)
    chain.close()


def test_blocks_end_where_one_was_cut_off(tmp_path):
    path = tmp_path / "blocks"
    with path.open("wb") as file:
        ends = [blocks.append(file, bytes([number]) * 5, number) for number in range(3)]
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert [block.end for block in blocks.blocks_of(path)] == [end for end in ends if end <= length]


def test_blocks_end_where_a_byte_has_changed(tmp_path):
    path = tmp_path / "blocks"
    with path.open("wb") as file:
        ends = [blocks.append(file, b"words", number) for number in range(2)]
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert [block.end for block in blocks.blocks_of(path)] == ([] if place < ends[0] else ends[:1])


class Killed(BaseException):
    pass


@pytest.mark.parametrize("stage", range(4))
def test_a_write_may_end_at_any_stage(chain, monkeypatch, stage):
    """After the draws are on the disk, after the new state is, and between the two renamings."""
    left = iter(range(stage))

    def until_killed(function):
        def stopped(*arguments):
            if next(left, None) is None:
                raise Killed
            return function(*arguments)

        return stopped

    opened = StoredChain(chain)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", until_killed(os.fsync))
        patch.setattr("pathlib.Path.replace", until_killed(blocks.Path.replace))
        with pytest.raises(Killed):
            opened.write([iteration(9)], {"after": 10}, 0.5)
    opened.close()
    assert recovered(chain).damage is None
    assert_holds(chain, 9)
    # It goes on from there, and the next state does not push the last whole one out.
    opened = StoredChain(chain)
    opened.write([iteration(9)], {"after": 10}, 0.5)
    opened.close()
    assert blocks.read(chain / "state").number == 10
    assert blocks.read(blocks.previous(chain / "state")).number == 9
    assert_holds(chain, 10)


def damage(path, place: int):
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def test_a_damaged_state_gives_way_to_the_one_before(chain):
    damage(chain / "state", -1)
    found = recovered(chain)
    assert (found.iterations, found.damage) == (6, "its file 'state' is damaged")
    assert_holds(chain, 6)
    assert recovered(chain).damage is None


def test_damaged_draws_give_way_to_the_state_before_them(chain):
    damage(chain / "draws", -1)
    found = recovered(chain)
    assert (found.iterations, found.damage) == (6, "its draws are damaged after iteration 6 of 9")
    assert_holds(chain, 6)


def test_draws_damaged_earlier_begin_again(chain):
    damage(chain / "draws", 40)
    found = recovered(chain)
    assert (found.iterations, found.state) == (0, None)
    assert "its draws are damaged after iteration 0" in found.damage
    assert_holds(chain, 0)


def test_two_damaged_states_begin_again(chain):
    damage(chain / "state", 60)
    (chain / "state.previous").write_bytes(b"")
    assert recovered(chain).iterations == 0
    assert_holds(chain, 0)


def test_a_chain_has_one_writer(chain, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(stored_chain, "PATIENCE", 0.1)
    with (chain / "draws").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(StoreError, match="another process writes to"):
            StoredChain(chain)
    assert_holds(chain, 9)


@pytest.fixture
def moments(tmp_path, monkeypatch):
    """All that a reader may find in the folder of a chain while three iterations are written: files by name."""
    folder, found = tmp_path / "written", [{}]

    def seen_after(function):
        def called(*arguments):
            result = function(*arguments)
            found.append({path.name: path.read_bytes() for path in folder.iterdir()})
            return result

        return called

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", seen_after(os.fsync))
        patch.setattr("pathlib.Path.replace", seen_after(blocks.Path.replace))
        written = StoredChain(folder)
        for number in range(3):
            written.write([iteration(number)], {"after": number + 1}, 0.5)
    written.close()
    return found


def test_a_chain_that_is_being_written_is_not_damaged(moments, tmp_path, monkeypatch):
    """Whatever happens between the openings of its files: the files that a reader opens are of three moments."""
    folder, open_file = tmp_path / "read", Path.open
    folder.mkdir()

    def show(moment):
        for name in os.listdir(folder):
            os.unlink(folder / name)
        for name, data in moments[moment].items():
            with open(folder / name, "wb") as file:
                file.write(data)

    for three in combinations_with_replacement(range(len(moments)), 3):
        left = iter(three)

        def opened(path, mode, left=left):
            if (moment := next(left, None)) is not None:
                show(moment)
            return open_file(path, mode)

        show(three[0])
        least = recovered(folder).iterations
        with monkeypatch.context() as patch:
            patch.setattr(Path, "open", opened)
            found = recovered(folder)
        show(three[-1])
        assert (found.damage, least <= found.iterations <= recovered(folder).iterations) == (None, True), three


def test_a_file_that_is_replaced_just_now_is_not_there(tmp_path, monkeypatch):
    """Between a question whether there is one, and its opening, a process that writes may have moved it away."""
    monkeypatch.setattr(Path, "is_file", lambda self: True)
    assert blocks.read(tmp_path / "state") is None
    assert recovered(tmp_path).iterations == 0


def test_a_state_that_its_owner_moves_while_it_is_looked_for_is_found(tmp_path, monkeypatch):
    """Whoever opens a chain whose last state is damaged puts the one before it in its place."""
    folder, open_file = tmp_path / "chain", Path.open
    written = StoredChain(folder)
    for number in range(2):
        written.write([iteration(number)], {"after": number + 1}, 0.5)
    written.close()
    last, before = folder / "state", blocks.previous(folder / "state")
    last.write_bytes(b"damaged")

    def moved(path, *arguments, **settings):
        if path == before and before.exists():
            before.replace(last)
        return open_file(path, *arguments, **settings)

    monkeypatch.setattr("pathlib.Path.open", moved)
    assert recovered(folder).iterations == 1
