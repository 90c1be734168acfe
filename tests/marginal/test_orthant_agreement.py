"""Chains with estimates from orthants agree with chains with importance samples, and with the exact posterior."""

from __future__ import annotations

import warnings
from functools import cache

import arviz as az
import numpy as np
import pymc as pm
import pytest

import pmgp
from tests.test_open_interfaces import distance, sampled

BOUND = 4.0
# Signal variance at which labels leave the process far from zero, and importance weights vary.
LARGE = 1000.0


def test_the_exact_posterior_of_four_labels():
    """The log variance, by quadrature over it."""
    assert distance(sampled(estimator=pmgp.OrthantSampling(4))) < BOUND


@cache
def moments_of(kind: str, estimator: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means of the log length-scale, of some f and of their squares; their errors; effective sample sizes."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 2))
    signal = X[:, 0] + 0.3 * rng.normal(size=40)
    with pm.Model():
        lengthscale = pm.LogNormal("lengthscale", 0.5, 0.5)
        variance = LARGE if kind == "probit" else 50.0
        f = pm.gp.Latent(cov_func=variance * pm.gp.cov.ExpQuad(2, ls=lengthscale)).prior("f", X=X, reparameterize=False)
        if kind == "probit":
            pmgp.BernoulliProbit("y", f, observed=(signal > 0.0).astype(int))
        else:
            pmgp.OrdinalProbit("y", f, thresholds=[-2.0, 2.0], observed=np.digitize(signal, [-0.6, 0.6]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            idata = pm.sample(
                1500, tune=600, chains=2, cores=1, step=pmgp.PseudoMarginal(estimator=estimator), random_seed=5,
                progressbar=False, compute_convergence_checks=False,
            )  # fmt: skip
    log_scale = np.log(idata.posterior["lengthscale"].to_numpy())
    f = idata.posterior["f"].to_numpy()[..., :5] / 10.0
    draws = np.concatenate([log_scale[..., None], f], axis=-1)
    draws = np.concatenate([draws, np.square(draws)], axis=-1)
    columns = [draws[..., k] for k in range(draws.shape[-1])]
    errors = np.array([float(az.mcse(column, method="mean")) for column in columns])
    sizes = np.array([float(az.ess(column)) for column in columns])
    return draws.mean(axis=(0, 1)), errors, sizes


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["probit", "ordinal"])
def test_orthants_agree_with_importance_samples_where_the_variance_is_large(kind):
    first, second = moments_of(kind, "orthant"), moments_of(kind, "importance")
    assert min(first[2].min(), second[2].min()) > 150.0
    assert np.all(np.abs(first[0] - second[0]) < BOUND * np.hypot(first[1], second[1]))
