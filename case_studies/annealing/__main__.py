"""Run the study: ``python -m case_studies.annealing --scale quick``; a run that is stopped can be resumed."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd

from case_studies.annealing import results, study
from case_studies.annealing.study import SCALES, Block, Chain, Scale
from case_studies.tools.command_line import parser, selected
from case_studies.tools.grid import Grid
from case_studies.tools.table import Table

FILTERS: dict[str, type] = {
    "data": str,
    "kernel": str,
    "q": str,
    "estimator": str,
    "n_imp": int,
    "chain": int,
    "n": int,
}
PARTS: dict[str, type] = {"table": Chain, "figure": Block}


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


def arguments() -> Namespace:
    """Command line."""
    line = parser("annealing", __doc__, SCALES, FILTERS)
    line.add_argument("--part", choices=PARTS, help="Table I or Figure 2 only")
    line.add_argument("--out", type=Path, default=results.FOLDER, help="folder of the tables")
    return line.parse_args()


def main() -> None:
    """Run what the command line asks for."""
    given = arguments()
    scale = SCALES[given.scale]
    kinds = (PARTS[given.part],) if given.part else tuple(PARTS.values())
    every = [unit for unit in study.units(scale) if isinstance(unit, kinds)]
    chosen = selected(every, {name: getattr(given, name) for name in FILTERS})
    places = results.tables(given.out, scale.name)
    new = chosen if given.again else results.missing(scale, chosen, places)
    print(f"{len(new)} chains and blocks to run; {len(chosen) - len(new)} of {len(chosen)} are there", flush=True)
    write(rows(scale, new, Grid(given.runs / scale.name, scale.settings())), places)


if __name__ == "__main__":
    main()
