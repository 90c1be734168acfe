"""Finished cells as a table, the authors' figures, and how the two compare."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from case_studies.iterative.study import PRECONDITIONERS, SCALES, Scale
from case_studies.tools.grid import Finished
from case_studies.tools.provenance import made_by
from case_studies.tools.table import Table

__all__ = ["FOLDER", "KEY", "authors", "beside_authors", "paths", "row", "stored", "table_of"]

FOLDER = Path(__file__).parent / "results"
KEY = ["preconditioner", "log_noise", "log_lengthscale"]


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
