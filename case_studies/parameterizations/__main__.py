"""Run the study: ``python -m case_studies.parameterizations --scale quick``; a run that is stopped can be resumed."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from itertools import groupby
from pathlib import Path

import pandas as pd

from case_studies.parameterizations import results, study
from case_studies.parameterizations.study import SCALES, Cell, Scale
from case_studies.tools import simulation
from case_studies.tools.command_line import parser, selected
from case_studies.tools.grid import Grid
from case_studies.tools.rows import row, settings
from case_studies.tools.table import Table

FILTERS: dict[str, type] = {
    "table": int,
    "data": str,
    "n": int,
    "d": int,
    "dataset": int,
    "model": str,
    "method": str,
    "proposal": str,
}


def run(scale: Scale, chosen: list[Cell], grid: Grid, table: Table, processes: int = 1) -> None:
    """Run the cells chain by chain; each row is written when its chains are there."""
    for line in rows(scale, chosen, grid, processes):
        table.merge(pd.DataFrame([line]))
        _report(scale, line)


def rows(scale: Scale, chosen: list[Cell], grid: Grid, processes: int = 1) -> Iterator[dict]:
    """Lines of the table, as they are finished."""
    finished = grid.run(study.units(scale, chosen), partial(study.run_unit, scale), processes)
    for cell, chains in groupby(finished, key=lambda one: one.cell.cell):
        yield row(scale, cell, [one.result for one in chains])


def _report(scale: Scale, line: dict) -> None:
    name, seconds = Cell(*[line[field] for field in Cell._fields]).name, line["seconds"] * scale.chains
    rhat = line[f"rhat_{scale.checkpoints[-1]}"]
    print(f"{name:42s} ESS {line['ess_mean']:7.1f}  R-hat {rhat:7.4f}  {seconds:6.0f} s of sampling", flush=True)


def arguments() -> Namespace:
    """Command line."""
    line = parser("parameterizations", __doc__, SCALES, FILTERS)
    line.add_argument("--processes", type=int, default=1, help="chains run at a time, one core each")
    line.add_argument("--out", type=Path, help="the table (default: the one in the repository)")
    return line.parse_args()


def main() -> None:
    """Run what the command line asks for."""
    given = arguments()
    scale = SCALES[given.scale]
    chosen = selected(study.cells(scale), {name: getattr(given, name) for name in FILTERS})
    table = results.table_of(given.out or results.FOLDER / f"{scale.name}.csv")
    new = chosen if given.again else table.missing(chosen, settings(scale))
    print(f"{len(new)} cells to run; {len(chosen) - len(new)} of {len(chosen)} are in {table.path.name}", flush=True)
    needed = scale.settings() | simulation.SETTINGS | study.SETTINGS
    run(scale, new, Grid(given.runs / scale.name, needed), table, given.processes)


if __name__ == "__main__":
    main()
