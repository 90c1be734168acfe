"""Scans of the digits three and five, which no package brings: files of the folder that ``PMGP_DATA`` names."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from pmgp import datasets

__all__ = ["available", "load"]

FILES = ("usps_3v5_ziptrain.csv.gz", "usps_3v5_ziptest.csv.gz")


def available() -> bool:
    """Whether the files are there."""
    return all(path.is_file() for path in _paths())


def load() -> tuple[np.ndarray, np.ndarray]:
    """Pixels between -1 and 1, (1540, 256), and labels, 1 for a three, (1540,)."""
    parts = [datasets.read_csv(path, label="y") for path in _paths()]
    return np.concatenate([part.X for part in parts]), np.concatenate([part.y for part in parts])


def _paths() -> list[Path]:
    return [Path(os.environ.get("PMGP_DATA", "")) / name for name in FILES]
