"""Finished cells as a table, the authors' figures, and how the two compare."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from case_studies.iterative.study import PRECONDITIONERS, Scale
from case_studies.tools.grid import Finished
from case_studies.tools.provenance import made_by
from case_studies.tools.table import Table

__all__ = ["FOLDER", "KEY", "beside_authors", "row", "table_of"]

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


def beside_authors(table: pd.DataFrame) -> pd.DataFrame:
    """Iterations beside those of the authors' repository, where it has the cell.

    The authors number iterations from zero when they stop, so that their figure is one less.
    """
    authors = pd.read_csv(FOLDER / "authors_concrete.csv")
    joined = table.merge(authors, on=KEY)
    return joined.assign(ratio=(joined["iterations"] - 1.0) / joined["authors"])
