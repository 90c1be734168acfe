"""Finished cells as tables in the repository: a row per cell with what made it, and what Figures 3 and 4 show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import f as f_distribution

from case_studies.pseudo_marginal.problems import REAL
from case_studies.pseudo_marginal.study import CHECKPOINTS, KERNELS, METHODS, SIMULATED, THINNING, Cell
from case_studies.tools import rows
from case_studies.tools.convergence import Moments, rhat_at
from case_studies.tools.grid import Result
from case_studies.tools.scale import Scale
from case_studies.tools.table import Table

__all__ = ["FOLDER", "convergence_of", "read", "rhat_upper_at", "row", "settings", "table_of", "trace_of"]

FOLDER = Path(__file__).parent / "results"

UPPER = 0.975


def settings(scale: Scale) -> dict[str, Any]:
    """Columns that a row must have to count."""
    return rows.settings(scale) | {"chains": scale.chains}


def row(scale: Scale, cell: Cell, chains: Sequence[Result]) -> dict[str, Any]:
    """One line of the table: that of :func:`case_studies.tools.rows.row`, and what the article gives besides.

    `rhat` is that of all draws; of the checkpoints only the article's are kept. `acceptance_sd` and `operations_sd` are
    over the chains; `operations_mean` counts all O(n^3) operations of an iteration.
    """
    line = rows.row(scale, cell, chains)
    for count in scale.checkpoints:
        value = line[f"rhat_{count}"] if count in CHECKPOINTS else line.pop(f"rhat_{count}")
        line["rhat"] = value
    operations = [sum(chain[name] for name in rows.COUNTS) / scale.draws for chain in chains]
    del line["latent_acceptance"]
    return line | {
        "acceptance_sd": _sd([chain["acceptance"] for chain in chains]),
        "operations_mean": float(np.mean(operations)),
        "operations_sd": _sd(operations),
        "step_size": chains[0]["step_size"],
    }


def _sd(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1))


def rhat_upper_at(chains: Sequence[Moments], checkpoints: Sequence[int]) -> np.ndarray:
    """Upper 97.5 % limit of R-hat by Gelman and Rubin (1992), as R's package coda plots it: (c, n).

    The ratio of the variance between the chains to that within them has an F distribution if both are equal; the
    degrees of freedom of the latter come from the spread of the chains' variances.
    """
    counts, number = np.asarray(checkpoints, dtype=float)[:, None], len(chains)
    variances = np.array([chain.variances for chain in chains])
    within, between = variances.mean(axis=0), np.var([chain.means for chain in chains], axis=0, ddof=1)
    # Not a number where no chain has moved.
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = 2.0 * within**2 / (variances.var(axis=0, ddof=1) / number)
        quantile = f_distribution.ppf(UPPER, number - 1, freedom)
        return np.sqrt((counts - 1.0) / counts + quantile * between / within)


def convergence_of(scale: Scale, cell: Cell, chains: Sequence[Result]) -> Iterator[dict[str, Any]]:
    """R-hat of the log length-scale along the chains, and its upper limit: Figures 3 and 4, on the right."""
    moments = [Moments(np.array(chain["means"])[:, :1], np.array(chain["variances"])[:, :1]) for chain in chains]
    both = (rhat_at(moments, scale.checkpoints), rhat_upper_at(moments, scale.checkpoints))
    for count, value, upper in zip(scale.checkpoints, *both, strict=True):
        yield {**_place(scale, cell), "draws": count, "rhat": value.item(), "upper": upper.item()}


def trace_of(scale: Scale, cell: Cell, chains: Sequence[Result]) -> Iterator[dict[str, Any]]:
    """The first chain's thinned log length-scale: Figures 3 and 4, on the left."""
    for index, value in enumerate(chains[0]["trace"], start=1):
        yield {**_place(scale, cell), "draws": THINNING * index, "log_lengthscale": value}


def _place(scale: Scale, cell: Cell) -> dict[str, Any]:
    return {"data": cell.data, "method": cell.method, "scale": scale.name, "seed": scale.seed}


ORDER = [*METHODS, SIMULATED, *REAL, *KERNELS, *METHODS["table 1"]]


def table_of(path: Path, key: Sequence[str] = Cell._fields) -> Table:
    """The table in a file, its rows sorted as the article has them."""
    order = {name: rank for rank, name in enumerate(ORDER)}

    def sort(frame: pd.DataFrame) -> pd.DataFrame:
        ranks = frame[list(key)].apply(lambda column: column.map(lambda value: order.get(value, value)))
        return frame.loc[ranks.reset_index(drop=True).sort_values(list(key)).index]

    return Table(path, list(key), lambda frame: sort(frame.reset_index(drop=True)))


def read(name: str) -> pd.DataFrame:
    """A committed table: of a scale, ``"article"``, ``"traces"``, ``"convergence"`` or ``"estimator"``."""
    return pd.read_csv(FOLDER / f"{name}.csv")
