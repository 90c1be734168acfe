"""Finished cells as two tables in the repository, with what made them: a line per cell, and one per hyper-parameter."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from case_studies.approximations.posteriors import POSTERIORS
from case_studies.approximations.study import Cell, Scale
from case_studies.tools.grid import Result
from case_studies.tools.provenance import made_by
from case_studies.tools.table import Table

__all__ = ["FOLDER", "keep", "lines", "missing", "moments", "row", "theta_rows"]

FOLDER = Path(__file__).parent / "results"
KEY = list(Cell._fields)
SIGNS = ("pareto_k", "k_limit", "worth", "weighed", "spread")


def lines(folder: Path, scale: str) -> Table:
    """Where the lines of cells go."""
    return Table(folder / f"{scale}.csv", KEY, lambda frame: frame.sort_values(KEY))


def moments(folder: Path, scale: str) -> Table:
    """Where the lines of hyper-parameters go."""
    key = [*KEY, "parameter"]
    return Table(folder / f"{scale}_theta.csv", key, lambda frame: frame.sort_values(key))


def missing(folder: Path, scale: Scale, chosen: Iterable[Cell]) -> list[Cell]:
    """Return those cells of which the table has no line yet, or none with these settings."""
    return lines(folder, scale.name).missing(chosen, scale.settings)


def row(scale: Scale, cell: Cell, found: Result, exact: Result) -> dict[str, Any]:
    """One line of a cell.

    `response_rms` and `response_worst` are the root mean square and the largest, over the predictions, of the distance
    from the exact chain's mean, in its deviations; `response_noise` is the root mean square of the Monte Carlo errors
    of both. `response_largest` is the largest distance as it is. `ess` and `rhat` are those of the worst
    hyper-parameter, `seconds` of the processor without compilation, and `all_seconds` with it.
    """
    given, signs = POSTERIORS[cell.posterior], found.get("signs", {})
    return {
        **cell._asdict(),
        "kind": given.kind,
        "n": len(given.data.y),
        "status": found["status"],
        **{name: found.get(name, np.nan) for name in ("seconds", "all_seconds", "draws", "divergences")},
        **{name: _number(found.get(name)) for name in ("ess", "rhat")},
        **_of_response(found, exact),
        **{name: _number(signs.get(name)) for name in SIGNS},
        **scale.settings,
        **made_by(found),
    }


def _number(value: float | None) -> float:
    return np.nan if value is None else float(value)


def _of_response(found: Result, exact: Result) -> dict[str, float]:
    names = ("rms", "noise", "worst", "largest")
    if "response" not in found:
        return dict.fromkeys([f"response_{name}" for name in names], np.nan)
    own, other = ({name: np.array(one) for name, one in given["response"].items()} for given in (found, exact))
    apart = np.abs(own["mean"] - other["mean"])
    noise = np.hypot(own["error"], other["error"]) / other["sd"]
    values = (_rms(apart / other["sd"]), _rms(noise), (apart / other["sd"]).max(), apart.max())
    return {f"response_{name}": float(value) for name, value in zip(names, values, strict=True)}


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def theta_rows(scale: Scale, cell: Cell, found: Result) -> list[dict[str, Any]]:
    """Return lines of the hyper-parameters, on the log scale; `shift` is how far weights move the mean."""
    rows = found.get("theta", {})
    shifts = found.get("signs", {}).get("shifts") or [np.nan] * len(rows)
    return [
        {**cell._asdict(), "parameter": name, **one, "shift": shift, "scale": scale.name}
        for (name, one), shift in zip(rows.items(), shifts, strict=True)
    ]


def keep(folder: Path, scale: Scale, cell: Cell, found: Result, exact: Result) -> None:
    """Add a finished cell to the tables."""
    of_theta = theta_rows(scale, cell, found)
    if of_theta:
        moments(folder, scale.name).merge(pd.DataFrame(of_theta))
    lines(folder, scale.name).merge(pd.DataFrame([row(scale, cell, found, exact)]))
