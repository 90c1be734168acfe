"""Sample both models of the returns since 1950: ``python -m case_studies.stochastic_volatility``."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from case_studies.stochastic_volatility.study import FOLDER, MODELS, file_of, path, returns, run
from case_studies.tools.command_line import parser, to_run
from case_studies.tools.spread import spread, workers_of


class Cell(NamedTuple):
    """A model by name."""

    name: str


def compute(cell: Cell) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a model's table of hyper-parameters and evidence, and the path of its volatility."""
    series = returns()
    lines, idata = run(cell.name, series.to_numpy())
    return lines, path(idata, series.index)


def keep(cell: Cell, found: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    """Write the tables of a model."""
    lines, volatility = found
    print(lines.drop(columns=["streams"]).to_string(), flush=True)
    FOLDER.mkdir(exist_ok=True)
    lines.to_csv(file_of(cell.name, "theta"), index=False, float_format="%.6g")
    volatility.to_csv(file_of(cell.name, "path"), index=False, float_format="%.4g")


def main() -> None:
    """Write the tables of each model that has none yet."""
    given = parser("stochastic_volatility", __doc__ or "").parse_args()
    every = [Cell(name) for name in MODELS]
    new = to_run(given, every, lambda chosen: [cell for cell in chosen if not file_of(cell.name, "path").exists()])
    spread(new, compute, keep, workers_of(given))


if __name__ == "__main__":
    main()
