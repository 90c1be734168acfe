"""Log-Gaussian Cox processes on lattices: time of an independent draw of the hyper-parameters, and of a sweep.

Counts are drawn from the model, with a standard deviation of one and a length-scale of a sixteenth of the side. One
chain on one core. NUTS moves the field and the hyper-parameters together, within a budget of processor seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter, process_time
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
from threadpoolctl import threadpool_limits

import pmgp
from benchmarks.time_series import NUTS_TUNING, Clock
from pmgp.core.approximations import ExpectationPropagation
from pmgp.interface.model.taking_apart import take_apart

__all__ = ["cox", "measure", "rows", "sweep", "sweeps"]

SIDES = (64, 128)


def cox(side: int) -> pm.Model:
    """Counts on a square lattice with this number of cells along a side."""
    lattice = pmgp.gp.Lattice((side, side))
    rng = np.random.default_rng(1)
    with pm.Model():
        drawn = pm.draw(pmgp.gp.SPDE(lattice, lengthscale=side / 16.0, sigma=1.0).prior("f"), random_seed=1)
    with pm.Model() as model:
        level, sigma = pm.Normal("level", 0.0, 2.0), pm.HalfNormal("sigma", 2.0)
        lengthscale = pm.InverseGamma("lengthscale", 3.0, side / 6.0)
        f = pmgp.gp.SPDE(lattice, lengthscale=lengthscale, sigma=sigma).prior("f")
        pm.Poisson("y", pm.math.exp(level + f), observed=rng.poisson(np.exp(drawn)))
    return model


def measure(model: pm.Model, method: str, draws: int, tune: int, budget: float = np.inf) -> dict[str, Any]:
    """Sample one chain with ``pmgp`` or ``nuts``, and stop when a budget of processor seconds is spent.

    Seconds are those of the whole run, tuning included.
    """
    with threadpool_limits(limits=1), model:
        options: dict[str, Any] = {"step": pmgp.PseudoMarginal()} if method == "pmgp" else {"nuts_sampler": "pymc"}
        settings = {"progressbar": False, "compute_convergence_checks": False, "random_seed": 1}
        settings["callback"] = Clock(budget)
        start, wall = process_time(), perf_counter()
        idata = pm.sample(draws, tune=tune, chains=1, cores=1, **settings, **options)
        seconds, wall = process_time() - start, perf_counter() - wall
    ess = az.ess(idata, var_names=["level", "sigma", "lengthscale"])
    smallest = min(float(value) for value in ess.data_vars.values())
    return {
        "n": idata["posterior"].sizes["f_dim_0"],
        "method": method,
        "draws": f"{tune} + {idata['posterior'].sizes['draw']}",
        "processor s": seconds,
        "wall s": wall,
        "min ESS": smallest,
        "s per independent draw": seconds / smallest,
    }


def rows(draws: int = 300, tune: int = 300, nuts: float = 800.0) -> Iterator[dict[str, Any]]:
    """Both sizes, and NUTS on the smaller one.

    Parameters
    ----------
    draws, tune : int
        Of the pseudo-marginal chain.
    nuts : float
        Processor seconds that NUTS may take; none for no run of it.
    """
    for side in SIDES:
        yield measure(cox(side), "pmgp", draws, tune)
    if nuts:
        yield measure(cox(SIDES[0]), "nuts", 1000, NUTS_TUNING, nuts)


def sweep(side: int) -> dict[str, Any]:
    """Processor time of a sweep of expectation propagation beside that of its factorization and selected inverse."""
    parts = take_apart(cox(side))
    theta = parts.initial_theta
    prior, likelihood = parts.prior(theta), parts.likelihood(theta)
    fit = ExpectationPropagation().fit
    q, whole = _best(lambda: fit(parts.prior(theta), likelihood))
    factor, factorization = _best(lambda: prior.pattern.factorize(prior.values))
    _, inverse = _best(factor.covariances)
    each = whole / q.iterations
    return {
        "n": side**2,
        "sweeps": q.iterations,
        "sweep ms": 1e3 * each,
        "factorization ms": 1e3 * factorization,
        "selected inverse ms": 1e3 * inverse,
        "ratio": each / (factorization + inverse),
    }


def sweeps() -> Iterator[dict[str, Any]]:
    """Both sizes."""
    return map(sweep, SIDES)


def _best(call: Callable[[], Any], repeats: int = 3) -> tuple[Any, float]:
    """Return the result of a call and the shortest of its times."""
    seconds = []
    for _ in range(repeats):
        start = process_time()
        found = call()
        seconds.append(process_time() - start)
    return found, min(seconds)
