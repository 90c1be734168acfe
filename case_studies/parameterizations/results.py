"""Finished cells as one table a scale, kept in the repository: one row a cell, with what made it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from case_studies.latent_operators import simulation
from case_studies.parameterizations.problems import REAL
from case_studies.parameterizations.study import OPERATORS, PROPOSALS, SCHEMES, SIMULATED, Cell, Scale
from case_studies.tools.convergence import Moments, rhat_at
from case_studies.tools.grid import Result
from case_studies.tools.table import Table

__all__ = ["COUNTS", "FOLDER", "read", "row", "settings", "table_of"]

FOLDER = Path(__file__).parent / "results"

COUNTS = ("cholesky", "inverse", "matmul")
"""Columns with O(n^3) operations an iteration."""


def row(scale: Scale, cell: Cell, chains: Sequence[Result]) -> dict[str, Any]:
    """One line of the table.

    `ess` is the smallest effective sample size over theta by ArviZ's estimate, `ess_ar` by coda's: mean and standard
    deviation over the chains. `rhat` is the largest over theta. `seconds` are those of all draws of one chain,
    operations those of one iteration.
    """
    rhat = rhat_at([_moments(chain) for chain in chains], scale.checkpoints).max(axis=1)
    return {
        **cell._asdict(),
        **settings(scale),
        **_spread("ess", chains, "ess"),
        **_spread("ess_ar", chains, "ess_autoregressive"),
        **{f"rhat_{count}": value for count, value in zip(scale.checkpoints, rhat, strict=True)},
        **{name: _mean(chains, name) for name in ("acceptance", "latent_acceptance", "seconds")},
        **{name: _mean(chains, name) / scale.draws for name in COUNTS},
        "version": chains[0]["version"],
        "machine": chains[0]["machine"],
    }


def settings(scale: Scale) -> dict[str, Any]:
    """Columns that say how large the study was."""
    return {
        "scale": scale.name,
        "seed": scale.seed,
        "chains": scale.chains,
        "tune": scale.tune,
        "draws": scale.draws,
    }


def _moments(chain: Result) -> Moments:
    return Moments(np.array(chain["means"]), np.array(chain["variances"]))


def _spread(name: str, chains: Sequence[Result], key: str) -> dict[str, float]:
    values = [chain[key] for chain in chains]
    return {f"{name}_mean": float(np.mean(values)), f"{name}_sd": float(np.std(values, ddof=1))}


def _mean(chains: Sequence[Result], key: str) -> float:
    return float(np.mean([chain[key] for chain in chains]))


def _sorted(frame: pd.DataFrame) -> pd.DataFrame:
    """As the article has them."""
    names = [SIMULATED, *REAL, *simulation.MODELS, *OPERATORS, *SCHEMES, *PROPOSALS]
    order = {name: rank for rank, name in enumerate(names)}
    ranks = frame[list(Cell._fields)].apply(lambda column: column.map(lambda value: order.get(value, value)))
    return frame.loc[ranks.sort_values(list(Cell._fields)).index]


def table_of(path: Path) -> Table:
    """The table in a file."""
    return Table(path, list(Cell._fields), lambda frame: _sorted(frame.reset_index(drop=True)))


def read(name: str) -> pd.DataFrame:
    """The committed rows of a scale, or ``"article"``."""
    return pd.read_csv(FOLDER / f"{name}.csv")
