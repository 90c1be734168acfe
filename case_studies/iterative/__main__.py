"""Run the study: ``python -m case_studies.iterative --scale quick``; a run that is stopped can be resumed."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from case_studies.iterative import results
from case_studies.iterative.study import SCALES, cells, run_cell
from case_studies.tools.command_line import parser
from case_studies.tools.grid import Grid


def main() -> None:
    """Run what the command line asks for, and write each finished cell into the table."""
    line = parser("iterative", __doc__, SCALES)
    line.add_argument("--out", type=Path, help="the table (default: the one in the repository)")
    given = line.parse_args()
    scale = SCALES[given.scale]
    table = results.table_of(given.out or results.FOLDER / f"{scale.name}.csv")
    settings = {"repetitions": scale.repetitions, "cap": scale.cap}
    new = list(cells(scale)) if given.again else table.missing(cells(scale), settings)
    for one in Grid(given.runs / scale.name, scale.settings()).run(new, partial(run_cell, scale)):
        table.merge(results.rows(scale, [one]))
        print(f"{one.cell.name:32s} {one.result['iterations']}", flush=True)


if __name__ == "__main__":
    main()
