"""Where 127 pine saplings stand on a square of ten meters, as counts on a grid.

The points are those of the public code of Hensman, Matthews, Filippone and Ghahramani (2015), in a file that comes from
the folder that ``PMGP_DATA`` names.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

__all__ = ["FILE", "SIDE", "available", "counts", "middles"]

FILE = "finpines_nips2015.csv"

SIDE = 10.0
"""Meters."""


def _path() -> Path:
    return Path(os.environ.get("PMGP_DATA", "")) / FILE


def available() -> bool:
    """Whether the file is there."""
    return _path().is_file()


def counts(side: int) -> np.ndarray:
    """Return the number of saplings in each square of a grid, the second coordinate fastest: (side^2,)."""
    places = SIDE * np.loadtxt(_path(), delimiter=",", skiprows=1)[:, :2]
    edges = np.linspace(0.0, SIDE, side + 1)
    return np.histogram2d(places[:, 0], places[:, 1], (edges, edges))[0].ravel().astype(int)


def middles(side: int) -> np.ndarray:
    """Return the middles of the squares: (side^2, 2)."""
    line = SIDE * (np.arange(side) + 0.5) / side
    return np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
