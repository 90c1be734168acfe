"""Many routes, one posterior: schemes on theta, the pseudo-marginal chain, and PyMC's NUTS on the whitened model.

The Poisson likelihood on the coal mining disasters, counted in cells of 2.8 years. A sixth of the prior variance is
white noise and the priors have light tails, so that slow routes can be compared at all in a short time: where f is
smooth, theta hardly moves given f.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytest

import pmgp
from pmgp import datasets
from tests.confirmation import confirmed
from tests.references import Reference
from tests.theta_updates.agreement import NAMES, Moments, distance, moments, sample
from tests.theta_updates.gibbs_broken import f_left_behind

CELLS = 40
# Agreement within so many Monte Carlo standard errors, of which there must be enough draws to speak.
BOUND = 4.0
SMALLEST_ESS = 100.0


def coal(whitened: bool) -> pm.Model:
    dates = datasets.load("coal").X[:, 0]
    counts, edges = np.histogram(dates, bins=CELLS, range=(1851.0, 1963.0))
    years = 0.5 * (edges[1:] + edges[:-1])[:, None]
    X = (years - years.mean()) / years.std()
    with pm.Model() as model:
        f = process(X, pm.Gamma("lengthscale", 8.0, 8.0), pm.InverseGamma("variance", 5.0, 3.0), 1.0, whitened)
        pmgp.likelihoods.LogGaussianCox("y", f, observed=counts)
    return model


def process(X: np.ndarray, lengthscale: Any, variance: Any, level: float, whitened: bool) -> Any:
    """K is proportional to the variance, which the sufficient augmentation draws from its full conditional then."""
    kernel = variance * (pm.gp.cov.ExpQuad(X.shape[1], ls=lengthscale) + pm.gp.cov.WhiteNoise(0.2))
    gp = pm.gp.Latent(mean_func=pm.gp.mean.Constant(level), cov_func=kernel)
    return gp.prior("f", X=X, reparameterize=whitened, jitter=0.0)


class Route(NamedTuple):
    """Step methods, and how many draws of each of two chains give a sufficient number of independent ones."""

    steps: Callable[[], Any]
    draws: int


def beside_f(scheme: Callable[..., Any], **settings: Any) -> Callable[[], Any]:
    return lambda: [scheme(**settings), pmgp.steps.LatentHMC(mass="prior")]


ROUTES = {
    "pseudo-marginal": Route(pmgp.PseudoMarginal, 1000),
    "interweaving": Route(beside_f(pmgp.steps.Interweaving), 4000),
}


BROKEN = Route(beside_f(pmgp.steps.Ancillary), 1500)
NUTS = Reference("coal", partial(coal, True), NAMES, logs=True)


def along(route: Route, seed: int = 1) -> Any:
    model = coal(whitened=False)
    with model:
        steps = route.steps()
    return sample(model, draws=route.draws, tune=1500, step=steps, random_seed=2 + seed)


@cache
def moments_of(route: str, seed: int) -> dict[str, Moments]:
    return moments(along(ROUTES[route], seed))


@cache
def moments_by_nuts() -> dict[str, Moments]:
    columns = NUTS.summary()[["mean", "mcse_mean", "sd", "mcse_sd", "ess_bulk"]]
    return {name: Moments(*columns.loc[name]) for name in NAMES}


@pytest.mark.parametrize("route", ROUTES)
def test_there_are_enough_draws_to_compare(route):
    assert min(m.ess for m in moments_of(route, 1).values()) > SMALLEST_ESS


def apart(route: str, seed: int) -> float:
    """Distance of a route's draws with that seed from those of NUTS."""
    return distance(moments_of(route, seed), moments_by_nuts())


@pytest.mark.parametrize("route", ROUTES)
def test_all_routes_agree_with_nuts(route):
    assert confirmed(partial(apart, route), BOUND) < BOUND


def test_a_broken_twin_disagrees(monkeypatch):
    """Ancillary augmentation that leaves f behind wanders off, by many posterior deviations, and has hardly a draw."""
    f_left_behind(monkeypatch)
    broken = moments(along(BROKEN))
    monkeypatch.undo()
    exact = moments_by_nuts()
    assert max(abs(broken[name].mean - exact[name].mean) / exact[name].deviation for name in NAMES) > 10.0
    assert min(m.ess for m in broken.values()) < SMALLEST_ESS / 10
