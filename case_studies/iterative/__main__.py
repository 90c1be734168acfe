"""Run the study: ``python -m case_studies.iterative --scale quick``; a run that is stopped can be resumed."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from case_studies.iterative import results
from case_studies.iterative.study import SCALES, Cell, cells, run_cell
from case_studies.tools.command_line import parser
from case_studies.tools.grid import Finished, Grid
from case_studies.tools.spread import spread, workers_of


def main() -> None:
    """Run what the command line asks for, and write each finished cell into the table."""
    line = parser("iterative", __doc__, SCALES)
    line.add_argument("--out", type=Path, help="the table (default: the one in the repository)")
    given = line.parse_args()
    scale = SCALES[given.scale]
    table = results.table_of(given.out or results.FOLDER / f"{scale.name}.csv")
    settings = {"repetitions": scale.repetitions, "cap": scale.cap}
    new = list(cells(scale)) if given.again else table.missing(cells(scale), settings)

    def keep(cell: Cell, one: Finished) -> None:
        table.merge(results.rows(scale, [one]))
        print(f"{cell.name:32s} {one.result['iterations']}", flush=True)

    grid = Grid(given.runs / scale.name, scale.settings())
    spread(new, partial(grid.complete, partial(run_cell, scale)), keep, workers_of(given))


if __name__ == "__main__":
    main()
