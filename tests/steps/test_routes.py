"""Several routes to one posterior: trajectories, turns of these with proposals, a corrected marginal model, and NUTS.

On a model with a length-scale for each of ten inputs, and on one whose likelihood has a parameter.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr

import pmgp
from pmgp.core.transitions.alternation import Alternation
from tests.references import Reference, apart, summarized

QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False, "chains": 2, "cores": 1}
# Means and standard deviations of log theta, at most eleven of each, in Monte Carlo standard errors.
BOUND = 4.0


def ten_inputs(whitened: bool) -> pm.Model:
    """Eleven hyper-parameters and thirty labels; two of the inputs matter."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 10))
    labels = (np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=30) > 0).astype(int)
    with pm.Model() as model:
        lengthscale = pm.LogNormal("lengthscale", 1.0, 0.7, shape=10)
        variance = pm.Gamma("variance", 2, 0.5)
        gp = pm.gp.Latent(cov_func=variance * pm.gp.cov.ExpQuad(10, ls=lengthscale))
        pmgp.BernoulliProbit("y", gp.prior("f", X=X, reparameterize=whitened), observed=labels)
    return model


def overdispersed_counts(whitened: bool) -> pm.Model:
    """The likelihood has a parameter of its own."""
    rng = np.random.default_rng(1)
    X = np.sort(rng.uniform(-2.0, 2.0, size=30))[:, None]
    counts = rng.negative_binomial(3.0, 3.0 / (3.0 + np.exp(1.0 + np.sin(2.0 * X[:, 0]))))
    with pm.Model() as model:
        lengthscale = pm.Gamma("lengthscale", 4, 4)
        variance = pm.Gamma("variance", 2, 1)
        alpha = pm.Gamma("alpha", 3, 1)
        gp = pm.gp.Latent(cov_func=variance * pm.gp.cov.Matern52(1, ls=lengthscale))
        f = gp.prior("f", X=X, reparameterize=whitened)
        pm.NegativeBinomial("y", mu=pm.math.exp(f), alpha=alpha, observed=counts)
    return model


class Route(NamedTuple):
    """A model, a proposal of the pseudo-marginal chain, its iterations, and NUTS on the whitened model."""

    build: Callable[[bool], pm.Model]
    proposal: str | Alternation
    tune: int
    draws: int
    seed: int
    nuts: Reference


TEN_INPUTS = Reference("ten inputs", partial(ten_inputs, True), ("lengthscale", "variance"), logs=True)
OVERDISPERSED = Reference(
    "overdispersed counts", partial(overdispersed_counts, True), ("lengthscale", "variance", "alpha"), logs=True
)
TRAJECTORIES = Route(ten_inputs, "hmc", 500, 1000, 1, TEN_INPUTS)
TURNS = Route(overdispersed_counts, Alternation(), 400, 700, 12, OVERDISPERSED)


def drawn(route: Route) -> pd.DataFrame:
    """Moments of log theta along a route."""
    with route.build(False):
        step = pmgp.PseudoMarginal(proposal=route.proposal)
        idata = pm.sample(route.draws, tune=route.tune, step=step, random_seed=route.seed, **QUIET)
    return log_theta(idata, route.nuts)


def log_theta(idata, nuts: Reference) -> pd.DataFrame:
    found = summarized(idata, nuts.variables, logs=True)
    assert found["r_hat"].max() - 1.0 < 0.03
    return found


def distance(first: pd.DataFrame, second: pd.DataFrame) -> float:
    """Largest difference of moments, in standard errors."""
    return float(apart(first, second).to_numpy().max())


@pytest.fixture(scope="module")
def trajectories():
    return drawn(TRAJECTORIES)


def test_trajectories_agree_with_nuts(trajectories):
    assert distance(trajectories, TEN_INPUTS.summary()) < BOUND


def test_turns_agree_with_nuts():
    assert distance(drawn(TURNS), OVERDISPERSED.summary()) < BOUND


# A model with f integrated out, and its correction


@pytest.fixture(scope="module")
def approximate():
    """Draws under Laplace's evidence, which is far off for labels."""
    with pmgp.marginal.approximate(ten_inputs(whitened=False), approximation="laplace"), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return pm.sample(900, tune=250, nuts_sampler="pymc", random_seed=7, **QUIET)


def test_a_corrected_marginal_model_agrees_with_them(trajectories, approximate):
    corrected = pmgp.marginal.correct(approximate, model=ten_inputs(whitened=False), random_seed=8, progressbar=False)
    assert corrected.attrs["words"].endswith("): reliable")
    for found in (trajectories, TEN_INPUTS.summary()):
        assert distance(log_theta(corrected, TEN_INPUTS), found) < BOUND
    # Without the correction the comparison notices.
    assert distance(log_theta(approximate, TEN_INPUTS), TEN_INPUTS.summary()) > 2.0 * BOUND


def test_the_mean_of_the_weights_is_the_ratio_of_the_evidences(approximate):
    model = ten_inputs(whitened=False)
    settings = {"model": model, "progressbar": False}
    weighted = pmgp.marginal.correct(approximate, resample=False, random_seed=8, **settings)
    log_weights = weighted["sample_stats"]["log_weight"].to_numpy()
    relative = np.exp(log_weights - weighted.attrs["log_mean_weight"])
    error = float(az.mcse(xr.Dataset({"w": (("chain", "draw"), relative)}), method="mean")["w"])
    exact = pmgp.evidence(weighted, random_seed=9, **settings)
    laplace = pmgp.evidence(approximate, estimator="none", approximation="laplace", random_seed=10, **settings)
    expected = exact.log_evidence - laplace.log_evidence
    spread = np.sqrt(error**2 + exact.standard_error**2 + laplace.standard_error**2)
    assert abs(weighted.attrs["log_mean_weight"] - expected) < BOUND * spread
    # The ratio is not one, and the errors are small enough to tell.
    assert abs(expected) > 2.0 * BOUND * spread
