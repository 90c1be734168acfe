"""Run the study of pines: ``python -m case_studies.maps --scale quick``; a run that is stopped can be resumed."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pandas as pd

from case_studies.maps import results
from case_studies.maps.study import SCALES, Cell, Scale, cells, run_chain, units
from case_studies.tools import saplings
from case_studies.tools.command_line import parser, selected, to_run
from case_studies.tools.grid import Grid, Result
from case_studies.tools.spread import spread, workers_of

FILTERS: dict[str, type] = {"prior": str, "side": int, "method": str}


def chains_of(scale: Scale, runs: Path, cell: Cell) -> list[Result]:
    """Results of the chains of a cell."""
    grid = Grid(runs / scale.name, scale.settings(cell))
    return [one.result for one in grid.run(units(scale, cell), partial(run_chain, scale))]


def main(words: list[str] | None = None) -> None:
    """Run what the command line asks for, and write each finished cell into the table and a file of its own."""
    line = parser("maps", __doc__, SCALES, FILTERS)
    given = line.parse_args(words)
    if not saplings.available():
        line.error(f"the file {saplings.FILE} is not in the folder that PMGP_DATA names")
    scale = SCALES[given.scale]
    chosen = selected(cells(scale), {name: getattr(given, name) for name in FILTERS})

    def keep(cell: Cell, chains: list[Result]) -> None:
        row = results.row(scale, cell, chains)
        results.table(given.out, scale.name).merge(pd.DataFrame([row]))
        results.keep(given.out, scale, cell, chains)
        print(f"{cell.name:40s} ESS {row['ess']:6.1f}  R-hat {row['rhat']:.3f}  {row['seconds']:6.0f} s", flush=True)

    new = to_run(given, chosen, partial(results.missing, given.out, scale))
    spread(new, partial(chains_of, scale, given.runs), keep, workers_of(given))


if __name__ == "__main__":
    main()
