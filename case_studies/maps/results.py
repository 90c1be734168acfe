"""Finished cells as a table and as maps, kept in the repository with what made them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np

from case_studies.maps.study import THETA, Cell, Scale
from case_studies.tools.grid import Result
from case_studies.tools.provenance import made_by
from case_studies.tools.table import Table

__all__ = ["FOLDER", "draws", "inducing", "keep", "missing", "row", "table"]

FOLDER = Path(__file__).parent / "results"
INDUCING = Path(__file__).parents[1] / "sparse" / "results" / "quick_fit-pines64-0-isotropic-grid-225-Gibbs.json"


def table(folder: Path, scale: str) -> Table:
    """Where the lines of a scale go."""
    key = list(Cell._fields)
    return Table(folder / f"{scale}.csv", key, lambda frame: frame.sort_values(key))


def missing(folder: Path, scale: Scale, chosen: Iterable[Cell]) -> list[Cell]:
    """Return those cells of which the table has no line yet, or none with these settings."""
    place = table(folder, scale.name)
    return [cell for cell in chosen if place.missing([cell], scale.settings(cell))]


def _theta(chains: Sequence[Result]) -> dict[str, np.ndarray]:
    return {name: np.array([chain[name] for chain in chains]) for name in THETA}


def _deviation(chains: Sequence[Result]) -> float:
    """Return the root mean square, over the squares, of the posterior deviation of the log intensity."""
    mean, square = (np.mean([chain[name] for chain in chains], axis=0) for name in ("log", "square"))
    return float(np.sqrt(np.mean(square - mean**2)))


def row(scale: Scale, cell: Cell, chains: Sequence[Result]) -> dict[str, Any]:
    """One line of the table: moments of theta, how well the chains agree, and processor seconds of all of them.

    `ess` is the smallest bulk effective size over theta, `rhat` the largest rank-normalized R-hat; `log_deviation` is
    the root mean square of the posterior deviations of the log intensity.
    """
    theta = _theta(chains)
    diagnosed = az.convert_to_datatree(theta)["posterior"].dataset
    means = {f"{name}_mean": float(values.mean()) for name, values in theta.items()}
    deviations = {f"{name}_sd": float(values.std(ddof=1)) for name, values in theta.items()}
    return {
        **cell._asdict(),
        "nodes": chains[0]["nodes"],
        **means,
        **deviations,
        "log_deviation": _deviation(chains),
        "ess": min(float(value) for value in az.ess(diagnosed).data_vars.values()),
        "rhat": max(float(value) for value in az.rhat(diagnosed).data_vars.values()),
        "seconds": sum(chain["seconds"] for chain in chains),
        **scale.settings(cell),
        **made_by(chains[0]),
    }


def _rounded(values: np.ndarray) -> list[float]:
    return [float(f"{value:.4g}") for value in np.ravel(values)]


def keep(folder: Path, scale: Scale, cell: Cell, chains: Sequence[Result]) -> None:
    """Write the draws of theta, and the mean intensity of each square in saplings per square meter."""
    intensity = np.mean([chain["intensity"] for chain in chains], axis=0)
    shown = {name: _rounded(values) for name, values in _theta(chains).items()} | {"intensity": _rounded(intensity)}
    stored = cell._asdict() | scale.settings(cell) | made_by(chains[0]) | shown
    text = json.dumps(stored, separators=(",", ":"))
    (folder / f"{scale.name}_{cell.name}.json").write_text(text + "\n", encoding="utf-8")


def draws(scale: str, cell: Cell) -> dict[str, np.ndarray]:
    """Return the stored draws of theta of a cell, and its mean intensity."""
    stored = json.loads((FOLDER / f"{scale}_{cell.name}.json").read_text(encoding="utf-8"))
    return {name: np.array(stored[name]) for name in (*THETA, "intensity")}


def inducing() -> dict[str, np.ndarray]:
    """Return the same of the stored chain with 225 inducing inputs, made by another study on 64 x 64 squares.

    It also has the counts, and the ends of the band that has 90 % of the posterior of each square's intensity.
    """
    stored = json.loads(INDUCING.read_text(encoding="utf-8"))["picture"]
    names = {"mean": "intensity", "y": "counts", "low": "low", "high": "high"}
    return {names.get(name, name): np.array(values) for name, values in stored.items()}
