"""Smallest effective sample size of the hyper-parameters per second, beside PyMC's NUTS on the whitened model."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
from threadpoolctl import threadpool_limits

import pmgp
from benchmarks.problems import Problem, whitened

__all__ = ["measure"]


def measure(problem: Problem, method: str, draws: int, tune: int, chains: int = 4, seed: int = 1) -> dict[str, Any]:
    """Sample with ``pmgp laplace``, ``pmgp ep`` or ``nuts``.

    Tuning is in the time, compilation is not; one BLAS thread, two cores.
    Both are run by `pymc.sample` with the same settings, so that PyMC's own overhead is on both sides.
    """
    own, _, approximation = method.partition(" ")
    model = problem.model() if own == "pmgp" else whitened(problem)
    with threadpool_limits(limits=1), model:
        options: dict[str, Any] = {"nuts_sampler": "pymc"}
        if own == "pmgp":
            options = {"step": pmgp.PseudoMarginal(approximation=approximation)}
        start = perf_counter()
        idata = pm.sample(
            draws,
            tune=tune,
            chains=chains,
            cores=2,
            random_seed=seed,
            progressbar=False,
            compute_convergence_checks=False,
            blas_cores=2,
            **options,
        )
        wall = perf_counter() - start
    names = ["lengthscale", "variance"]
    ess = az.ess(idata, var_names=names)
    rhat = az.rhat(idata, var_names=names)
    smallest = min(float(np.min(ess[name])) for name in names)
    seconds = float(idata["posterior"].attrs.get("sampling_time", wall))
    return {
        "data": problem.name,
        "method": method,
        "draws": f"{chains} x ({tune} + {draws})",
        "seconds": seconds,
        "min ESS": smallest,
        "R-hat": max(float(np.max(rhat[name])) for name in names),
        "ESS/s": smallest / seconds,
        "ESS/draw": smallest / (chains * draws),
    }
