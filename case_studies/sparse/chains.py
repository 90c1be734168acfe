"""Chains with the processor time that each part of them takes, and what the article reports of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import xarray as xr

import pmgp
from case_studies.tools.convergence import moments_at, rhat_at
from case_studies.tools.effective_size import effective_sizes

__all__ = ["SLOWEST", "STEPS", "Clock", "Run", "Size", "slowest_rhat", "summary"]

STEPS = {"Gibbs": pmgp.SparseGibbs, "HMC": pmgp.SparseHMC, "exact": pmgp.PseudoMarginal}
"""Of the chains: the package's own two for models on inducing inputs, and the exact one."""

SLOWEST = 20
"""Variables whose R-hat the article shows."""


class Size(NamedTuple):
    """How many chains, and how long."""

    chains: int
    tune: int
    draws: int


class Clock:
    """Processor seconds of tuning, with what comes before, and of the draws; a callback of `pymc.sample`."""

    def __init__(self) -> None:
        self.tuning = self.drawing = 0.0
        self._last = time.process_time()

    def __call__(self, trace: Any, draw: Any) -> None:
        """Count the time since the last call to this draw."""
        now = time.process_time()
        if draw.tuning:
            self.tuning += now - self._last
        else:
            self.drawing += now - self._last
        self._last = now


class Run(NamedTuple):
    """Chains of a model, and their processor seconds."""

    idata: xr.DataTree
    tuning: float
    drawing: float

    @classmethod
    def of(cls, model: pm.Model, method: str, size: Size, starts: Sequence[dict], rng: np.random.Generator) -> Run:
        """Sample one chain after the other, with a start for each."""
        clock = Clock()
        with model:
            idata = pm.sample(
                step=STEPS[method](),
                callback=clock,
                initvals=list(starts),
                random_seed=[int(seed) for seed in rng.integers(2**31, size=size.chains)],
                cores=1,
                progressbar=False,
                compute_convergence_checks=False,
                **size._asdict(),
            )
        return cls(idata, clock.tuning, clock.drawing)

    def draws(self) -> np.ndarray:
        """All variables of all chains: (chains, draws, variables)."""
        parts = [values.to_numpy() for values in self.idata["posterior"].data_vars.values()]
        return np.concatenate([part.reshape(*part.shape[:2], -1) for part in parts], axis=-1)


def summary(run: Run) -> dict[str, float]:
    """Smallest effective size over all variables, and over theta, and seconds: of all chains together.

    ``tn_ess`` is the article's time-normalized size: effective draws a second, tuning apart.
    """
    sizes = sum(effective_sizes(chain) for chain in run.draws())
    # Hyper-parameters: whatever is not the process.
    posterior = run.idata["posterior"]
    theta = [posterior[name].to_numpy() for name in posterior.data_vars if not str(name).startswith("f")]
    columns = np.concatenate([part.reshape(*part.shape[:2], -1) for part in theta], axis=-1)
    ess = float(np.min(sizes))
    return {
        "ess": ess,
        "ess_theta": float(np.min(sum(effective_sizes(chain) for chain in columns))),
        "tn_ess": ess / run.drawing,
        "tn_ess_with_tuning": ess / (run.drawing + run.tuning),
        "tuning": run.tuning,
        "drawing": run.drawing,
    }


def slowest_rhat(run: Run, checkpoints: Sequence[int]) -> np.ndarray:
    """R-hat of the variables with the smallest effective sizes at checkpoints: (checkpoints, variables)."""
    draws = run.draws()
    sizes = sum(effective_sizes(chain) for chain in draws)
    slowest = np.argsort(sizes)[:SLOWEST]
    return rhat_at([moments_at(chain[:, slowest], checkpoints) for chain in draws], checkpoints)
