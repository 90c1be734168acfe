"""Run the study: ``python -m case_studies.pseudo_marginal --scale quick``; a run that is stopped can be resumed."""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from pathlib import Path

import pandas as pd

from case_studies.pseudo_marginal import estimator, problems, results, study
from case_studies.pseudo_marginal.study import SCALES, SIMULATED, Cell
from case_studies.tools.command_line import parser, selected
from case_studies.tools.grid import Grid, Result
from case_studies.tools.spread import spread, workers_of
from pmgp.interface.executors import Executors

FILTERS: dict[str, type] = {"experiment": str, "data": str, "n": int, "d": int, "kernel": str, "method": str}


def chains_of(name: str, runs: Path, cell: Cell) -> list[Result]:
    """Results of the chains of a cell; more chains can be added to those that there are."""
    scale = study.scale_of(name, cell)
    settings = {key: value for key, value in scale.settings().items() if key != "chains"}
    grid = Grid(runs / name, settings | problems.SETTINGS)
    return [one.result for one in grid.run(study.units(name, [cell]), partial(study.run_unit, name))]


def run(name: str, chosen: list[Cell], runs: Path, folder: Path, executor: Executors | None = None) -> None:
    """Run the cells chain by chain; each row is written when its chains are there, with traces for real data."""
    table = results.table_of(folder / f"{name}.csv")
    traces = results.table_of(folder / "traces.csv", ["data", "method", "draws"])
    convergence = results.table_of(folder / "convergence.csv", ["data", "method", "draws"])

    def keep(cell: Cell, found: list[Result]) -> None:
        scale = study.scale_of(name, cell)
        row = results.row(scale, cell, found)
        table.merge(pd.DataFrame([row]))
        if cell.data != SIMULATED and name == "paper":
            traces.merge(pd.DataFrame(results.trace_of(scale, cell, found)))
            convergence.merge(pd.DataFrame(results.convergence_of(scale, cell, found)))
        seconds = row["seconds"] * scale.chains
        print(f"{cell.name:42s} ESS {row['ess_mean']:7.1f}  R-hat {row['rhat']:7.4f}  {seconds:6.0f} s", flush=True)

    spread(chosen, partial(chains_of, name, runs), keep, executor)


def missing(name: str, chosen: list[Cell], folder: Path) -> list[Cell]:
    """Cells that the table does not have yet, or has with other settings."""
    table = results.table_of(folder / f"{name}.csv")
    return [cell for cell in chosen if table.missing([cell], results.settings(study.scale_of(name, cell)))]


def arguments() -> Namespace:
    """Command line."""
    line = parser("pseudo_marginal", __doc__, SCALES, FILTERS)
    return line.parse_args()


def main() -> None:
    """Run what the command line asks for; at the article's scale Figure 2 comes first."""
    given = arguments()
    chosen = selected(study.cells(), {name: getattr(given, name) for name in FILTERS})
    if given.scale == "paper" and (given.again or not (given.out / "estimator.csv").is_file()):
        estimator.spreads(SCALES["paper"]["table 1"].seed).to_csv(
            given.out / "estimator.csv", index=False, float_format="%.6g", lineterminator="\n"
        )
    new = chosen if given.again else missing(given.scale, chosen, given.out)
    print(f"{len(new)} cells to run; {len(chosen) - len(new)} of {len(chosen)} are there", flush=True)
    run(given.scale, new, given.runs, given.out, workers_of(given))


if __name__ == "__main__":
    main()
