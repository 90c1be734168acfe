"""Finished cells as one table a scale, kept in the repository: one row a cell, with what made it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from case_studies.latent_operators import simulation
from case_studies.latent_operators.study import OPERATORS, Cell, Scale
from case_studies.tools.grid import Finished

__all__ = ["FOLDER", "KEY", "merge", "missing", "read", "row", "table"]

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
        **_settings(scale),
        **_spread("ess", result["ess"]),
        **_spread("ess_ar", result["ess_autoregressive"]),
        **{f"rhat_{count}": value for count, value in result["rhat"].items()},
        **{key: result[key] for key in ("acceptance", "step_size", "evaluations", "seconds")},
        **{f"preparation_{kind}": count for kind, count in result["preparation"].items()},
        **{f"sampling_{kind}": count for kind, count in result["sampling"].items()},
        "version": result["version"],
        "machine": result["machine"],
    }


def _settings(scale: Scale) -> dict[str, Any]:
    return {
        "scale": scale.name,
        "seed": scale.seed,
        "chains": scale.chains,
        "tune": scale.tune,
        "draws": scale.draws,
    }


def _spread(name: str, values: list[float]) -> dict[str, float]:
    return {f"{name}_mean": float(np.mean(values)), f"{name}_sd": float(np.std(values, ddof=1))}


def table(scale: Scale, finished: Iterable[Finished]) -> pd.DataFrame:
    """All of them."""
    return _sorted(pd.DataFrame([row(scale, one) for one in finished]))


def _sorted(frame: pd.DataFrame) -> pd.DataFrame:
    """By data set, size, dimension, and then as the article has models and operators."""
    order = {name: rank for rank, name in enumerate([*simulation.MODELS, *OPERATORS])}
    by = ["dataset", "n", "d", "model", "operator"]
    return frame.sort_values(by, key=lambda column: column.replace(order)).reset_index(drop=True)


def merge(new: pd.DataFrame, path: Path) -> None:
    """Put rows into a CSV file, in place of those of the same cells; the other rows stay."""
    if path.is_file():
        old = pd.read_csv(path)
        new = pd.concat([old, new]).drop_duplicates(KEY, keep="last")
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".part")
    _sorted(new).to_csv(draft, index=False, float_format="%.6g", lineterminator="\n")
    draft.replace(path)


def missing(path: Path, scale: Scale, cells: Iterable[Cell]) -> list[Cell]:
    """Those cells that a CSV file does not have yet, or not at this scale."""
    if not path.is_file():
        return list(cells)
    old = pd.read_csv(path)
    same = np.all([old[name] == value for name, value in _settings(scale).items()], axis=0)
    there = set(old.loc[same, KEY].itertuples(index=False, name=None))
    return [cell for cell in cells if tuple(cell) not in there]


def read(name: str) -> pd.DataFrame:
    """The committed rows of a scale, or ``"article"``."""
    return pd.read_csv(FOLDER / f"{name}.csv")
