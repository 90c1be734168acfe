"""The article's Gaussian approximation: the bound's maximum over q(v), theta and, where they move, inducing inputs."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
import pymc as pm
import xarray as xr

from case_studies.sparse.problems import Problem, inducing_inputs, sparse, typical_lengthscale
from pmgp.gp import OptimizedInducing, Sparse, optimize_inducing

__all__ = ["Optimum", "optimum"]


class Optimum(NamedTuple):
    """Where the bound is largest, a model with these inducing inputs, those at first, and processor seconds."""

    found: OptimizedInducing
    first: np.ndarray
    model: pm.Model
    process: Sparse
    seconds: float

    def draws(self, rng: np.random.Generator, number: int) -> xr.DataTree:
        """Draws of the Gaussian, theta being at its maximum, in the shape of a posterior."""
        values = self.found.initvals(number, rng)
        posterior = xr.Dataset()
        for name in values[0]:
            array = np.stack([one[name] for one in values])[None]
            posterior[name] = (("chain", "draw", *(f"{name}_{axis}" for axis in range(array.ndim - 2))), array)
        return xr.DataTree.from_dict({"posterior": posterior})


def optimum(rng: np.random.Generator, given: Problem, kernel: str, kind: str, points: int, steps: int = 300) -> Optimum:
    """Maximize the bound, from k-means' centers where inducing inputs are "optimized", or with those that there are."""
    moving = kind == "optimized"
    Z = inducing_inputs(rng, given.data, "kmeans" if moving else kind, points)
    model, process = sparse(given, kernel, Z)
    typical = typical_lengthscale(given.data)
    start = {"lengthscale": np.full(given.data.d, typical) if kernel == "ARD" else typical}
    clock = time.process_time()
    found = optimize_inducing(
        process, model=model, inducing=moving, start=start, max_iterations=steps, progressbar=False
    )
    seconds = time.process_time() - clock
    return Optimum(found, Z, *sparse(given, kernel, found.Z), seconds)
