"""Units of a study on workers: kept here as they end, the finished ones also after a failure."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from case_studies.tools.command_line import parser
from case_studies.tools.spread import spread, workers_of


class Square(NamedTuple):
    number: int

    @property
    def name(self) -> str:
        return f"square-{self.number}"


UNITS = [Square(number) for number in range(4)]


def squared(unit):
    if unit.number == 2:
        raise RuntimeError("no two")
    return unit.number**2


@pytest.fixture(params=[None, 2])
def executor(request):
    if request.param is None:
        yield None
    else:
        with ThreadPoolExecutor(request.param) as made:
            yield made


def test_each_result_is_kept_with_its_unit(executor, capsys):
    kept = {}
    spread([UNITS[3], UNITS[0], UNITS[1]], squared, kept.__setitem__, executor)
    assert kept == {UNITS[3]: 9, UNITS[0]: 0, UNITS[1]: 1}
    lines = [line for line in capsys.readouterr().out.splitlines() if line]
    assert sorted(line.split()[0] for line in lines) == (
        [] if executor is None else ["square-0", "square-1", "square-3"]
    )
    assert all(line.endswith(" s") for line in lines)


def test_units_that_ended_before_a_failure_are_kept(executor):
    kept = {}
    with pytest.raises(RuntimeError, match="no two"):
        spread(UNITS, squared, kept.__setitem__, executor)
    assert kept[UNITS[0]] == 0
    assert UNITS[2] not in kept


def test_a_unit_has_one_core():
    def threads(_=None):
        return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

    found = {}
    with threadpool_limits(limits=2, user_api="blas"):
        spread(UNITS[:1], threads, found.__setitem__)
    assert found == {UNITS[0]: {1}}


def test_the_command_line_names_workers():
    line = parser("study", "A study.", ["quick"])
    assert workers_of(line.parse_args([])) is None
    assert workers_of(line.parse_args(["--workers", "3"]))()._max_workers == 3
    assert line.parse_args(["--runs", "here"]).runs.is_absolute()
    with pytest.raises(SystemExit):
        line.parse_args(["--workers", "3", "--cluster", "tcp://127.0.0.1:8786"])
