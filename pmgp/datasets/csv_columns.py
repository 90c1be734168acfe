"""Choose the label, the exposure and the features among the columns of a table."""

from __future__ import annotations

import csv
import difflib
import io
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from pmgp.datasets.csv_table import few
from pmgp.datasets.dataset import DatasetError

N_LISTED = 30
"""Number of columns that an error message lists."""


class Columns(NamedTuple):
    """The names of the columns that are used; `in_time` says that the one feature is time."""

    label: str
    features: list[str]
    exposure: str | None
    in_time: bool = False


def choose_columns(
    columns: Sequence[str],
    label: str | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    exposure: str | None = None,
    time: str | None = None,
) -> Columns:
    """Divide the columns of a table into label, features and exposure.

    By default the label is the last column, and all others are features, in the order of the table; a column of times
    is the only one. A name that is unknown or used twice is refused, and so is a choice that leaves no feature.
    """
    if features and drop:
        raise DatasetError("--features and --drop exclude each other: name the columns to keep, or those to leave out")
    if features and time is not None:
        raise DatasetError("--features and --time exclude each other: time is the only feature")
    named = {"--label": [label], "--exposure": [exposure], "--time": [time]}
    chosen = {"--features": list(features or []), "--drop": list(drop)}
    for option, given in named.items():
        check_known(option, given, columns)
    for option, names in chosen.items():
        check_known(option, names, columns)
    chosen_label = columns[-1] if label is None else label
    special = {chosen_label: "the label" if label else "the label (the last column; name another one with --label)"}
    if exposure is not None:
        if exposure == chosen_label:
            raise DatasetError(f"--exposure names {exposure!r}, which is {special[chosen_label]}")
        special[exposure] = "the exposure"
    if time is not None:
        if time in special:
            raise DatasetError(f"--time names {time!r}, which is {special[time]}")
        if time in drop:
            raise DatasetError(f"--drop names {time!r}, which is the column of times")
    for option, names in chosen.items():
        for name in names:
            if name in special:
                raise DatasetError(f"{option} names {name!r}, which is {special[name]}")
    if time is not None:
        return Columns(chosen_label, [time], exposure, in_time=True)
    kept = features or [name for name in columns if name not in drop]
    found = [name for name in columns if name in kept and name not in special]
    if not found:
        raise DatasetError(f"no feature is left besides {few(list(special))}")
    return Columns(chosen_label, found, exposure)


def check_known(option: str, names: Sequence[str | None], columns: Sequence[str]) -> None:
    """Refuse names, given by an option of the command line, that the table does not have."""
    for name in names:
        if name is not None and name not in columns:
            listed = ", ".join(columns[:N_LISTED]) + (", ..." if len(columns) > N_LISTED else "")
            raise DatasetError(
                f"{option}: there is no column {name!r}{nearest(name, columns)}; the columns are {listed}"
            )


def nearest(name: str, known: Sequence[str]) -> str:
    """Return a remark on the closest of the known names, empty if none is close."""
    close = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def split_names(text: str) -> tuple[str, ...]:
    """Read names separated by commas, as in a CSV file: a name that contains a comma is in double quotes."""
    return tuple(name.strip() for name in next(csv.reader([text], skipinitialspace=True), []) if name.strip())


def join_names(names: Sequence[str]) -> str:
    """Write names so that :func:`split_names` reads them."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def in_shell(names: Sequence[str]) -> str:
    """Write names as an argument for a shell."""
    return shlex.quote(join_names(names))
