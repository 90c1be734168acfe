"""The console output of a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from pmgp.app.report import tables

if TYPE_CHECKING:
    from rich.console import Console

    from pmgp.app.outcome import Outcome
    from pmgp.app.tasks import Problem


def print_problem(console: Console, problem: Problem) -> None:
    """Print the model that will be sampled, and notices about the data."""
    _title(console, f"Gaussian process {problem.task.title}, {problem.settings.kernel} covariance")
    _pairs(console, tables.data_rows(problem))
    _notes(console, problem.notices)


def print_outcome(console: Console, outcome: Outcome) -> None:
    """Print the posterior of the hyper-parameters, the cost of sampling, and the scores."""
    _title(console, "Hyper-parameters")
    # The table is not wrapped, because one that is cut to the width of a terminal cannot be read.
    console.print(Text(str(tables.summary(outcome))), soft_wrap=True)
    _title(console, "Cost")
    _pairs(console, tables.efficiency_rows(outcome))
    if outcome.drawn is None:
        console.print(Text(outcome.verdict.figures), soft_wrap=True)
    if outcome.scores.model:
        _title(console, f"Predictions of {outcome.problem.test.n} test points")
        _pairs(console, tables.score_rows(outcome))
    _notes(console, tables.sampling_notices(outcome))


def _notes(console: Console, notices: Iterable[str]) -> None:
    for notice in notices:
        console.print(Text.assemble(("note: ", "yellow"), notice), soft_wrap=True)


def _title(console: Console, text: str) -> None:
    console.print()
    console.print(Text(text, style="bold"))


def _pairs(console: Console, rows: list[tuple[str, str]]) -> None:
    """Print names and values side by side, as Text, because names such as x[1] look like markup."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    for name, value in rows:
        grid.add_row(Text(name, style="dim"), Text(value))
    console.print(grid)
