"""Run the study: ``python -m case_studies.approximations --scale quick``; a run that is stopped can be resumed."""

from __future__ import annotations

from functools import partial

from case_studies.approximations import results
from case_studies.approximations.study import SCALES, Cell, Scale, cells, run
from case_studies.tools import gpflow_process
from case_studies.tools.command_line import parser, selected, to_run
from case_studies.tools.grid import Grid, Result
from case_studies.tools.spread import spread, workers_of

FILTERS: dict[str, type] = {"posterior": str, "method": str}


def beside_exact(scale: Scale, grid: Grid, cell: Cell) -> tuple[Result, Result]:
    """Return the results of the exact chain, with whose predictions others are compared, and of a cell."""
    exact, done = grid.run([Cell(cell.posterior, "exact"), cell], partial(run, scale))
    return exact.result, done.result


def main(words: list[str] | None = None) -> None:
    """Run what the command line asks for, and write each finished cell into the tables."""
    line = parser("approximations", __doc__ or "", SCALES, FILTERS)
    given = line.parse_args(words)
    scale = SCALES[given.scale]
    chosen = selected(cells(scale), {name: getattr(given, name) for name in FILTERS})
    if not gpflow_process.available():
        chosen = [cell for cell in chosen if cell.method != "GPflow"]
        print("without GPflow: PMGP_GPFLOW names no interpreter that has it")
    grid = Grid(given.runs / scale.name, scale.settings)
    new = to_run(given, chosen, partial(results.missing, given.out, scale))

    def keep(cell: Cell, found: tuple[Result, Result]) -> None:
        exact, done = found
        results.keep(given.out, scale, cell, done, exact)
        seconds = f"{done['seconds']:7.1f} s of {done['all_seconds']:.1f}"
        print(f"{cell.name:32s} {done['status']:18s} {seconds}", flush=True)

    # Exact chains come first, so that they are finished before other cells need them.
    for part in ([cell for cell in new if cell.method == "exact"], [cell for cell in new if cell.method != "exact"]):
        spread(part, partial(beside_exact, scale, grid), keep, workers_of(given))


if __name__ == "__main__":
    main()
