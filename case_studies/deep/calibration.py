"""Probabilities of labels by a deep process, by its sampled last layer, and by the exact chain of a shallow one."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

import pmgp
from case_studies.tools import data
from pmgp.plots.calibration import reliability

__all__ = ["BINS", "NAMES", "WAYS", "Budget", "run"]

NAMES = ("credit", "eeg")
WAYS = ("variational", "last layer sampled", "exact chain")
BINS = 10
STEPS = 6000


class Budget(NamedTuple):
    """Rows that are seen, at most, and the chains, tuning iterations and draws of the exact chain."""

    rows: int
    chains: int
    tune: int
    draws: int


def run(name: str, budget: Budget, seed: int) -> list[dict[str, Any]]:
    """Return the bins of each way: the mean probability, the share of ones and their number; a score, and seconds."""
    split = data.load(name, 0, seed, 0.5, 2000)
    X, y = split.X[: budget.rows], split.y[: budget.rows]
    return [line for way, found in probabilities(X, y, split.X_new, budget, seed).items()
            for line in _lines(way, *found, split.y_new)]  # fmt: skip


def probabilities(
    X: np.ndarray, y: np.ndarray, X_new: np.ndarray, budget: Budget, seed: int
) -> dict[str, tuple[np.ndarray, float]]:
    """Return, for each of :data:`WAYS`, the probabilities of new labels, and processor seconds."""
    clock = time.process_time()
    process = pmgp.deep.RandomFeatureGP(layers=2, likelihood="probit", steps=STEPS, random_state=seed)
    process.fit(X, y, progressbar=False)
    found = {WAYS[0]: (process.predict(X_new, draws=400)["probability"].to_numpy(), time.process_time() - clock)}
    clock = time.process_time()
    last_layer = process.sample_last_layer(X, y, chains=budget.chains, draws=budget.draws, random_seed=seed)
    sampled = process.predict(X_new, last_layer=last_layer)["probability"].to_numpy()
    found[WAYS[1]] = sampled, time.process_time() - clock
    clock = time.process_time()
    return found | {WAYS[2]: (exact(X, y, X_new, budget, seed), time.process_time() - clock)}


def exact(X: np.ndarray, y: np.ndarray, X_new: np.ndarray, budget: Budget, seed: int) -> np.ndarray:
    """Return the probabilities of a shallow process whose hyper-parameters and values are sampled."""
    model = pmgp.models.classifier(X, y.astype(int))
    idata = pmgp.sample(
        model, draws=budget.draws, tune=budget.tune, chains=budget.chains, cores=1, random_seed=seed,
        progressbar=False, quiet=True,
    )  # fmt: skip
    return pmgp.predict(idata, X_new, model=model, draws=200, progressbar=False)["probability"].to_numpy()


def _lines(way: str, probability: np.ndarray, seconds: float, y: np.ndarray) -> list[dict[str, Any]]:
    table = reliability(y, probability, BINS)
    seen = np.clip(np.where(y == 1, probability, 1.0 - probability), 1e-12, 1.0)
    score = {"nll": -float(np.log(seen).mean()), "error": float(np.mean((probability > 0.5) != y)), "seconds": seconds}
    return [
        {"way": way, "bin": k} | dict(zip(table._fields, map(float, row), strict=True)) | score
        for k, row in enumerate(zip(*table, strict=True))
    ]
