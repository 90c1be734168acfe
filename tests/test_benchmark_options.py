"""Which data sets `make bench` takes: those of `--data`, in every table that has them; others are refused."""

from __future__ import annotations

import re
from functools import partial

import pytest

from benchmarks import __main__ as command
from benchmarks import efficiency, evidence, gradient, iteration, peers, scheme_iterations, schemes

MODULES = {
    "iteration": iteration,
    "evidence": evidence,
    "gradient": gradient,
    "efficiency": efficiency,
    "scheme-iterations": scheme_iterations,
    "schemes": schemes,
    "peers": peers,
}
"""The tables that have data sets."""
WHOLE = "the whole table"


@pytest.fixture
def measured(monkeypatch):
    """Data sets that each table measured, in order; nothing is loaded or timed."""
    seen: dict[str, list[str]] = {name: [] for name in command.TABLES}

    def spy(table, row):
        def measure(problem, *_, **__):
            seen[table].append(problem.name)
            return row({"data": problem.name})

        return measure

    def without_data(name, _names, _arguments):
        seen[name].append(WHOLE)
        yield {"model": "LRG"}

    for module in (command, evidence, gradient, peers, scheme_iterations, schemes):
        monkeypatch.setattr(module, "load", lambda name: schemes.Problem(name, None, None, "rbf"))
    for name, module in MODULES.items():
        monkeypatch.setattr(module, "measure", spy(name, (lambda row: [row]) if name == "evidence" else dict))
    for name in set(command.TABLES) - set(MODULES):
        tables = tuple(table._replace(rows=partial(without_data, name)) for table in command.TABLES[name])
        monkeypatch.setitem(command.TABLES, name, tables)
    return seen


def test_every_table_keeps_the_named_sets_only(measured):
    command.main(["--data", "synthetic-100", "synthetic-700", "--without-nuts"])
    assert {name: set(sets) for name, sets in measured.items() if sets} == {
        "iteration": {"synthetic-100", "synthetic-700"},
        "evidence": {"synthetic-700"},
        "gradient": {"synthetic-100", "synthetic-700"},
        "efficiency": {"synthetic-100"},
        "scheme-iterations": {"synthetic-100"},
        "schemes": {"synthetic-100"},
    }


def test_without_names_every_table_has_all_its_sets(measured):
    command.main([])
    for name, tables in command.TABLES.items():
        expected = list(tables[0].data) if name in MODULES else [WHOLE]
        assert list(dict.fromkeys(measured[name])) == ([] if name in command.ALONE else expected)


def test_what_takes_hours_is_measured_when_named(measured):
    command.main(["--only", "peers"])
    assert list(dict.fromkeys(measured["peers"])) == list(peers.PROBLEMS)
    assert not any(sets for name, sets in measured.items() if name != "peers")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--data", "crabs", "carbs"], r"no data set carbs; there are synthetic-100, crabs.*, synthetic-400-d10-ard"),
        (["--only", "evidence", "--data", "crabs"], "no data set crabs; there are synthetic-200, synthetic-700, synth"),
        (["--only", "transitions", "--data", "crabs"], "no data set crabs; this table has none"),
    ],
)
def test_an_unknown_name_is_refused_with_those_there_are(measured, capsys, words, message):
    with pytest.raises(SystemExit, match="2"):
        command.main(words)
    assert re.search(message, " ".join(capsys.readouterr().err.split()))
    assert not any(measured.values())
