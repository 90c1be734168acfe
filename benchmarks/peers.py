"""Peers: the same model, data, priors, number of threads and budget of time for this package and for others.

Each tool samples a problem in a process of its own, on one core. Runs get longer until the next one would take more
than the budget, or one with enough iterations has converged, and the last of them is reported. Seconds are those of the
processor, with tuning and without compilation. A tool that is not installed, data that cannot be had, and a run without
end have their rows, too. Windows has neither these limits nor this account of memory, so nothing is measured there.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import arviz as az
import numpy as np
import xarray as xr
from threadpoolctl import threadpool_limits

import pmgp
from benchmarks import gpflow_process
from benchmarks.problems import Problem, load, whitened
from benchmarks.samplers import CHAINS, Run, correcting_sampler, nutpie_sampler, sample, sample_by_numpyro
from pmgp.core.importance import effective_size
from pmgp.datasets import DatasetError

__all__ = ["BUDGET", "MISSING", "NUTS", "PROBLEMS", "TOOLS", "measure", "rows"]

PROBLEMS = (
    *(f"synthetic-{n}{d}{ard}" for n in (100, 200, 400) for d in ("", "-d10") for ard in ("", "-ard")),
    "crabs",
    "crabs-ard",
    "thyroid",
    "thyroid-ard",
    "pima",
    "breast",
    "ionosphere-ard",
    "spect-ard",
)
# These may have causes that are gone the next time.
MISSING = ("no data", "not installed", "failed")
# Seconds for all chains of a tool, without compilation.
BUDGET = 120.0
# Iterations of each chain, as many for tuning: of the first run, of one that is not made longer if it has converged,
# and of the longest.
FIRST, ENOUGH, MOST = 20, 1000, 50_000
LARGEST_GROWTH = 8.0
# What a run should take of the budget; beyond HALF no longer one follows.
WANTED, HALF = 0.8, 0.5
# A first run that takes forever is given up after so many budgets, and seconds for compilation, of the processor; and
# after so many times as long by the clock, should it wait for something.
PATIENCE, COMPILATION, WAITING = 2.0, 90.0, 20.0
# What counts as converged (Vehtari et al. 2021).
LARGEST_RHAT, SMALLEST_ESS = 1.01, 100.0 * CHAINS
HYPERPARAMETERS = ("lengthscale", "variance", "weights")
ONE_THREAD = {
    **dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS"), "1"
    ),
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}

# From tuning iterations, draws and a seed to seconds and draws.
Sampler = Callable[[int, int, int], tuple[float, xr.DataTree]]


class Tool(NamedTuple):
    """A package, how it samples a problem, and how its version is found, which fails where it is not installed."""

    package: str
    prepare: Callable[[Problem], Sampler]
    release: Callable[[str], str] = version


def _steps(steps: Callable[[], Any]) -> Callable[[Problem], Sampler]:
    """Step methods of this package."""

    def prepare(problem: Problem) -> Sampler:
        model = problem.model()
        with model:
            step = steps()
        return lambda tune, draws, seed: sample(Run(model, tune, draws, step), seed)

    return prepare


def _whitened(draw: Callable[[Run, int], tuple[float, xr.DataTree]]) -> Callable[[Problem], Sampler]:
    """NUTS on the whitened model, which is what it needs."""

    def prepare(problem: Problem) -> Sampler:
        model = whitened(problem)
        return lambda tune, draws, seed: draw(Run(model, tune, draws), seed)

    return prepare


def _blackjax(name: str) -> Callable[[Problem], Sampler]:
    """One of BlackJAX's samplers, by the name of its function; JAX is not imported before it is wanted."""
    return lambda problem: getattr(import_module("benchmarks.blackjax_theta"), name)(problem)


def _article() -> pmgp.PseudoMarginal:
    """The pseudo-marginal chain as it was published: a random walk, and an estimate for each of its proposals."""
    return pmgp.PseudoMarginal(
        proposal="metropolis",
        estimator=pmgp.estimators.ImportanceSampling(64),
        delayed_acceptance=False,
        refresh_every=0,
    )


TOOLS = {
    "pmgp": Tool("pmgp", _steps(pmgp.PseudoMarginal)),
    "plain pseudo-marginal": Tool("pmgp", _steps(_article)),
    "AA": Tool("pmgp", _steps(lambda: [pmgp.steps.Ancillary(), pmgp.steps.LatentHMC(mass="prior")])),
    "marginalize and correct": Tool("pmgp", lambda problem: correcting_sampler(problem.model())),
    "NUTS": Tool("pymc", _whitened(sample)),
    "nutpie": Tool("nutpie", lambda problem: nutpie_sampler(whitened(problem))),
    "NumPyro": Tool("numpyro", _whitened(sample_by_numpyro)),
    "BlackJAX Laplace-HMC": Tool("blackjax", _blackjax("laplace_hmc")),
    "BlackJAX latent Gaussian": Tool("blackjax", _blackjax("latent_gaussian")),
    "GPflow GPMC": Tool("gpflow", gpflow_process.sampler, gpflow_process.release),
}
NUTS = ("NUTS", "nutpie", "NumPyro")


def rows(
    names: Collection[str], tools: Collection[str], budget: float, known: Collection[tuple[str, str]] = ()
) -> Iterator[dict[str, Any]]:
    """A row for every problem and tool that is not known yet."""
    for name in names:
        try:
            problem = load(name)
        except DatasetError:
            problem = Problem(name, None, None, "")
        for tool in tools:
            if (problem.name, tool) not in known:
                yield measure(problem, name, tool, budget)


