"""Run the study: ``python -m case_studies.orthants --scale quick``; a run that is stopped can be resumed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pandas as pd

from case_studies.orthants import classes, results, study
from case_studies.orthants.study import SCALES, Bias, Block, Extinction, Scale, Setting, Unit
from case_studies.tools.command_line import Kinds, to_run
from case_studies.tools.grid import Grid
from case_studies.tools.table import Table

KINDS = Kinds(
    {"runs": Block, "classes": Setting, "bias": Bias, "extinction": Extinction},
    {"part": str, "which": int, "method": str, "draws": int, "problem": int, "n": int},
    results.FOLDER,
)


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


def main() -> None:
    """Run what the command line asks for."""
    given = KINDS.arguments("orthants", __doc__, SCALES)
    scale = SCALES[given.scale]
    every = [unit for unit in study.units(scale) if not isinstance(unit, Setting) or classes.available(unit.problem)]
    places = results.tables(given.out, scale.name)
    new = to_run(given, KINDS.asked_for(given, every), lambda chosen: results.missing(scale, chosen, places))
    write(rows(scale, new, Grid(given.runs / scale.name, scale.settings())), places)


if __name__ == "__main__":
    main()
