"""Finished cells as one table per scale, kept in the repository: one row per cell, with what made it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from case_studies.latent_operators.study import OPERATORS
from case_studies.tools import simulation
from case_studies.tools.grid import Finished
from case_studies.tools.provenance import made_by
from case_studies.tools.rows import settings, spread
from case_studies.tools.scale import Scale
from case_studies.tools.table import Table

__all__ = ["FOLDER", "KEY", "read", "row", "table", "table_of"]

FOLDER = Path(__file__).parent / "results"

KEY = ["n", "d", "dataset", "model", "operator"]
"""Columns that name a cell."""


def row(scale: Scale, finished: Finished) -> dict[str, Any]:
    """One line of the table.

    `ess` is the smallest effective sample size over the latent values by ArviZ's estimate, `ess_ar` by coda's: mean
    and standard deviation over the chains. Operations in O(n^3) are those of the preparation, and of one chain.
    """
    cell, result = finished.cell, finished.result
    return {
        **cell._asdict(),
        **settings(scale),
        "chains": len(result["ess"]),
        **spread("ess", result["ess"]),
        **spread("ess_ar", result["ess_autoregressive"]),
        **{f"rhat_{count}": value for count, value in result["rhat"].items()},
        **{key: result[key] for key in ("acceptance", "step_size", "evaluations", "seconds")},
        **{f"preparation_{kind}": count for kind, count in result["preparation"].items()},
        **{f"sampling_{kind}": count for kind, count in result["sampling"].items()},
        **made_by(result),
    }


def table(scale: Scale, finished: Iterable[Finished]) -> pd.DataFrame:
    """All of them."""
    return _sorted(pd.DataFrame([row(scale, one) for one in finished]))


def _sorted(frame: pd.DataFrame) -> pd.DataFrame:
    """By data set, size, dimension, and then as the article has models and operators."""
    order = {name: rank for rank, name in enumerate([*simulation.MODELS, *OPERATORS])}
    by = ["dataset", "n", "d", "model", "operator"]
    return frame.sort_values(by, key=lambda column: column.replace(order)).reset_index(drop=True)


def table_of(path: Path) -> Table:
    """The table in a file."""
    return Table(path, KEY, _sorted)


def read(name: str) -> pd.DataFrame:
    """The committed rows of a scale, or ``"article"``."""
    return pd.read_csv(FOLDER / f"{name}.csv")