def measure(problem: Problem, name: str, tool: str, budget: float) -> dict[str, Any]:
    """Sample in another process.

    Parameters
    ----------
    problem : Problem
        Without inputs where they cannot be had.
    name : str
        Of the problem, for :func:`benchmarks.problems.load`.
    tool : str
        One of :data:`TOOLS`.
    budget : float
        Seconds.

    Returns
    -------
    dict
        ``ESS`` is the smallest bulk effective sample size of the hyper-parameters and ``R-hat`` the largest; ``MB`` the
        most memory that the process had. ``status`` says whether the chains have converged, or why there is none;
        ``load`` is the machine's average load before, of which one core should have been enough.
    """
    origin = {"budget": budget, "load": os.getloadavg()[0]}
    return _measured(problem, name, tool, budget) | origin


def _measured(problem: Problem, name: str, tool: str, budget: float) -> dict[str, Any]:
    if problem.y is None:
        return _row(problem, tool, "", "no data")
    try:
        release = TOOLS[tool].release(TOOLS[tool].package)
    except PackageNotFoundError:
        return _row(problem, tool, "", "not installed")
    limit = PATIENCE * budget + COMPILATION
    words = [sys.executable, "-m", "benchmarks.peers", name, tool, str(budget), str(limit)]
    settings = {"env": os.environ | ONE_THREAD, "cwd": Path(__file__).parents[1], "stdout": subprocess.PIPE}
    try:
        done = subprocess.run(words, timeout=WAITING * limit, text=True, check=True, **settings)
    except subprocess.TimeoutExpired:
        return _row(problem, tool, release, "over budget")
    except subprocess.CalledProcessError as error:
        ended = error.returncode == -signal.SIGXCPU
        return _row(problem, tool, release, "over budget" if ended else "failed")
    figures = json.loads(done.stdout.splitlines()[-1])
    converged = has_converged(figures["R-hat"], figures["ESS"])
    return _row(problem, tool, release, "converged" if converged else "not converged") | figures


def _row(problem: Problem, tool: str, release: str, status: str) -> dict[str, Any]:
    """A row without figures."""
    n, d = (0, 0) if problem.X is None else problem.X.shape
    origin = {"data": problem.name, "n": n, "d": d, "kernel": problem.kernel, "tool": tool, "release": release}
    figures = dict.fromkeys(("tune", "draws", "seconds", "ESS", "R-hat", "ESS/s", "MB"), float("nan"))
    return origin | {"status": status, "chains": CHAINS} | figures


def figures(problem: Problem, tool: str, budget: float, seed: int = 1) -> dict[str, float]:
    """Sample in this process, and how well that went."""
    with threadpool_limits(limits=1):
        iterations, seconds, idata = longest(TOOLS[tool].prepare(problem), budget, seed)
    rhat, smallest = convergence(idata)
    return {
        "tune": iterations,
        "draws": iterations,
        "seconds": seconds,
        "ESS": smallest,
        "R-hat": rhat,
        "ESS/s": smallest / seconds,
        "MB": _megabytes(),
    }


def convergence(idata: xr.DataTree) -> tuple[float, float]:
    """The largest R-hat and the smallest bulk ESS of the hyper-parameters.

    For draws with weights w, both are those of the draws, and the ESS is then multiplied by the relative ESS of the
    weights, (sum w)^2 / (n sum w^2).
    """
    drawn = idata["posterior"].to_dataset()
    posterior = drawn[[name for name in HYPERPARAMETERS if name in drawn]]
    rhat = az.rhat(posterior).to_array().max(skipna=False)
    return float(rhat), float(az.ess(posterior).to_array().min(skipna=False)) * _weights_worth(idata)


def _weights_worth(idata: xr.DataTree) -> float:
    """Worth of weighted draws as a share of as many equal ones; 1 where they have no weights."""
    if "sample_stats" not in idata or "log_weight" not in idata["sample_stats"]:
        return 1.0
    log_weights = np.ravel(idata["sample_stats"]["log_weight"])
    return effective_size(log_weights) / log_weights.size


def has_converged(rhat: float, ess: float) -> bool:
    """Whether four chains may be trusted; never, where a figure is missing."""
    return rhat < LARGEST_RHAT and ess > SMALLEST_ESS


def longest(sampler: Sampler, budget: float, seed: int) -> tuple[int, float, xr.DataTree]:
    """The longest run for a budget, or the first of enough iterations that has converged.

    Each run says how long the next one may be: what an iteration takes depends on what has been tuned.

    Returns
    -------
    iterations : int
        Of each chain, as many for tuning.
    seconds : float
    idata : DataTree
    """
    iterations = FIRST
    while True:
        seconds, idata = sampler(iterations, iterations, seed)
        if seconds > HALF * budget or iterations == MOST:
            return iterations, seconds, idata
        if iterations >= ENOUGH and has_converged(*convergence(idata)):
            return iterations, seconds, idata
        growth = min(LARGEST_GROWTH, WANTED * budget / seconds) if seconds > 0.0 else LARGEST_GROWTH
        limit = ENOUGH if iterations < ENOUGH else MOST
        iterations = min(limit, int(growth * iterations))


def _megabytes() -> float:
    """Most memory that this process, or one that it started, had at a time."""
    import resource

    unit = 1.0 if sys.platform == "darwin" else 1024.0
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return unit * max(resource.getrusage(each).ru_maxrss for each in who) / 1e6


if __name__ == "__main__":
    import resource

    _name, _tool, _budget, _limit = sys.argv[1:]
    # The system ends a process that takes more than that of the processor.
    resource.setrlimit(resource.RLIMIT_CPU, (max(1, int(float(_limit))), resource.RLIM_INFINITY))
    print(json.dumps(figures(load(_name), _tool, float(_budget))))
