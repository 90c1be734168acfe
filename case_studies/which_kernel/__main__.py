"""Run the models of the thyroid data, and store what they give: ``python -m case_studies.which_kernel``."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import pandas as pd

from case_studies.tools.command_line import parser
from case_studies.tools.grid import Finished, Grid, Result
from case_studies.tools.spread import spread, workers_of
from case_studies.which_kernel.study import CLASSIFIERS, FOLDER, SETTINGS, judged, thyroid


class Cell(NamedTuple):
    """A classifier by name."""

    name: str


def compute(cell: Cell) -> Result:
    """Return the row of a classifier, and the log-density of each patient left out."""
    row, left_out = judged(cell.name, *thyroid())
    return {"row": row, "left out": left_out.to_list()}


def main() -> None:
    """Write ``results/thyroid.csv``, a row per model, and ``results/thyroid_left_out.csv``, a row per patient."""
    given = parser("which_kernel", __doc__ or "").parse_args()
    found: dict[str, Result] = {}

    def keep(cell: Cell, one: Finished) -> None:
        found[cell.name], row = one.result, one.result["row"]
        print(f"{cell.name:25s} {row['log p(y)']:8.2f} +- {row['standard error']:.2f}", flush=True)

    grid = Grid(given.runs, SETTINGS._asdict())
    spread(map(Cell, CLASSIFIERS), partial(grid.complete, compute), keep, workers_of(given))
    FOLDER.mkdir(exist_ok=True)
    rows = [found[name]["row"] | SETTINGS._asdict() for name in CLASSIFIERS]
    left_out = pd.DataFrame({name: found[name]["left out"] for name in CLASSIFIERS})
    pd.DataFrame(rows).to_csv(FOLDER / "thyroid.csv", index=False, float_format="%.5g")
    left_out.to_csv(FOLDER / "thyroid_left_out.csv", index=False, float_format="%.5g")


if __name__ == "__main__":
    main()
