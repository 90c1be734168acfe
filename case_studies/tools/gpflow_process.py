"""GPflow, by a Python that has it: the environment variable ``PMGP_GPFLOW`` names its interpreter.

It needs other versions of NumPy and of Python than this project, so that the two cannot share one.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["available", "run"]


def available() -> bool:
    """Whether such an interpreter is named."""
    return bool(os.environ.get("PMGP_GPFLOW"))


def run(script: Path, **given: Any) -> dict[str, np.ndarray]:
    """Run a script with the names of two files: the arrays it is given, and those it leaves.

    Raises
    ------
    RuntimeError
        If it fails, with the end of what it said.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "given.npz", Path(folder) / "found.npz"
        np.savez(source, **given)
        words = [os.environ["PMGP_GPFLOW"], str(script), str(source), str(target)]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{script.name} failed: {done.stderr.strip()[-500:]}")
        with np.load(target) as found:
            return dict(found)
