"""Finished cells as tables, the authors' figures, and how the two compare."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from case_studies.iterative import curves, truncation
from case_studies.iterative.study import PRECONDITIONERS, SCALES, Scale
from case_studies.tools.grid import Finished
from case_studies.tools.provenance import made_by
from case_studies.tools.table import Table

__all__ = [
    "CURVE_KEY", "FOLDER", "KEY", "authors", "authors_ends", "beside_authors", "curve_rows", "curve_table", "ends",
    "paths", "row", "stored", "table_of", "truncation_rows", "truncation_table", "without_lines",
]  # fmt: skip

FOLDER = Path(__file__).parent / "results"
KEY = ["preconditioner", "log_noise", "log_lengthscale"]
CURVE_KEY = ["data", "method", "fold", "step"]


def row(scale: Scale, finished: Finished) -> dict[str, Any]:
    """One line of the table: the median over repetitions, and their range."""
    iterations = finished.result["iterations"]
    return {
        **finished.cell._asdict(),
        "iterations": float(np.median(iterations)),
        "fewest": min(iterations),
        "most": max(iterations),
        "repetitions": scale.repetitions,
        "cap": scale.cap,
        "seconds": finished.result["seconds"],
        **made_by(finished.result),
    }


def table_of(path: Path) -> Table:
    """The table in a file."""
    rank = {name: number for number, name in enumerate(PRECONDITIONERS)}

    def order(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.sort_values(KEY, key=lambda column: column.replace(rank), ascending=[True, False, True])

    return Table(path, KEY, order)


def rows(scale: Scale, finished: Iterable[Finished]) -> pd.DataFrame:
    """Lines of the table."""
    return pd.DataFrame([row(scale, one) for one in finished])


def authors() -> pd.DataFrame:
    """Iterations of the authors' repository for all three data sets of the figure."""
    return pd.read_csv(FOLDER / "authors.csv")


def paths() -> list[Path]:
    """The committed tables, the largest scale last."""
    return [path for scale in SCALES if (path := FOLDER / f"{scale}.csv").is_file()]


def stored() -> pd.DataFrame:
    """The committed lines of Concrete, each cell at the largest scale at which it has been run."""
    return (
        pd.concat([table_of(path).read() for path in paths()]).drop_duplicates(KEY, keep="last").reset_index(drop=True)
    )


def beside_authors(table: pd.DataFrame) -> pd.DataFrame:
    """Iterations on Concrete beside those of the authors' repository, where it has the cell.

    The authors number iterations from zero when they stop, so that their figure is one less.
    """
    there = authors()
    joined = table.merge(there[there["data"] == "Concrete"].drop(columns="data"), on=KEY)
    return joined.assign(ratio=(joined["iterations"] - 1.0) / joined["authors"])


def curve_table(folder: Path, scale: str) -> Table:
    """Return where curves of the error over time go, a line for each point."""
    return Table(folder / f"{scale}_curves.csv", CURVE_KEY, lambda frame: frame.sort_values(CURVE_KEY))


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
