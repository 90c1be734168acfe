"""The quick loop leaves out what took long, and something of every file remains if it can."""

from __future__ import annotations

import pytest

from tests.selection import SEEN, files, mark_slow, renewed


def test_most_tests_are_in_the_quick_loop(request):
    """Those that are left out are exceptions."""
    items = request.config.stash[SEEN]
    if {item.path for item in items} != files():
        pytest.skip("not all tests are collected")
    slow = sum(1 for item in items if item.get_closest_marker("slow"))
    assert 0 < slow < len(items) / 2


def test_listed_cases_and_all_cases_of_listed_tests_are_slow(request, tmp_path, monkeypatch):
    path = tmp_path / "test_sample.py"
    parameters = '@pytest.mark.parametrize("case", ["a", "b"])'
    tests = [f"{parameters}\ndef {name}(case): ...\n" for name in ("test_one", "test_all")]
    path.write_text("\n".join(["import pytest", *tests]))
    items = list(request.session.genitems(pytest.Module.from_parent(request.session, path=path)))
    names = tmp_path / "slow.txt"
    file = items[0].nodeid.rpartition("::")[0]
    names.write_text(f"{file}::test_one[b]\n{file}::test_all\n")
    monkeypatch.setattr("tests.selection.LISTED", names)
    mark_slow(items)
    slow = {item.name for item in items if item.get_closest_marker("slow")}
    assert slow == {"test_one[b]", "test_all[a]", "test_all[b]"}


def test_long_tests_are_listed_and_a_test_of_long_cases_alone_has_one_line():
    seconds = {"x::one[a]": 0.3, "x::one[b]": 0.4, "x::two[a]": 0.3, "x::two[b]": 0.06, "x::three": 0.3}
    assert renewed([], seconds) == ["x::one", "x::three", "x::two[a]"]


def test_on_a_slow_machine_they_may_take_longer():
    assert renewed([], {"x::one": 0.15, "x::two": 0.3}, pace=2.0) == ["x::two"]


def test_what_was_not_measured_stays_and_what_became_fast_goes():
    """The first test of a file may be long because it compiles; it must not come and go with each measurement."""
    before = ["x::fast", "x::first", "x::cases[a]", "y::other"]
    seconds = {"x::fast": 0.01, "x::first": 0.08, "x::new": 0.08}
    assert renewed(before, seconds) == ["x::cases[a]", "x::first", "y::other"]


def test_all_cases_take_the_place_of_some():
    """Those that the quick loop left out were listed before."""
    assert renewed(["x::one[a]"], {"x::one[b]": 0.5, "x::two": 0.08}) == ["x::one"]


@pytest.mark.parametrize(("shortest", "slow"), [(0.9, ["x::one"]), (1.1, ["x::one", "x::two"])])
def test_the_shortest_of_a_file_represents_it_unless_it_takes_more_than_a_second(shortest, slow):
    assert renewed([], {"x::one": 5.0, "x::two": shortest}) == slow
