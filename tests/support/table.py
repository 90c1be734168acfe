"""The tables of docs/support, which the documentation shows: a row a case, with ``yes`` or ``–`` for each column.

What is refused is refused with the words in the last column. ``python -m tests.support`` runs all cases and writes down
what they do; the tests compare.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pymc as pm

from pmgp.interface.model.latent_gaussian import ModelError
from tests.support.features import COLUMNS, FEATURES
from tests.support.models import COVARIANCES, LIKELIHOODS
from tests.support.runs import STEPS, YES, outcome_of_prediction, outcome_of_step, quickly, refusal

__all__ = ["TABLES", "Row", "Table", "differences", "read", "row", "write"]

FOLDER = Path(__file__).parents[2] / "docs" / "support"
NO, WHY, PREDICT = "–", "refused with", "`predict`"

Row = dict[str, str]


class Table(NamedTuple):
    """The heading of the first column, the rows, the other columns, and the outcomes of a row in some of these.

    The columns of a family read the same parts of a model. `alike`: they refuse it with the same words, too.
    """

    heading: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    outcomes: Callable[[str, Sequence[str]], list[str]]
    families: tuple[tuple[str, ...], ...]
    alike: bool


# In an order in which columns that integrate f out and columns that do not, for theta and for f, take turns.
IN_TURNS = ("PM", "AA", "slice", "PM Laplace", "SA", "MH", "PM AIS", "ASIS", "HMC", "SURR", "SMMALA", "KHR")


def _of_models(heading: str, builders: dict[str, Callable[[], pm.Model]]) -> Table:
    def outcomes(name: str, columns: Sequence[str]) -> list[str]:
        model = builders[name]()
        with quickly():
            start = model.initial_point()
        return [
            outcome_of_prediction(model) if column == PREDICT else outcome_of_step(model, column, start)
            for column in columns
        ]

    return Table(heading, tuple(builders), (*STEPS, PREDICT), outcomes, (IN_TURNS, (PREDICT,)), True)


def _outcome_of_feature(name: str, column: str) -> str:
    with quickly():
        try:
            FEATURES[name](COLUMNS[column])
        except ModelError as error:
            return refusal(error)
    return YES


TABLES: dict[str, Table] = {
    "likelihoods": _of_models("likelihood", LIKELIHOODS),
    "covariances": _of_models("covariance", COVARIANCES),
    "features": Table(
        "feature",
        tuple(FEATURES),
        tuple(COLUMNS),
        lambda name, columns: [_outcome_of_feature(name, column) for column in columns],
        (tuple(COLUMNS),),
        False,
    ),
}
PREDICTED = ("probability", "complement", "probabilities", "mean")
"""What `pmgp.predict` may return, after the name of the variable where there are several; all else is a refusal."""


def row(table: Table, name: str, columns: Sequence[str] | None = None) -> Row:
    """Run the cases of a row in some columns, by default in all, and return what is shown of them."""
    columns = table.columns if columns is None else columns
    outcomes = dict(zip(columns, table.outcomes(name, columns), strict=True))
    shown = {column: outcome if _works(outcome) else NO for column, outcome in outcomes.items()}
    reasons = dict.fromkeys(outcome for outcome in outcomes.values() if not _works(outcome))
    return {table.heading: name, **shown, WHY: "; ".join(reasons)}


def _works(outcome: str) -> bool:
    return outcome == YES or all(name.split("_")[-1] in PREDICTED for name in outcome.split(", "))


def differences(table: Table, place: int, expected: Row) -> Row:
    """Return the cells of a row that are not as written down.

    Of the columns of each family that work, one is run, in turns; so is one that refuses, if they do it alike, or all.
    """
    chosen: set[str] = set()
    for family in table.families:
        working, refusing = ([column for column in family if (expected[column] == NO) == no] for no in (False, True))
        chosen |= {working[place % len(working)]} if working else set()
        chosen |= {refusing[place % len(refusing)]} if refusing and table.alike else set(refusing)
    found = row(table, expected[table.heading], [column for column in table.columns if column in chosen])
    return {column: value for column, value in found.items() if value != expected[column]}


def read(name: str) -> list[Row]:
    """The rows of a table as they are written down."""
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(name: str) -> None:
    """Run all cases of a table and write down what they do."""
    table = TABLES[name]
    with (FOLDER / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [table.heading, *table.columns, WHY], lineterminator="\n")
        writer.writeheader()
        writer.writerows(row(table, name) for name in table.rows)
