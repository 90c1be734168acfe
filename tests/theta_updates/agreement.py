"""How far two samples of one posterior lie apart, in Monte Carlo standard errors."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import arviz as az
import numpy as np
import pymc as pm

__all__ = ["NAMES", "Moments", "distance", "moments", "sample"]

NAMES = ("lengthscale", "variance")


def sample(model: pm.Model, **settings: Any) -> Any:
    quiet = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return pm.sample(chains=2, cores=1, **quiet, **settings)


class Moments(NamedTuple):
    """Mean and standard deviation of a hyper-parameter's logarithm, their errors, and the errors' reliability."""

    mean: float
    mean_error: float
    deviation: float
    deviation_error: float
    ess: float


def moments(idata: Any) -> dict[str, Moments]:
    log_theta = np.log(idata["posterior"].dataset[list(NAMES)])
    ess, error = az.ess(log_theta, method="bulk"), az.mcse(log_theta, method="sd")
    return {
        name: Moments(
            float(log_theta[name].mean()),
            float(log_theta[name].std() / np.sqrt(ess[name])),
            float(log_theta[name].std()),
            float(error[name]),
            float(ess[name]),
        )
        for name in NAMES
    }


def distance(first: dict[str, Moments], second: dict[str, Moments]) -> float:
    """Largest difference of means and of standard deviations, in Monte Carlo standard errors."""
    distances = []
    for name in NAMES:
        a, b = first[name], second[name]
        distances.append(abs(a.mean - b.mean) / np.hypot(a.mean_error, b.mean_error))
        distances.append(abs(a.deviation - b.deviation) / np.hypot(a.deviation_error, b.deviation_error))
    return max(distances)
