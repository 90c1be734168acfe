"""The tests take no longer than they may: all of them, one file, and a file beside what it took before."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.durations import LARGEST, STORED, TOTAL, over_budget, stored
from tests.selection import FOLDER, files


@pytest.fixture(scope="module")
def figures() -> dict[str, float]:
    """Return the stored figures of the files that exist."""
    there = {path.relative_to(FOLDER.parent).as_posix() for path in files()}
    return {path: seconds for path, seconds in stored().items() if path in there}


def test_all_files_together_keep_to_their_budget(figures):
    assert sum(figures.values()) < TOTAL


def test_no_file_takes_long(figures):
    assert {path: seconds for path, seconds in figures.items() if seconds > LARGEST} == {}


EXPECTED = {"a": 40.0, "b": 40.0, "c": 1.0}


@pytest.mark.parametrize("pace", [0.5, 1.0, 3.0])
def test_a_slow_machine_exceeds_no_budget(pace):
    assert over_budget({path: pace * seconds for path, seconds in EXPECTED.items()}, EXPECTED) == {}


@pytest.mark.parametrize("pace", [1.0, 2.0])
def test_a_file_that_became_slow_does(pace):
    measured = {path: pace * seconds for path, seconds in EXPECTED.items()} | {"c": pace * 40.0}
    assert set(over_budget(measured, EXPECTED)) == {"c"}


def test_a_file_without_a_figure_may_take_no_more_than_any_other():
    assert over_budget(EXPECTED | {"new": LARGEST - 1.0}, EXPECTED) == {}
    assert set(over_budget(EXPECTED | {"new": LARGEST + 1.0}, EXPECTED)) == {"new"}


def test_part_of_the_files_may_be_run():
    assert over_budget({"a": 2.0, "b": 1.0}, EXPECTED) == {}


SAMPLE = """
from tests.durations import Recorder

def pytest_configure(config):
    config.pluginmanager.register(Recorder())

def pytest_sessionstart(session):
    import tests.durations
    tests.durations.LARGEST = 1.0
"""
LONG = """
import subprocess, sys, time

WORK = "from time import process_time as now\\nend = now() + {}\\nwhile now() < end: pass"

def test_it():
    subprocess.run([sys.executable, "-c", WORK.format({seconds})], check=True)
"""


def run_in(folder: Path) -> str:
    """Return what pytest prints; the options of the run that this is part of do not reach it."""
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "-c", "/dev/null", str(folder)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    done = subprocess.run(command, cwd=STORED.parent.parent, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_a_slow_file_is_named_and_fails_no_run(tmp_path):
    """The seconds of a process that a test begins count."""
    (tmp_path / "conftest.py").write_text(SAMPLE)
    (tmp_path / "test_long.py").write_text(LONG.replace("{seconds}", "1.5"))
    (tmp_path / "test_short.py").write_text(LONG.replace("{seconds}", "0.0"))
    for name in "abcdef":
        (tmp_path / f"test_{name}.py").write_text("def test_it(): ...\n")
    assert re.findall(r"(\w+)\.py took", run_in(tmp_path)) == ["test_long"]


SHARING = """
import json
from tests.durations import Recorder

recorder = Recorder()

def pytest_configure(config):
    config.pluginmanager.register(recorder)

def pytest_sessionfinish():
    print("\\nseconds:", json.dumps({name.rpartition("::")[2]: taken for name, taken in recorder.tests.items()}))
"""
SHARED = """
import pytest
from time import process_time as now

@pytest.fixture(scope="module")
def long():
    end = now() + 0.8
    while now() < end: pass

def test_first(long): ...

def test_second(long): ...

def test_other(): ...
"""


def test_tests_that_share_a_fixture_share_its_seconds(tmp_path):
    """Else the first of them alone would be slow, and where it is left out, the next."""
    (tmp_path / "conftest.py").write_text(SHARING)
    (tmp_path / "test_shared.py").write_text(SHARED)
    seconds = json.loads(re.findall("^seconds: (.*)$", run_in(tmp_path), re.MULTILINE)[0])
    assert seconds == pytest.approx({"test_first": 0.4, "test_second": 0.4, "test_other": 0.0}, abs=0.15)
