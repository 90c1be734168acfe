"""Run the study: ``python -m case_studies.iterative --scale quick``; a run that is stopped can be resumed."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from case_studies.iterative import conditioning, curves, langevin, results, study, truncation
from case_studies.tools import data
from case_studies.tools.command_line import parser, selected, to_run
from case_studies.tools.grid import Finished, Grid, Result
from case_studies.tools.spread import spread, workers_of
from case_studies.tools.table import Table

FILTERS: dict[str, type] = {
    "data": str, "method": str, "fold": int, "preconditioner": str, "log_noise": int, "log_lengthscale": int,
}  # fmt: skip


def main(words: list[str] | None = None) -> None:
    """Run what the command line asks for, and write each finished cell into its table."""
    line = parser("iterative", __doc__ or "", study.SCALES, FILTERS)
    line.add_argument("--kind", choices=KINDS, help="one of the tables only")
    given = line.parse_args(words)
    for run in [KINDS[given.kind]] if given.kind else KINDS.values():
        run(given)


def run_iterations(given: Namespace) -> None:
    """Count the iterations of figure 1, a group of cells at a time."""
    scale = study.SCALES[given.scale]
    chosen = _chosen(given, study.cells(scale), at_hand=study.CONCRETE)
    table = results.table_of(given.out / f"{scale.name}.csv")
    new = to_run(given, chosen, lambda cells: results.without_lines(table, cells, scale.settings))
    compute = partial(study.run_group, scale, given.runs / given.scale)
    _stored(given, table, study.groups(new), compute, lambda _, finished: results.rows(scale, finished))


def run_curves(given: Namespace) -> None:
    """Follow the errors of figures 2 and 3, with GPyTorch beside where it is installed."""
    scale = curves.SCALES[given.scale]
    chosen = _chosen(given, curves.cells(scale))
    if find_spec("gpytorch") is None:
        chosen = [cell for cell in chosen if cell.method != "GPyTorch"]
        print("GPyTorch is left out, as it is not installed: run with `uv run --with gpytorch`")
    table = results.curve_table(given.out, scale.name)
    compute, rows = partial(curves.run_cell, scale), partial(results.curve_rows, scale)
    _run(given, chosen, table, scale.settings, compute, rows)


def run_truncation(given: Namespace) -> None:
    """Solve systems, and estimate gradients, with solvers that stop at random."""
    scale = truncation.SCALES[given.scale]
    table = results.truncation_table(given.out, scale.name)
    compute, rows = partial(truncation.run_cell, scale), partial(results.truncation_rows, scale)
    _run(given, _filtered(given, truncation.cells(scale)), table, lambda _: scale.settings(), compute, rows)


def run_conditions(given: Namespace) -> None:
    """Find condition numbers under priors, and solve systems with them."""
    scale = conditioning.SCALES[given.scale]
    table = results.condition_table(given.out, scale.name)
    compute, rows = partial(conditioning.run_cell, scale), partial(results.condition_rows, scale)
    _run(given, _filtered(given, conditioning.cells(scale)), table, lambda _: scale.settings(), compute, rows)


def run_chains(given: Namespace) -> None:
    """Sample theta with Langevin dynamics, and with an exact chain where it can be afforded."""
    scale = langevin.SCALES[given.scale]
    chosen = _chosen(given, langevin.cells(scale), at_hand=study.CONCRETE)
    table = results.chain_table(given.out, scale.name)
    compute, rows = partial(langevin.run_cell, scale), partial(results.chain_rows, scale)
    _run(given, chosen, table, scale.settings, compute, rows)


KINDS = {
    "iterations": run_iterations, "curves": run_curves, "truncation": run_truncation, "conditions": run_conditions,
    "chains": run_chains,
}  # fmt: skip


def _filtered(given: Namespace, cells: Iterable[Any]) -> list[Any]:
    return selected(cells, {name: getattr(given, name) for name in FILTERS})


def _chosen(given: Namespace, cells: Iterable[Any], at_hand: str = "") -> list[Any]:
    """Return the cells that the command line asks for and whose data are there."""
    chosen = _filtered(given, cells)
    absent = sorted({cell.data for cell in chosen if cell.data != at_hand and not data.available(cell.data)})
    if absent:
        print(f"left out, as PMGP_DATA does not name a folder with their files: {', '.join(absent)}")
    return [cell for cell in chosen if cell.data not in absent]


def _run(
    given: Namespace,
    chosen: list[Any],
    table: Table,
    settings: Callable[[Any], dict[str, Any]],
    compute: Callable[[Any], Result],
    rows: Callable[[Any, Result], pd.DataFrame],
) -> None:
    """Run cells, and write each into its table when it is finished."""
    new = to_run(given, chosen, lambda cells: results.without_lines(table, cells, settings))
    complete = partial(_complete, given.runs / given.scale, settings, compute)
    _stored(given, table, new, complete, lambda cell, one: rows(cell, one.result))


def _stored(
    given: Namespace,
    table: Table,
    units: list[Any],
    compute: Callable[[Any], Any],
    rows: Callable[[Any, Any], pd.DataFrame],
) -> None:
    """Compute units, and write each into a table when it is finished."""

    def keep(unit: Any, found: Any) -> None:
        table.merge(rows(unit, found))
        print(unit.name, flush=True)

    spread(units, compute, keep, workers_of(given))


def _complete(
    folder: Path, settings: Callable[[Any], dict[str, Any]], compute: Callable[[Any], Result], cell: Any
) -> Finished:
    return Grid(folder, settings(cell)).complete(compute, cell)


if __name__ == "__main__":
    main()
