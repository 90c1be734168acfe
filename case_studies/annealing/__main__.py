"""Run the study: ``python -m case_studies.annealing --scale quick``; a run that is stopped can be resumed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pandas as pd

from case_studies.annealing import results, study
from case_studies.annealing.study import SCALES, Block, Chain, Scale
from case_studies.tools.command_line import Kinds, to_run
from case_studies.tools.grid import Grid
from case_studies.tools.table import Table

KINDS = Kinds(
    {"table": Chain, "figure": Block},
    {
        "data": str,
        "kernel": str,
        "q": str,
        "estimator": str,
        "n_imp": int,
        "chain": int,
        "n": int,
    },
    results.FOLDER,
)


def rows(scale: Scale, chosen: Iterable[Chain | Block], grid: Grid) -> Iterator[tuple[Chain | Block, pd.DataFrame]]:
    """Units and their lines of the tables, as they are finished."""
    for unit in chosen:
        yield unit, results.rows(scale, unit, study.run(scale, grid, unit))


def write(finished: Iterable[tuple[Chain | Block, pd.DataFrame]], places: dict[type, Table]) -> None:
    """Merge lines into the tables and report each unit."""
    for unit, lines in finished:
        places[type(unit)].merge(lines)
        measure = "acceptance" if isinstance(unit, Chain) else "r"
        print(f"{unit.name:50s} {measure} {lines[measure].median():7.4f}  {lines['seconds'].sum():7.1f} s", flush=True)


def main() -> None:
    """Run what the command line asks for."""
    given = KINDS.arguments("annealing", __doc__, SCALES)
    scale = SCALES[given.scale]
    places = results.tables(given.out, scale.name)
    chosen = KINDS.asked_for(given, study.units(scale))
    new = to_run(given, chosen, lambda chosen: results.missing(scale, chosen, places))
    write(rows(scale, new, Grid(given.runs / scale.name, scale.settings())), places)


if __name__ == "__main__":
    main()
