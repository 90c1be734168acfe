"""The cells of the study of pines: a prior on a grid, sampled exactly or by Laplace's approximation alone."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pymc as pm

import pmgp
from case_studies.maps.pines import model
from case_studies.tools.grid import Unit
from case_studies.tools.provenance import provenance
from case_studies.tools.stream import stream

__all__ = ["SCALES", "THETA", "Cell", "Scale", "cells", "run_chain", "units"]

THETA = ("lengthscale", "variance")

METHODS: dict[str, dict[str, Any]] = {
    "exact": {},
    "Laplace alone": {"approximation": "laplace", "estimator": "none"},
}
"""Arguments of :class:`pmgp.PseudoMarginal`."""


class Cell(NamedTuple):
    """Chains of one model."""

    prior: str
    side: int
    method: str

    @property
    def name(self) -> str:
        """File name without ending."""
        return f"{self.prior}-{self.side}-{self.method}".replace(" ", "_")


@dataclass(frozen=True)
class Scale:
    """How large the study is.

    Parameters
    ----------
    name : str
    seed : int
    chains : int
        Chains of each cell.
    lengths : dict
        Tuning iterations and draws of a chain, by prior.
    sparse : dict
        Squares along a side of the grids with a sparse prior, by method.
    dense : tuple of (str, int)
        Dense priors, and squares along a side.
    """

    name: str
    seed: int
    chains: int
    lengths: dict[str, tuple[int, int]]
    sparse: dict[str, tuple[int, ...]]
    dense: tuple[tuple[str, int], ...]

    def settings(self, cell: Cell) -> dict[str, Any]:
        """Return the settings with which a finished cell must have been made."""
        tune, draws = self.lengths[cell.prior]
        return {"scale": self.name, "seed": self.seed, "chains": self.chains, "tune": tune, "draws": draws}


KERNELS = ("dense Matern 1", "dense squared exponential")
SCALES = {
    "quick": Scale(
        name="quick",
        seed=33,
        chains=2,
        lengths={"SPDE": (120, 500), KERNELS[0]: (120, 500), KERNELS[1]: (400, 1500)},
        sparse={"exact": (128, 64, 32, 16), "Laplace alone": (64, 32, 16)},
        dense=((KERNELS[0], 16), (KERNELS[1], 16)),
    ),
    "paper": Scale(
        name="paper",
        seed=33,
        chains=4,
        lengths=dict.fromkeys(("SPDE", *KERNELS), (500, 2000)),
        sparse=dict.fromkeys(METHODS, (128, 64, 32, 16)),
        dense=tuple(product(KERNELS, (16, 32))),
    ),
}


def cells(scale: Scale) -> list[Cell]:
    """All cells of a scale."""
    sparse = [Cell("SPDE", side, method) for method, sides in scale.sparse.items() for side in sides]
    return [*sparse, *(Cell(kernel, side, "exact") for kernel, side in scale.dense)]


def units(scale: Scale, cell: Cell) -> list[Unit]:
    """Chains of a cell."""
    return [Unit(cell, chain) for chain in range(scale.chains)]


def run_chain(scale: Scale, unit: Unit) -> dict[str, Any]:
    """Sample one chain; fit for JSON.

    Returns
    -------
    dict
        Draws of theta, for each square the means of the intensity, of its logarithm and of that squared, the number of
        nodes, and processor seconds, which include compilation and tuning.
    """
    prior, side, method = unit.cell  # type: ignore[misc]
    rng, (tune, draws) = stream(scale.seed, "pines", unit.name), scale.lengths[prior]
    given, clock = model(prior, side), time.process_time()
    with given.model:
        idata = pm.sample(
            draws,
            tune=tune,
            step=pmgp.PseudoMarginal(**METHODS[method]),
            chains=1,
            cores=1,
            initvals={"lengthscale": np.exp(rng.uniform(np.log(0.15), np.log(1.5)))},
            random_seed=int(rng.integers(2**31)),
            progressbar=False,
            quiet=True,
            compute_convergence_checks=False,
        )
    seconds = time.process_time() - clock
    posterior = idata["posterior"]
    f = posterior["f"].to_numpy()[0][:, given.seen]
    return {
        **{name: posterior[name].to_numpy()[0].tolist() for name in THETA},
        "intensity": np.exp(f).mean(axis=0).tolist(),
        "log": f.mean(axis=0).tolist(),
        "square": np.square(f).mean(axis=0).tolist(),
        "nodes": len(given.seen),
        "seconds": seconds,
        **provenance(),
    }
