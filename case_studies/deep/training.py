"""Deep processes trained in blocks of steps, with the scores of held-out rows after each of them."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

import pmgp
from case_studies.tools.data import CLASSES, LABELS, Data

__all__ = ["METHODS", "Length", "curve", "likelihood_of", "scores"]

METHODS: dict[str, dict[str, Any]] = {
    "RBF": {},
    "ARC": {"kernel": "arc-cosine-1"},
    "prior-fixed": {"omega": "prior-fixed"},
    "var-resampled": {"omega": "var-resampled"},
    "as in the article": {"local": False, "fed_forward": False, "frozen_steps": 12_000},
}
"""Arguments of `RandomFeatureGP`; all but "ARC" have the kernel of "RBF", and all but two its frequencies."""

DRAWS, PIECE = 50, 1000
"""Draws of the weights for predictions, and rows that are predicted at a time."""


class Length(NamedTuple):
    """How long a process is trained: steps, steps in a block, rows of a step, and Adam's learning rate, or rates."""

    steps: int
    block: int
    batch_size: int = 200
    learning_rate: float | dict[int, float] = 0.01


def likelihood_of(name: str) -> str:
    """Return the likelihood for a data set."""
    if name in CLASSES:
        return "softmax"
    return "probit" if name in LABELS else "gaussian"


def curve(given: dict[str, Any], length: Length, data: Data, seed: int, folder: Path) -> list[dict[str, float]]:
    """Train a process without stopping early, and score it after each block, from which a stopped run is resumed.

    Parameters
    ----------
    given : dict
        Arguments of `RandomFeatureGP`.
    length : Length
    data : Data
    seed : int
    folder : Path
        Where the finished blocks go, and the state after them.

    Returns
    -------
    list of dict
        A line for each block: the step, processor seconds of training up to it, with compilation; the bound and the
        log density of validation rows with the parameters of that step, in nats per row; and the error and the mean
        negative log density of held-out rows, with the parameters that were best on the validation rows until then.
    """
    arguments = given | {
        "batch_size": length.batch_size, "learning_rate": length.learning_rate, "evaluate_every": length.block,
        "patience": None, "validation_fraction": min(0.1, 1000 / len(data.y)), "random_state": seed,
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    stored, state, working = (folder / name for name in ("curve.json", "state.npz", "working.npz"))
    lines = json.loads(stored.read_text(encoding="utf-8")) if stored.exists() else []
    for steps in range(length.block * (len(lines) + 1), length.steps + 1, length.block):
        working.unlink(missing_ok=True)  # of a block that was stopped, whose seconds are unknown
        if state.exists():
            shutil.copy(state, working)
        clock = time.process_time()
        process = pmgp.deep.RandomFeatureGP(steps=steps, **arguments)
        process.fit(data.X, data.y, checkpoint=working, progressbar=False)
        seconds = time.process_time() - clock + (lines[-1]["seconds"] if lines else 0.0)
        lines.append(process.history_[-1] | {"seconds": seconds} | scores(process, data))
        draft = stored.with_suffix(".part")
        draft.write_text(json.dumps(lines), encoding="utf-8")
        draft.replace(stored)
        working.replace(state)
    return lines


def scores(process: Any, data: Data) -> dict[str, float]:
    """Return a process's root mean square error or error rate, and its mean negative log density, on held-out rows."""
    pieces = [(data.X_new[k : k + PIECE], data.y_new[k : k + PIECE]) for k in range(0, len(data.y_new), PIECE)]
    errors = np.concatenate([_errors(process.predict(X, draws=DRAWS), y) for X, y in pieces])
    density = np.concatenate([process.log_predictive_density(X, y, draws=DRAWS) for X, y in pieces])
    error = errors.mean() if errors.dtype == bool else np.sqrt(np.mean(errors**2))
    return {"error": float(error), "nll": -float(density.mean())}


def _errors(found: xr.Dataset, y: np.ndarray) -> np.ndarray:
    """Return differences from numbers, or whether labels are wrong."""
    if "mean" in found:
        return found["mean"].to_numpy() - y
    if "probability" in found:
        return (found["probability"].to_numpy() > 0.5) != y
    return found["probabilities"].to_numpy().argmax(axis=1) != y
