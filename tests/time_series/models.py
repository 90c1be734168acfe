"""PyMC models of time series, with data drawn from them.

PyMC makes numbers of Python single precision, so that its own densities have seven digits; those here are NumPy's.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt

__all__ = ["SERIES", "counts", "volatility"]


def _stationary(n: int):
    rho, sigma = pm.Uniform("rho", -0.9, 0.95), pm.HalfNormal("sigma", 1.0)
    init = pm.Normal.dist(0.0, sigma / pt.sqrt(1.0 - rho**2))
    return pm.AR("x", rho=rho, sigma=sigma, init_dist=init, shape=n)


def _with_constant(n: int):
    rho, level = pm.Uniform("rho", -0.9, 0.9), pm.Normal("level", 1.0, 0.5)
    init = pm.Normal.dist(level, np.float64(1.9))
    return pm.AR(
        "x", rho=pt.stack([level * (1.0 - rho), rho]), sigma=np.float64(0.7), constant=True, init_dist=init, shape=n
    )


def _second_order(n: int):
    rho, tau = pm.Normal("rho", [0.4, -0.3], 0.2), pm.Gamma("tau", 4.0, 2.0)
    return pm.AR(
        "x", rho=rho, tau=tau, init_dist=pm.Normal.dist(np.array([0.5, -0.2]), np.array([1.0, 1.5])), steps=n - 2
    )


def _third_order(n: int):
    """With first values that depend on each other."""
    rho, scale = pm.Normal("rho", [0.3, 0.2, -0.4], 0.1), pm.HalfNormal("scale", 1.0)
    near = 0.6 ** np.abs(np.subtract.outer(np.arange(3), np.arange(3)))
    init = pm.MvNormal.dist(np.array([0.1, 0.2, 0.3]), scale**2 * near)
    return pm.AR("x", rho=rho, sigma=scale, init_dist=init, shape=n)


def _walk(n: int):
    drift, sigma = pm.Normal("drift", 0.1, 0.1), pm.HalfNormal("sigma", 0.5)
    return pm.GaussianRandomWalk("x", mu=drift, sigma=sigma, init_dist=pm.Normal.dist(drift, np.float64(2.0)), shape=n)


def _walk_of_parts(n: int):
    sigma = pm.HalfNormal("sigma", 0.5)
    innovation = pm.Normal.dist(0.0, sigma)
    return pm.RandomWalk(
        "x", init_dist=pm.Normal.dist(np.float64(0.3), np.float64(1.5)), innovation_dist=innovation, steps=n - 1
    )


SERIES = {
    "stationary": _stationary,
    "constant": _with_constant,
    "second order": _second_order,
    "third order": _third_order,
    "walk": _walk,
    "walk of parts": _walk_of_parts,
}


def counts(n: int, seed: int = 0) -> pm.Model:
    """Poisson counts along a stationary autoregression, with a level that is a hyper-parameter of the likelihood."""
    rng = np.random.default_rng(seed)
    f = np.empty(n)
    f[0] = rng.normal()
    for t in range(1, n):
        f[t] = 0.8 * f[t - 1] + 0.6 * rng.normal()
    with pm.Model() as model:
        level = pm.Normal("level", 0.0, 2.0)
        x = _stationary(n)
        pm.Poisson("y", pm.math.exp(level + x), observed=rng.poisson(np.exp(0.4 + f)))
    return model


def volatility(n: int, seed: int = 0) -> pm.Model:
    """Returns whose log-variance is an autoregression."""
    rng = np.random.default_rng(seed)
    f = np.empty(n)
    f[0] = rng.normal()
    for t in range(1, n):
        f[t] = 0.9 * f[t - 1] + 0.4 * rng.normal()
    with pm.Model() as model:
        level = pm.Normal("level", 0.0, 2.0)
        x = _stationary(n)
        pm.Normal("r", 0.0, pm.math.exp((level + x) / 2.0), observed=rng.normal(size=n) * np.exp(f / 2.0))
    return model
