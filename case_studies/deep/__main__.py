"""Run the study: ``python -m case_studies.deep --scale quick``; a run that is stopped can be resumed."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from case_studies.deep import results
from case_studies.deep.study import SCALES, Cell, Scale, cells, run
from case_studies.tools import data
from case_studies.tools.command_line import parser, selected, to_run
from case_studies.tools.grid import Grid, Result
from case_studies.tools.spread import spread, workers_of

FILTERS: dict[str, type] = {"data": str, "method": str, "layers": int, "features": int, "fold": int}


def finished(scale: Scale, runs: Path, cell: Cell) -> Result:
    """Return the result of a cell, which is run unless it is there."""
    folder = runs / scale.name
    return Grid(folder, scale.settings(cell)).complete(partial(run, scale, folder), cell).result


def main(words: list[str] | None = None) -> None:
    """Run what the command line asks for, and write each finished cell into the tables."""
    line = parser("deep", __doc__ or "", SCALES, FILTERS)
    given = line.parse_args(words)
    scale = SCALES[given.scale]
    chosen = selected(cells(scale), {name: getattr(given, name) for name in FILTERS})
    absent = {cell.data for cell in chosen if cell.data in data.FILES and not data.available(cell.data)}
    if absent:
        print(f"left out, as PMGP_DATA does not name a folder with their files: {', '.join(sorted(absent))}")
    there = [cell for cell in chosen if cell.data not in absent]

    def keep(cell: Cell, found: Result) -> None:
        row = results.keep(given.out, scale, cell, found)
        print(f"{cell.name:40s} error {row['error']:.4f}  NLL {row['nll']:7.4f}  {row['seconds']:6.1f} s", flush=True)

    new = to_run(given, there, partial(results.missing, given.out, scale))
    spread(new, partial(finished, scale, given.runs), keep, workers_of(given))


if __name__ == "__main__":
    main()
