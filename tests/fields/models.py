"""PyMC models of maps, and the matrices that they are made of."""

from __future__ import annotations

import numpy as np
import pymc as pm

__all__ = ["around", "conditional", "counts_on", "lattice_neighbors", "normal_on"]


def lattice_neighbors(rows: int, columns: int) -> np.ndarray:
    """Which cells of a lattice have a side in common: (n, n)."""
    above, beside = (np.eye(size, k=1) + np.eye(size, k=-1) for size in (rows, columns))
    return np.kron(above, np.eye(columns)) + np.kron(np.eye(rows), beside)


def conditional(neighbors, mean=0.3):
    """`pm.CAR` with two hyper-parameters; PyMC makes numbers of Python single precision."""
    alpha, tau = pm.Uniform("alpha", -0.99, 0.99), pm.Gamma("tau", 3.0, 2.0)
    n = neighbors.shape[0]
    return pm.CAR("s", mu=np.full(n, np.float64(mean)), W=neighbors, alpha=alpha, tau=tau)


def normal_on(field, n: int, *arguments, **settings) -> pm.Model:
    """Normal observations of a field."""
    with pm.Model() as model:
        pm.Normal("y", field(*arguments, **settings), np.float64(0.5), observed=np.cos(np.arange(n)))
    return model


def counts_on(field, n: int, *arguments, seed: int = 0, **settings) -> pm.Model:
    """Counts with expected ones, a covariate, and a field in the log of their mean."""
    rng = np.random.default_rng(seed)
    expected, covariate = rng.uniform(1.0, 5.0, n), rng.normal(size=n)
    with pm.Model() as model:
        level, slope = pm.Normal("level", 0.0, 1.0), pm.Normal("slope", 0.0, 1.0)
        s = field(*arguments, **settings)
        smooth = np.sin(np.arange(n) / 5.0) + 0.3 * rng.normal(size=n)
        observed = rng.poisson(expected * np.exp(0.2 + 0.4 * covariate + 0.6 * smooth))
        pm.Poisson("y", pm.math.exp(np.log(expected) + level + slope * covariate + s), observed=observed)
    return model


def around(parts, number: int = 3, scale: float = 0.3) -> list[np.ndarray]:
    """Points near the initial theta."""
    rng = np.random.default_rng(1)
    return [parts.initial_theta + scale * rng.standard_normal(parts.dimension) for _ in range(number)]
