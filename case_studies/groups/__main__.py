"""Sample the three models in all ways and store what they give: ``python -m case_studies.groups``."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import pandas as pd
import xarray as xr

from case_studies.groups.study import FOLDER, SAMPLERS, SEED, STUDIES, run, size, summary
from case_studies.tools.command_line import parser, selected, to_run
from case_studies.tools.spread import spread, workers_of

KEPT, DRAWN = 800, "ohio"
"""How many draws of a run are stored for a figure, and for which data."""
FILTERS: dict[str, type] = {"data": str, "sampler": str}


class Cell(NamedTuple):
    """One of the models, drawn by one of the samplers."""

    data: str
    sampler: str

    @property
    def name(self) -> str:
        """Start of the names of its files."""
        return f"{self.data}_{self.sampler.replace(' ', '_')}"

    def is_stored(self) -> bool:
        """Return whether there are results of these settings."""
        path = FOLDER / f"{self.name}.csv"
        if not path.is_file():
            return False
        lines, settings = pd.read_csv(path), {"seed": SEED, **size(STUDIES[self.data], self.sampler)}
        return bool((lines[list(settings)] == pd.Series(settings)).all(axis=None))


def compute(cell: Cell) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Return a line for each hyper-parameter, and some draws where a figure needs them."""
    idata, seconds = run(STUDIES[cell.data], cell.sampler)
    return summary(*cell, idata, seconds), _kept(*cell, idata) if cell.data == DRAWN else None


def keep(cell: Cell, found: tuple[pd.DataFrame, pd.DataFrame | None]) -> None:
    """Write ``results/DATA_SAMPLER.csv``, a line per hyper-parameter, and for one data set some draws."""
    lines, draws = found
    print(lines.drop(columns=["streams"]).to_string(), flush=True)
    FOLDER.mkdir(exist_ok=True)
    lines.to_csv(FOLDER / f"{cell.name}.csv", index=False, float_format="%.4g")
    if draws is not None:
        draws.to_csv(FOLDER / f"{cell.name}_draws.csv", index=False, float_format="%.4g")


def main(words: list[str] | None = None) -> None:
    """Run what the command line asks for."""
    given = parser("groups", __doc__ or "", filters=FILTERS).parse_args(words)
    chosen = selected(
        [Cell(*one) for one in product(STUDIES, SAMPLERS)], {name: getattr(given, name) for name in FILTERS}
    )
    new = to_run(given, chosen, lambda chosen: [cell for cell in chosen if not cell.is_stored()])
    spread(new, compute, keep, workers_of(given))


def _kept(name: str, way: str, idata: xr.DataTree) -> pd.DataFrame:
    """Return some draws of the numbers among the hyper-parameters."""
    posterior = idata["posterior"].to_dataset()
    numbers = [one for one in STUDIES[name].names if posterior[one].ndim == 2]
    table = pd.DataFrame({one: posterior[one].to_numpy().ravel() for one in numbers})
    table.insert(0, "sampler", way)
    return table.iloc[:: max(1, len(table) // KEPT)]


if __name__ == "__main__":
    main()
