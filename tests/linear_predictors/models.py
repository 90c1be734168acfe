"""PyMC models whose linear predictors are sums of latent variables, with data drawn from them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt

__all__ = ["Rows", "crossed", "rows", "trend_and_groups"]


class Rows(NamedTuple):
    """What each observation belongs to."""

    z: np.ndarray
    first: np.ndarray
    second: np.ndarray
    counts: np.ndarray


def rows(number: int, groups: int, others: int, seed: int = 0) -> Rows:
    """Draw groups, a covariate and counts."""
    rng = np.random.default_rng(seed)
    z, first, second = rng.normal(size=number), rng.integers(groups, size=number), rng.integers(others, size=number)
    u, v = 0.7 * rng.normal(size=groups), 0.5 * rng.normal(size=others)
    return Rows(z, first, second, rng.poisson(np.exp(0.5 + 0.3 * z + u[first] + v[second])))


def crossed(data: Rows, groups: int, others: int) -> pm.Model:
    """Poisson counts with effects of two sets of groups."""
    with pm.Model() as model:
        level, slope = pm.Normal("level", 0.0, 2.0), pm.Normal("slope", 0.0, 1.0)
        tau, omega = pm.HalfNormal("tau", 1.0), pm.HalfNormal("omega", 1.0)
        u, v = pm.Normal("u", 0.0, tau, shape=groups), pm.Normal("v", 0.0, omega, shape=others)
        eta = level + slope * data.z + u[data.first] + v[data.second]
        pm.Poisson("y", pm.math.exp(eta), observed=data.counts)
    return model


def trend_and_groups(data: Rows, groups: int, times: int) -> pm.Model:
    """A normal likelihood of an autoregression, effects of groups, and slopes of a covariate that differ by group."""
    with pm.Model() as model:
        rho, tau = pm.Uniform("rho", -0.9, 0.95), pm.HalfNormal("tau", 1.0)
        noise = pm.HalfNormal("noise", 1.0)
        init = pm.Normal.dist(0.3, pt.sqrt(1.0 / (1.0 - rho**2)))
        s = pm.AR("s", rho=rho, sigma=np.float64(1.0), init_dist=init, shape=times)
        u, w = pm.Normal("u", 0.2, tau, shape=groups), pm.Normal("w", 0.0, 2.0 * tau, shape=groups)
        eta = s[data.second] + u[data.first] + data.z * w[data.first]
        pm.Normal("y", 0.5 + eta, noise, observed=np.log1p(data.counts) + 0.1 * data.z)
    return model
