"""Run the study: ``python -m case_studies.latent_operators --scale quick``; a run that is stopped can be resumed."""

from __future__ import annotations

from argparse import Namespace
from functools import partial

from case_studies.latent_operators import results
from case_studies.latent_operators.study import OPERATORS, SCALES, Cell, Scale, cells, run_cell
from case_studies.tools import simulation
from case_studies.tools.command_line import parser
from case_studies.tools.grid import Finished, Grid
from case_studies.tools.rows import settings
from case_studies.tools.spread import spread, workers_of
from case_studies.tools.table import Table
from pmgp.interface.executors import Executors


def run(scale: Scale, chosen: list[Cell], grid: Grid, table: Table, executor: Executors | None = None) -> None:
    """Run the cells, and write each into the table."""

    def keep(_: Cell, one: Finished) -> None:
        table.merge(results.table(scale, [one]))
        _report(one)

    spread(chosen, partial(grid.complete, partial(run_cell, scale)), keep, executor)


def _report(one: Finished) -> None:
    ess, (*_, rhat) = one.result["ess"], one.result["rhat"].values()
    state = "kept" if one.resumed else "done"
    print(f"{state}  {one.cell.name:32s} ESS {sum(ess) / len(ess):8.1f}  R-hat {rhat:7.4f}", flush=True)


def arguments() -> Namespace:
    """Command line."""
    line = parser("latent_operators", __doc__, SCALES)
    line.add_argument("--n", type=int, nargs="+", default=[100], metavar="N", help="points: 100 and 400 in the article")
    line.add_argument("--d", type=int, nargs="+", default=[2, 10], metavar="D", help="input dimensions")
    line.add_argument("--datasets", type=int, nargs="+", metavar="I", help="which data sets, from 0 (default: all)")
    line.add_argument("--models", nargs="+", choices=simulation.MODELS, default=list(simulation.MODELS))
    line.add_argument("--operators", nargs="+", choices=OPERATORS, default=list(OPERATORS))
    return line.parse_args()


def main() -> None:
    """Run what the command line asks for."""
    given = arguments()
    scale = SCALES[given.scale]
    datasets = range(scale.datasets) if given.datasets is None else given.datasets
    chosen = list(cells(given.n, given.d, datasets, given.models, given.operators))
    table = results.table_of(given.out / f"{scale.name}.csv")
    new = chosen if given.again else table.missing(chosen, settings(scale))
    print(f"{len(new)} cells to run; {len(chosen) - len(new)} of {len(chosen)} are in {table.path.name}", flush=True)
    grid = Grid(given.runs / scale.name, scale.settings() | simulation.SETTINGS)
    run(scale, new, grid, table, workers_of(given))


if __name__ == "__main__":
    main()
