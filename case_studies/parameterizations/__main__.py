"""Run the study: ``python -m case_studies.parameterizations --scale quick``; a run that is stopped can be resumed."""

from __future__ import annotations

from argparse import Namespace
from functools import partial

import pandas as pd

from case_studies.parameterizations import results, study
from case_studies.parameterizations.study import SCALES, Cell, Scale
from case_studies.tools import simulation
from case_studies.tools.command_line import parser, selected
from case_studies.tools.grid import Grid, Result
from case_studies.tools.rows import row, settings
from case_studies.tools.spread import spread, workers_of
from case_studies.tools.table import Table
from pmgp.interface.executors import Executors

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


def run(scale: Scale, chosen: list[Cell], grid: Grid, table: Table, executor: Executors | None = None) -> None:
    """Run the cells chain by chain; each row is written when its chains are there."""

    def keep(cell: Cell, chains: list[Result]) -> None:
        line = row(scale, cell, chains)
        table.merge(pd.DataFrame([line]))
        _report(scale, line)

    spread(chosen, partial(chains_of, scale, grid), keep, executor)


def chains_of(scale: Scale, grid: Grid, cell: Cell) -> list[Result]:
    """Results of the chains of a cell: as many as the comparison needs, and no more than the scale's number."""
    chains: list[Result] = []
    for one in grid.run(study.units(scale, [cell]), partial(study.run_unit, scale)):
        chains.append(one.result)
        if study.enough(cell, chains):
            break
    return chains


def _report(scale: Scale, line: dict) -> None:
    name, seconds = Cell(*[line[field] for field in Cell._fields]).name, line["seconds"] * line["chains"]
    rhat = line[f"rhat_{scale.checkpoints[-1]}"]
    print(f"{name:42s} ESS {line['ess_mean']:7.1f}  R-hat {rhat:7.4f}  {seconds:6.0f} s of sampling", flush=True)


def arguments() -> Namespace:
    """Command line."""
    line = parser("parameterizations", __doc__, SCALES, FILTERS)
    return line.parse_args()


def main() -> None:
    """Run what the command line asks for."""
    given = arguments()
    scale = SCALES[given.scale]
    chosen = selected(study.cells(scale), {name: getattr(given, name) for name in FILTERS})
    table = results.table_of(given.out / f"{scale.name}.csv")
    new = chosen if given.again else table.missing(chosen, settings(scale))
    print(f"{len(new)} cells to run; {len(chosen) - len(new)} of {len(chosen)} are in {table.path.name}", flush=True)
    needed = scale.settings() | simulation.SETTINGS | study.SETTINGS
    run(scale, new, Grid(given.runs / scale.name, needed), table, workers_of(given))


if __name__ == "__main__":
    main()
