"""Chains with the processor time that each part of them takes, and what the article reports of them.

Where there is a folder for them, draws and states are stored as they come, and chains that were killed go on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import xarray as xr

import pmgp
from case_studies.sparse.tempering import SparseTempering
from case_studies.tools.convergence import moments_at, rhat_at
from case_studies.tools.effective_size import effective_sizes

__all__ = ["SLOWEST", "STEPS", "Clock", "Run", "Size", "slowest_rhat", "summary"]

STEPS = {
    "Gibbs": pmgp.steps.SparseGibbs,
    "HMC": pmgp.steps.SparseHMC,
    "tempered": SparseTempering,
    "exact": pmgp.PseudoMarginal,
}
"""The chains' step methods: the package's two and the study's own for inducing inputs, and the exact one."""

KEPT_EVERY = 1.0
"""Seconds after which those of chains that are stored are stored, too."""

SLOWEST = 20
"""Variables whose R-hat the article shows."""


class Size(NamedTuple):
    """How many chains, and how long."""

    chains: int
    tune: int
    draws: int


class Clock:
    """Processor seconds of tuning, with what comes before, and of the draws; a callback of `pymc.sample`.

    Parameters
    ----------
    path : pathlib.Path, optional
        A file that keeps them, and has those of chains that go on.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.tuning = self.drawing = 0.0
        self._path = path
        if path is not None and path.is_file():
            self.tuning, self.drawing = json.loads(path.read_text(encoding="utf-8"))
        self._last = self._kept = time.process_time()

    def __call__(self, trace: Any, draw: Any) -> None:
        """Count the time since the last call to this draw."""
        now = time.process_time()
        if draw.tuning:
            self.tuning += now - self._last
        else:
            self.drawing += now - self._last
        self._last = now
        if self._path is not None and now > self._kept + KEPT_EVERY:
            self._keep(self._path)

    def _keep(self, path: Path) -> None:
        draft = path.with_suffix(".part")
        draft.write_text(json.dumps([self.tuning, self.drawing]), encoding="utf-8")
        draft.replace(path)
        self._kept = self._last


class Run(NamedTuple):
    """Chains of a model, and their processor seconds."""

    idata: xr.DataTree
    tuning: float
    drawing: float

    @classmethod
    def of(
        cls,
        model: pm.Model,
        method: str,
        size: Size,
        starts: Sequence[dict],
        rng: np.random.Generator,
        folder: Path | None = None,
    ) -> Run:
        """Sample one chain after the other, with a start for each; or go on with those that the folder has.

        Raises
        ------
        KeyboardInterrupt
            If there are fewer draws, as that has come before all were made.
        """
        clock = Clock(None if folder is None else _made(folder) / "seconds.json")
        seeds = [int(seed) for seed in rng.integers(2**31, size=size.chains)]
        shown: dict[str, Any] = {"callback": clock, "cores": 1, "progressbar": False, "quiet": True}
        shown["compute_convergence_checks"] = False
        begun: dict[str, Any] = {"initvals": list(starts), "random_seed": seeds} | size._asdict() | shown
        place = None if folder is None else folder / "-".join(["chains", *map(str, size)])
        with model:
            step = STEPS[method]()
            if place is None:
                idata = pm.sample(step=step, **begun)
            elif place.is_dir():
                idata = pmgp.resume(place, step=step, **shown)
            else:
                idata = pmgp.sample(step=step, out=place, **begun)
        if idata["posterior"].sizes["draw"] < size.draws:
            raise KeyboardInterrupt
        return cls(idata, clock.tuning, clock.drawing)

    def draws(self) -> np.ndarray:
        """All variables of all chains: (chains, draws, variables)."""
        parts = [values.to_numpy() for values in self.idata["posterior"].data_vars.values()]
        return np.concatenate([part.reshape(*part.shape[:2], -1) for part in parts], axis=-1)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def summary(run: Run) -> dict[str, float]:
    """Smallest effective size over all variables, and over theta, and seconds: of all chains together.

    ``tn_ess`` is the article's time-normalized size: effective draws per second, without tuning.
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
