"""Kill workers at random moments of a run, and compare its draws with those of a run without kills.

``python -m tests.sampling.kills 20`` kills a worker twenty times. The suite makes the same run with a few kills.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pmgp
from tests.sampling.runs import QUIET, SETTINGS, differing
from tests.sampling.workers import iterations, killing, random_moments

__all__ = ["PER_KILL", "with_kills"]

PER_KILL = 65
"""Iterations of two chains for each kill: so many that each new worker makes some."""


def with_kills(sample: Callable[..., Any], folder: Path, kills: int, seed: int) -> tuple[set[str], int, int]:
    """Make a run in which workers are killed, and one without kills.

    Returns
    -------
    set of str
        Names of the variables and statistics that differ.
    int
        Workers that were killed.
    int
        Iterations in the store.
    """
    draws = kills * PER_KILL - SETTINGS["tune"]
    total = SETTINGS["chains"] * (SETTINGS["tune"] + draws)
    with killing(folder, random_moments(kills, total, seed)) as pools:
        drawn = sample(executor=pools, out=folder, flush_every=0.0, draws=draws)
    return differing(drawn, sample(draws=draws)), len(set(pools.killed)), iterations(folder)


def main(kills: int) -> None:
    """Print what differs after so many kills, and fail if anything does."""
    logging.disable()
    warnings.simplefilter("ignore")
    X = np.random.default_rng(1).normal(size=(20, 2))
    model = pmgp.models.classifier(X, X.sum(axis=1) > 0.0)
    step = pmgp.PseudoMarginal(model=model)

    def sample(**settings: Any) -> Any:
        return pmgp.sample(model, **SETTINGS | QUIET | {"step": step} | settings)

    with tempfile.TemporaryDirectory() as folder:
        names, killed, stored = with_kills(sample, Path(folder), kills, seed=1)
    print(
        f"{killed} workers were killed; {stored} iterations are stored; what differs: {', '.join(names) or 'nothing'}"
    )
    if names or killed < kills:
        sys.exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]))
