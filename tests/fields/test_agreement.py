"""Chains on 49 areas agree with PyMC's NUTS."""

from __future__ import annotations

import arviz as az
import numpy as np
import pymc as pm
import pytest

import pmgp
from tests.fields.models import counts_on, lattice_neighbors


def areas(neighbors):
    alpha, tau = pm.Uniform("alpha", 0.0, 1.0), pm.Gamma("tau", 3.0, 1.0)
    n = len(neighbors)
    return pm.CAR("s", mu=np.zeros(n), W=neighbors, alpha=alpha, tau=tau)


def moments(idata) -> tuple[np.ndarray, np.ndarray]:
    """Means of the hyper-parameters and of some areas, and their Monte Carlo errors."""
    names = ["level", "slope", "alpha", "tau", "s"]
    summary = az.summary(idata.posterior.dataset.isel(s_dim_0=slice(0, 49, 12))[names], round_to="none")
    return summary["mean"].to_numpy(float), summary["mcse_mean"].to_numpy(float)


@pytest.mark.slow
def test_areas_agree_with_nuts():
    model = counts_on(areas, 49, lattice_neighbors(7, 7))
    settings = {"chains": 1, "cores": 1, "random_seed": 1, "progressbar": False, "compute_convergence_checks": False}
    with model:
        ours = pm.sample(1500, tune=500, step=pmgp.PseudoMarginal(), **settings)
        theirs = pm.sample(1500, tune=700, compile_kwargs={"mode": "JAX"}, **settings)
    (mean, error), (other, other_error) = moments(ours), moments(theirs)
    # Root mean squares of differences in Monte Carlo errors, near one.
    assert np.sqrt(np.mean(((mean - other) / np.hypot(error, other_error)) ** 2)) < 2.0
    # A twin that forgets what is drawn of the field.
    assert np.sqrt(np.mean((other[4:] / np.hypot(error, other_error)[4:]) ** 2)) > 2.0
