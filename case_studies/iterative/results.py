"""Finished cells as tables, the authors' figures, and how the two compare."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from case_studies.iterative import conditioning, curves, langevin, truncation
from case_studies.iterative.study import PRECONDITIONERS, ROWS, SCALES, Scale
from case_studies.tools.convergence import moments_at, rhat_at
from case_studies.tools.grid import Finished
from case_studies.tools.provenance import made_by
from case_studies.tools.table import Table

__all__ = [
    "CURVE_KEY", "FOLDER", "KEY", "authors", "authors_ends", "beside_authors", "chain_rows", "chain_summary",
    "chain_table", "condition_rows", "condition_table", "curve_rows", "curve_table", "ends", "paths", "rows", "stored",
    "table_of", "truncation_rows", "truncation_table", "whole", "without_lines",
]  # fmt: skip

FOLDER = Path(__file__).parent / "results"
KEY = ["data", "preconditioner", "log_noise", "log_lengthscale"]
CURVE_KEY = ["data", "method", "fold", "step"]


def table_of(path: Path) -> Table:
    """The table in a file."""
    rank = {name: number for number, name in enumerate([*ROWS, *PRECONDITIONERS])}

    def order(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.sort_values(KEY, key=lambda column: column.replace(rank), ascending=[True, True, False, True])

    return Table(path, KEY, order)


def rows(scale: Scale, finished: Iterable[Finished]) -> pd.DataFrame:
    """Lines of cells: medians over repetitions and their range, and the seconds since their group began."""
    lines = []
    for cell, result, _ in finished:
        found = result["iterations"]
        counts = {"iterations": float(np.median(found)), "fewest": min(found), "most": max(found)}
        common = scale.settings(cell) | {"seconds": result["seconds"]} | made_by(result)
        lines.append(cell._asdict() | counts | common)
    return pd.DataFrame(lines)


def authors() -> pd.DataFrame:
    """Iterations of the authors' repository for the data sets of the figure, which they have whole."""
    return pd.read_csv(FOLDER / "authors.csv")


def paths() -> list[Path]:
    """The committed tables, the largest scale last."""
    return [path for scale in SCALES if (path := FOLDER / f"{scale}.csv").is_file()]


def stored() -> pd.DataFrame:
    """The committed lines, each cell with a number of rows at the largest scale at which it has been run."""
    lines = pd.concat([table_of(path).read() for path in paths()])
    return lines.drop_duplicates([*KEY, "n"], keep="last").reset_index(drop=True)


def whole(lines: pd.DataFrame) -> pd.DataFrame:
    """Lines with all rows of their data set, which can be compared with the authors'."""
    return lines[lines["n"] == lines["data"].map(ROWS)]


def beside_authors(table: pd.DataFrame) -> pd.DataFrame:
    """Iterations beside those of the authors' repository, where it has the cell, with the same number of rows.

    The authors number iterations from zero when they stop, so their figure is one less.
    """
    joined = whole(table).merge(authors(), on=KEY)
    return joined.assign(ratio=(joined["iterations"] - 1.0) / joined["authors"])


def curve_table(folder: Path, scale: str) -> Table:
    """Return where curves of the error over time go, a line for each point."""
    return Table(folder / f"{scale}_curves.csv", CURVE_KEY, lambda frame: frame.sort_values(CURVE_KEY), 1)


def curve_rows(scale: curves.Scale, cell: curves.Cell, result: dict[str, Any]) -> pd.DataFrame:
    """Return the lines of a curve."""
    common = {name: result[name] for name in ("n", "d", "rows", "steps")} | scale.settings(cell) | made_by(result)
    return pd.DataFrame([cell._asdict() | line | common for line in result["curve"]])


def truncation_table(folder: Path, scale: str) -> Table:
    """Return where errors of solvers that stop at random go, a line for each draw of theta and solver."""
    return Table(
        folder / f"{scale}_truncation.csv", ["draw", "solver"], lambda frame: frame.sort_values("draw", kind="stable")
    )


def truncation_rows(scale: truncation.Scale, cell: truncation.Cell, result: dict[str, Any]) -> pd.DataFrame:
    """Return the lines of a draw of theta."""
    common = {name: result[name] for name in ("condition", "sigma", "tau", "lambda")} | scale.settings()
    return pd.DataFrame([cell._asdict() | line | common | made_by(result) for line in result["rows"]])


def condition_table(folder: Path, scale: str) -> Table:
    """Return where condition numbers go, a line for each draw of theta and solver."""
    key = ["shape", "rate", "draw", "solver"]
    return Table(folder / f"{scale}_conditions.csv", key, lambda frame: frame.sort_values(key[:3], kind="stable"), 1)


def condition_rows(scale: conditioning.Scale, cell: conditioning.Cell, result: dict[str, Any]) -> pd.DataFrame:
    """Return the lines of a draw of theta."""
    common = {name: result[name] for name in ("condition", "sigma", "tau", "lambda")} | scale.settings()
    return pd.DataFrame([cell._asdict() | line | common | made_by(result) for line in result["rows"]])


def chain_table(folder: Path, scale: str) -> Table:
    """Return where draws of theta go, a line for each that is kept."""
    key = ["data", "method", "chain", "draw"]
    return Table(folder / f"{scale}_chains.csv", key, lambda frame: frame.sort_values(key), 1)


def chain_rows(scale: langevin.Scale, cell: langevin.Cell, result: dict[str, Any]) -> pd.DataFrame:
    """Return the lines of a chain."""
    effective = {f"effective {name}": size for name, size in zip(langevin.NAMES, result["effective"], strict=True)}
    common = (
        effective
        | {name: result[name] for name in ("made", "dropped", "seconds")}
        | scale.settings(cell)
        | made_by(result)
    )
    return pd.DataFrame([cell._asdict() | line | common for line in result["rows"]])


def chain_summary(lines: pd.DataFrame) -> pd.DataFrame:
    """Return means and deviations, R-hat of the log, and effective draws of all chains, by method and parameter."""
    found = []
    for method, own in lines.groupby("method", sort=False):
        chains = [chain for _, chain in own.groupby("chain")]
        shortest = min(map(len, chains))
        for name in langevin.NAMES:
            moments = [moments_at(np.log(chain[[name]].to_numpy()[-shortest:]), [shortest]) for chain in chains]
            common = {"method": method, "parameter": name, "mean": own[name].mean(), "deviation": own[name].std()}
            effective = sum(chain[f"effective {name}"].iloc[0] for chain in chains)
            rhat = float(rhat_at(moments, [shortest])[0, 0]) if len(chains) > 1 else np.nan
            found.append(common | {"R-hat": rhat, "effective draws": effective})
    return pd.DataFrame(found)


def without_lines(table: Table, chosen: Iterable[Any], settings: Callable[[Any], dict[str, Any]]) -> list[Any]:
    """Return those cells of which a table with several lines a cell has none, or none with these settings."""
    if not table.path.is_file():
        return list(chosen)
    old = table.read()

    def there(cell: Any) -> bool:
        wanted = cell._asdict() | settings(cell)
        return bool(np.all([old[name] == value for name, value in wanted.items()], axis=0).any())

    return [cell for cell in chosen if not there(cell)]


def ends(table: pd.DataFrame) -> pd.DataFrame:
    """Return the last lines of curves."""
    return table.sort_values("step").drop_duplicates(["data", "method", "fold"], keep="last")


def authors_ends() -> pd.DataFrame:
    """Return means over folds of the ends of the authors' curves; `nll` is that of a held-out row."""
    return pd.read_csv(FOLDER / "authors_ends.csv")
