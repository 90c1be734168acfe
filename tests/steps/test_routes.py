"""Several routes to one posterior: trajectories, turns of these with proposals, NUTS, and a corrected marginal model.

On a model with a length-scale for each of ten inputs, and on one whose likelihood has a parameter.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import arviz as az
import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pmgp
from pmgp.core.transitions.alternation import Alternation

pytestmark = pytest.mark.slow
QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False, "chains": 2, "cores": 1}
NAMES = ("lengthscale", "variance", "alpha")
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
    """A proposal of the pseudo-marginal chain, or none for NUTS on the whitened model, and iterations."""

    proposal: str | Alternation | None
    tune: int
    draws: int
    seed: int
    settings: Mapping[str, Any] = {}


# JAX compiles this model in seconds, Numba in a minute; the other one takes JAX minutes, and Numba half of one.
JAX = {"compile_kwargs": {"mode": "JAX"}}
ROUTES = {
    (ten_inputs, "trajectories"): Route("hmc", 500, 1000, 1),
    (ten_inputs, "NUTS"): Route(None, 400, 500, 3, JAX),
    (overdispersed_counts, "turns"): Route(Alternation(), 400, 700, 12),
    (overdispersed_counts, "NUTS"): Route(None, 400, 600, 6),
}


@pytest.fixture(scope="module")
def drawn():
    """Log theta along a route; each is taken once."""

    @cache
    def taken(build, name: str) -> xr.Dataset:
        route = ROUTES[build, name]
        with build(whitened=route.proposal is None) as model:
            step = None if route.proposal is None else pmgp.PseudoMarginal(proposal=route.proposal)
            theta = [name for name in NAMES if name in model.named_vars]
            sampler = {"step": step, "nuts_sampler": "pymc", "random_seed": route.seed, "var_names": theta}
            return log_theta(pm.sample(route.draws, tune=route.tune, **route.settings, **sampler, **QUIET))

    return taken


def log_theta(idata) -> xr.Dataset:
    posterior = idata["posterior"].to_dataset()
    return np.log(posterior[[name for name in NAMES if name in posterior]])


def moments(draws: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations, and their Monte Carlo standard errors."""
    assert max(float(az.rhat(draws)[name].max()) for name in draws) - 1.0 < 0.03
    found = draws.mean(("chain", "draw")), draws.std(("chain", "draw"))
    errors = az.mcse(draws, method="mean"), az.mcse(draws, method="sd")
    flat = [np.concatenate([np.ravel(part[name]) for part in parts for name in draws]) for parts in (found, errors)]
    return flat[0], flat[1]


def distance(first: xr.Dataset, second: xr.Dataset) -> float:
    """Largest difference of moments, in standard errors."""
    (values, errors), (others, other_errors) = moments(first), moments(second)
    return float(np.max(np.abs(values - others) / np.hypot(errors, other_errors)))


@pytest.mark.parametrize(("build", "moves"), [(ten_inputs, "trajectories"), (overdispersed_counts, "turns")])
def test_trajectories_agree_with_nuts(drawn, build, moves):
    assert distance(drawn(build, moves), drawn(build, "NUTS")) < BOUND


# A model with f integrated out, and its correction


@pytest.fixture(scope="module")
def approximate():
    """Draws under Laplace's evidence, which is far off for labels."""
    with pmgp.marginal.approximate(ten_inputs(whitened=False), approximation="laplace"), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return pm.sample(1600, tune=300, nuts_sampler="pymc", random_seed=7, **QUIET)


def test_a_corrected_marginal_model_agrees_with_them(drawn, approximate):
    corrected = pmgp.marginal.correct(approximate, model=ten_inputs(whitened=False), random_seed=8, progressbar=False)
    assert corrected.attrs["words"].endswith("they can be trusted")
    for name in ("trajectories", "NUTS"):
        assert distance(drawn(ten_inputs, name), log_theta(corrected)) < BOUND
    # Without the correction the comparison notices; the trajectories have smaller errors than NUTS.
    assert distance(drawn(ten_inputs, "trajectories"), log_theta(approximate)) > 2.0 * BOUND


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
