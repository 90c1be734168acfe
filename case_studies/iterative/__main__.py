"""Run the study: ``python -m case_studies.iterative --scale quick``; a run that is stopped can be resumed."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from case_studies.iterative import curves, results, study, truncation
from case_studies.tools import data
from case_studies.tools.command_line import parser, selected, to_run
from case_studies.tools.grid import Finished, Grid, Result
from case_studies.tools.spread import spread, workers_of
from case_studies.tools.table import Table

KINDS = ("iterations", "curves", "truncation")
FILTERS: dict[str, type] = {"data": str, "method": str, "fold": int}


def main(words: list[str] | None = None) -> None:
    """Run what the command line asks for, and write each finished cell into its table."""
    line = parser("iterative", __doc__ or "", study.SCALES, FILTERS)
    line.add_argument("--kind", choices=KINDS, help="figure 1, figures 2 and 3, or stopped solvers, only")
    line.add_argument("--out", type=Path, default=results.FOLDER, help="folder of the tables")
    given = line.parse_args(words)
    filtered = any(getattr(given, name) for name in FILTERS)
    kinds = [given.kind] if given.kind else ["curves"] if filtered else KINDS
    for kind in kinds:
        {"iterations": run_iterations, "curves": run_curves, "truncation": run_truncation}[kind](given)


def run_iterations(given: Namespace) -> None:
    """Count the iterations of figure 1."""
    scale = study.SCALES[given.scale]
    table = results.table_of(given.out / f"{scale.name}.csv")
    settings = {"repetitions": scale.repetitions, "cap": scale.cap}
    new = to_run(given, list(study.cells(scale)), lambda chosen: table.missing(chosen, settings))

    def keep(cell: study.Cell, one: Finished) -> None:
        table.merge(results.rows(scale, [one]))
        print(f"{cell.name:32s} {one.result['iterations']}", flush=True)

    grid = Grid(given.runs / scale.name, scale.settings())
    spread(new, partial(grid.complete, partial(study.run_cell, scale)), keep, workers_of(given))


def run_curves(given: Namespace) -> None:
    """Follow the errors of figures 2 and 3, where there are the data."""
    scale = curves.SCALES[given.scale]
    chosen = selected(curves.cells(scale), {name: getattr(given, name) for name in FILTERS})
    absent = sorted({cell.data for cell in chosen if not data.available(cell.data)})
    if absent:
        print(f"left out, as PMGP_DATA does not name a folder with their files: {', '.join(absent)}")
    there = [cell for cell in chosen if cell.data not in absent]
    place = results.curve_table(given.out, scale.name)
    _run(given, there, place, scale.settings, partial(curves.run_cell, scale), partial(results.curve_rows, scale))


def run_truncation(given: Namespace) -> None:
    """Solve systems, and estimate gradients, with solvers that stop at random."""
    scale = truncation.SCALES[given.scale]
    place, chosen = results.truncation_table(given.out, scale.name), truncation.cells(scale)
    compute, rows = partial(truncation.run_cell, scale), partial(results.truncation_rows, scale)
    _run(given, chosen, place, lambda _: scale.settings(), compute, rows)


def _run(
    given: Namespace,
    chosen: list[Any],
    table: Table,
    settings: Callable[[Any], dict[str, Any]],
    compute: Callable[[Any], Result],
    rows: Callable[[Any, Result], pd.DataFrame],
) -> None:
    """Run cells of several lines, and write each into its table when it is finished."""
    folder = given.runs / given.scale

    def keep(cell: Any, one: Finished) -> None:
        table.merge(rows(cell, one.result))
        print(cell.name, flush=True)

    new = to_run(given, chosen, lambda cells: results.without_lines(table, cells, settings))
    spread(new, partial(_complete, folder, settings, compute), keep, workers_of(given))


def _complete(
    folder: Path, settings: Callable[[Any], dict[str, Any]], compute: Callable[[Any], Result], cell: Any
) -> Finished:
    return Grid(folder, settings(cell)).complete(compute, cell)


if __name__ == "__main__":
    main()
