"""Run the study: ``python -m case_studies.orthants --scale quick``; a run that is stopped can be resumed."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd

from case_studies.orthants import classes, results, study
from case_studies.orthants.study import SCALES, Bias, Block, Extinction, Scale, Setting, Unit
from case_studies.tools.command_line import parser, selected
from case_studies.tools.grid import Grid
from case_studies.tools.table import Table

FILTERS: dict[str, type] = {"part": str, "which": int, "method": str, "draws": int, "problem": int, "n": int}
KINDS: dict[str, type] = {"runs": Block, "classes": Setting, "bias": Bias, "extinction": Extinction}


def rows(scale: Scale, chosen: Iterable[Unit], grid: Grid) -> Iterator[tuple[Unit, pd.DataFrame]]:
    """Units and their lines of the tables, as they are finished."""
    for unit in chosen:
        yield unit, results.rows(scale, unit, study.run(scale, grid, unit))


def write(finished: Iterable[tuple[Unit, pd.DataFrame]], places: dict[type, Table]) -> None:
    """Merge lines into the tables and report each unit."""
    for unit, lines in finished:
        places[type(unit)].merge(lines)
        seconds = f"{lines['seconds'].sum():7.1f} s" if "seconds" in lines else ""
        print(f"{unit.name:50s} {len(lines):3d} lines {seconds}", flush=True)


def arguments() -> Namespace:
    """Command line."""
    line = parser("orthants", __doc__, SCALES, FILTERS)
    line.add_argument("--kind", choices=KINDS, help="one of the tables only")
    line.add_argument("--out", type=Path, default=results.FOLDER, help="folder of the tables")
    return line.parse_args()


def main() -> None:
    """Run what the command line asks for."""
    given = arguments()
    scale = SCALES[given.scale]
    every = [unit for unit in study.units(scale) if not given.kind or isinstance(unit, KINDS[given.kind])]
    every = [unit for unit in every if not isinstance(unit, Setting) or classes.available(unit.problem)]
    chosen = selected(every, {name: getattr(given, name) for name in FILTERS})
    places = results.tables(given.out, scale.name)
    new = chosen if given.again else results.missing(scale, chosen, places)
    print(f"{len(new)} units to run; {len(chosen) - len(new)} of {len(chosen)} are there", flush=True)
    write(rows(scale, new, Grid(given.runs / scale.name, scale.settings())), places)


if __name__ == "__main__":
    main()
