"""All schemes for theta beside NUTS: smallest effective sample size of the hyper-parameters, by time and by operation.

Each scheme moves theta once an iteration, with `LatentHMC` for f beside it where it needs one. NUTS, PyMC's and
nutpie's, samples the whitened model. All chains run one after another on one core, and seconds are those of the
processor, which other programs on the machine disturb little.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import arviz as az
import numpy as np
import xarray as xr
from threadpoolctl import threadpool_limits

import pmgp
from benchmarks.iteration import lapack_seconds
from benchmarks.problems import Problem, load, whitened
from benchmarks.samplers import CHAINS, Run, nutpie_sampler, pilot_seconds, sample

__all__ = ["METHODS", "PROBLEMS", "measure", "rows"]

PROBLEMS = (
    "synthetic-100",
    "synthetic-100-ard",
    "synthetic-100-d10",
    "synthetic-100-d10-ard",
    "synthetic-100-poisson",
    "synthetic-400",
    "synthetic-400-ard",
    "synthetic-400-d10",
    "synthetic-400-d10-ard",
)
_latent = partial(pmgp.steps.LatentHMC, mass="prior")
SCHEMES: dict[str, Callable[[], Any]] = {
    "SA": lambda: [pmgp.steps.Sufficient(), _latent()],
    "AA": lambda: [pmgp.steps.Ancillary(), _latent()],
    "ASIS": lambda: [pmgp.steps.Interweaving(), _latent()],
    "SURR": lambda: [pmgp.steps.Surrogate(), _latent()],
    "KHR": lambda: [pmgp.steps.JointUpdate(), _latent()],
    "AA hmc": lambda: [pmgp.steps.Ancillary(operator="hmc"), _latent()],
    "ASIS hmc": lambda: [pmgp.steps.Interweaving(operator="hmc"), _latent()],
    "PM Laplace": lambda: pmgp.PseudoMarginal(approximation="laplace"),
    "PM EP": lambda: pmgp.PseudoMarginal(approximation="ep"),
}
NUTS = ("NUTS", "nutpie")
METHODS = (*SCHEMES, *NUTS)
TUNE, DRAWS = 1000, 2000
# NUTS takes minutes for what takes seconds here. By n; as many tuning iterations.
NUTS_DRAWS = {100: 400, 400: 40}
# A gradient is one factorization and its reverse mode, which is counted as another.
OPERATIONS_PER_GRADIENT = 2
# Seconds for all chains of a scheme.
LIMIT = 60.0
SMALLEST = 20


def rows(names: Collection[str], methods: Collection[str], known: Collection[tuple[str, str]] = ()) -> Iterator[dict]:
    """A row for every problem and method that is not known yet; nutpie is left out where it is not installed."""
    for name in names:
        problem = load(name)
        for method in methods:
            if (problem.name, method) not in known and (method != "nutpie" or find_spec("nutpie")):
                yield measure(problem, method)


def measure(problem: Problem, method: str, limit: float = LIMIT, seed: int = 1) -> dict[str, Any]:
    """Sample; tuning is in the time, compilation is not.

    Parameters
    ----------
    problem : Problem
    method : str
        One of :data:`METHODS`.
    limit : float
        About how many seconds a scheme may take; at most 1000 tuning iterations and 2000 draws fit into it. NUTS makes
        a fixed number.
    seed : int

    Returns
    -------
    dict
        ``ESS`` is the smallest bulk effective sample size of the hyper-parameters and ``R-hat`` the largest; ``C``,
        ``I``, ``M`` operations of an iteration after tuning, for NUTS from the number of gradients; ``ESS/op`` without
        tuning.
    """
    with threadpool_limits(limits=1):
        run = _nuts(problem) if method in NUTS else _scheme(problem, method, limit)
        seconds, idata = _by_nutpie(run, seed) if method == "nutpie" else sample(run, seed)
        dpotrf_seconds, _ = lapack_seconds(len(problem.y))
    posterior = idata["posterior"].to_dataset()[["lengthscale", "variance"]]
    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    smallest = float(az.ess(posterior).to_array().min(skipna=False))
    counts = _operations(idata["sample_stats"].to_dataset(), method)
    return {
        "data": problem.name,
        "n": len(problem.y),
        "d": problem.X.shape[1],
        "kernel": problem.kernel,
        "likelihood": problem.likelihood,
        "method": method,
        "chains": chains,
        "tune": run.tune,
        "draws": draws,
        "seconds": seconds,
        "ESS": smallest,
        "R-hat": float(az.rhat(posterior).to_array().max(skipna=False)),
        "ESS/s": smallest / seconds,
        **dict(zip("CIM", counts, strict=True)),
        "ESS/op": smallest / (chains * draws * sum(counts)),
        "dpotrf ms": 1e3 * dpotrf_seconds,
    }


def _by_nutpie(run: Run, seed: int) -> tuple[float, xr.DataTree]:
    return nutpie_sampler(run.model)(run.tune, run.draws, seed)


def _nuts(problem: Problem) -> Run:
    number = NUTS_DRAWS[min(NUTS_DRAWS, key=lambda n: abs(n - len(problem.y)))]
    return Run(whitened(problem), number, number)


def _scheme(problem: Problem, method: str, limit: float) -> Run:
    """The step methods, with as many iterations as fit into the time limit."""
    model = problem.model()
    with model:
        step = SCHEMES[method]()
    iterations = limit / CHAINS / pilot_seconds(model, step)
    tune = int(np.clip(iterations / 3, SMALLEST, TUNE))
    return Run(model, tune, int(np.clip(iterations - tune, SMALLEST, DRAWS)), step)


def _operations(stats: xr.Dataset, method: str) -> tuple[float, ...]:
    """#C, #I, #M of an iteration, summed over its step methods."""
    if method in NUTS:
        return OPERATIONS_PER_GRADIENT * float(stats["n_steps"].mean()), 0.0, 0.0
    names = ("n_cholesky", "n_inverse", "n_matmul")
    return tuple(float(stats[name].mean(("chain", "draw")).sum()) for name in names)
