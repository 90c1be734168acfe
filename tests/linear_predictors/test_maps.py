"""Maps beside other pieces: BYM2 as PyMC's users write it, by dense algebra."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy.stats import multivariate_normal

import pmgp
from pmgp.core.approximations import Laplace
from pmgp.core.marginal.evidence_gradient import evidence_gradient
from pmgp.core.markov import PathSampling
from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.model.taking_apart import take_apart
from tests.fields.models import lattice_neighbors
from tests.references import Reference, apart, root_mean_square, summarized

W = lattice_neighbors(4, 3)
N, ROWS = len(W), 30
AREA, Z = np.random.default_rng(0).integers(N, size=ROWS), np.linspace(-1.0, 1.0, ROWS)
Y, SCALE = np.cos(np.arange(ROWS)), 0.43


def bym2(fixed=(), likelihood=None) -> pm.Model:
    """Areas with a structured and an unstructured part, and fixed effects."""
    with pm.Model() as model:
        level, beta = pm.Normal("level", 0.3, 2.0), pm.Normal("beta", 0.0, 1.0)
        sigma, rho = pm.HalfNormal("sigma", 1.0), pm.Beta("rho", 1.0, 1.0)
        theta, phi = pm.Normal("theta", 0.0, 1.0, shape=N), pm.ICAR("phi", W=W)
        both = sigma * (pm.math.sqrt(1.0 - rho) * theta + pm.math.sqrt(rho / SCALE) * phi)
        eta = level + beta * Z + both[AREA]
        (likelihood or (lambda eta: pm.Normal("y", eta, np.float64(0.5), observed=Y)))(eta)
    return model


def dense_evidence(sigma: float, rho: float, level=None, beta=None) -> float:
    differences = np.linalg.pinv(np.diag(W.sum(axis=0)) - W) + 0.001**2
    areas = sigma**2 * ((1.0 - rho) * np.eye(N) + rho / SCALE * differences)
    covariance = areas[np.ix_(AREA, AREA)] + 0.25 * np.eye(ROWS)
    mean = np.full(ROWS, 0.3) if level is None else level + beta * Z
    if level is None:
        covariance += 4.0 + np.outer(Z, Z)
    return float(multivariate_normal.logpdf(Y, mean, covariance))


@pytest.mark.parametrize("latent", [None, ["level", "beta", "theta", "phi"]])
def test_with_a_normal_likelihood_the_evidence_is_that_of_dense_algebra(latent):
    parts = take_apart(bym2(), latent)
    assert parts.latent_vector.names == (latent or ["theta", "phi"])
    for shift in (0.0, 0.3):
        theta = parts.initial_theta + shift
        named = parts.unravel(theta)
        fixed = {} if latent else {name: named[name] for name in ("level", "beta")}
        scales = np.exp(named["sigma_log__"]), 1.0 / (1.0 + np.exp(-named["rho_logodds__"]))
        exact = dense_evidence(*scales, **fixed)
        q = Laplace(sweeps=0).fit(parts.prior(theta), parts.likelihood(theta))
        estimate = PathSampling(8).estimate(np.random.default_rng(1), q, parts.likelihood(theta))
        np.testing.assert_allclose([q.log_evidence, estimate.log_evidence], exact, rtol=1e-10)
        assert estimate.effective_size == pytest.approx(8.0)
        # Twins without the scale, and with another share.
        assert abs(dense_evidence(1.1 * scales[0], scales[1], **fixed) - exact) > 1e-3
        assert abs(dense_evidence(scales[0], 0.9 * scales[1], **fixed) - exact) > 1e-4


def test_the_gradient_of_the_evidence_is_that_of_differences():
    parts = take_apart(bym2(), ["level", "beta", "theta", "phi"])
    theta, step = parts.initial_theta + 0.2, 1e-5

    def fitted(at):
        return Laplace(sweeps=0).fit(parts.prior(at), parts.likelihood(at))

    found = evidence_gradient(parts, Laplace(sweeps=0), theta, fitted(theta), parts.likelihood(theta))
    expected = [
        (fitted(theta + step * unit).log_evidence - fitted(theta - step * unit).log_evidence) / (2.0 * step)
        for unit in np.eye(len(theta))
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_values_of_the_variables_are_free_of_their_scales():
    model = bym2()
    parts, rng = take_apart(model), np.random.default_rng(2)
    theta = parts.initial_theta + 0.4
    point = parts.unravel(theta) | {"theta": rng.normal(size=N), "phi": rng.normal(size=N)}
    found = parts.unravel_latent(parts.ravel_latent(point), theta)
    for name in ("theta", "phi"):
        np.testing.assert_allclose(found[name], point[name], rtol=1e-12)


def test_two_intrinsic_maps_are_refused():
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma", 1.0)
        first, second = pm.ICAR("first", W=W), pm.ICAR("second", W=W)
        pm.Poisson("y", pm.math.exp(sigma * first + second), observed=np.ones(N, dtype=int))
    with pytest.raises(ModelError, match=r"first, second are several pm\.ICAR.*pm\.CAR"):
        take_apart(model)


def counts_on_a_map() -> pm.Model:
    counts = np.random.default_rng(3).poisson(np.exp(0.5 + 0.7 * np.sin(AREA)))
    return bym2(likelihood=lambda eta: pm.Poisson("y", pm.math.exp(eta), observed=counts))


NUTS = Reference("counts on a map", counts_on_a_map, ("level", "beta", "sigma", "rho", "theta", "phi"))


def test_counts_on_a_map_have_the_posterior_of_nuts():
    with counts_on_a_map():
        step = pmgp.PseudoMarginal()
        idata = pm.sample(1000, tune=400, step=step, chains=2, cores=1, progressbar=False, random_seed=1)
    expected = NUTS.summary()
    distances = apart(summarized(idata, NUTS.variables), expected)
    assert max(map(root_mean_square, (distances["mean"], distances["sd"]))) < 1.7
    # A twin whose draws have the scales before the variables in them.
    ours = idata["posterior"].to_dataset()
    structured = ours["phi"] * ours["sigma"] * np.sqrt(ours["rho"] / SCALE)
    twin = ours.assign(theta=ours["theta"] * ours["sigma"] * np.sqrt(1.0 - ours["rho"]), phi=structured)
    distances = apart(summarized(xr.DataTree.from_dict({"posterior": twin}), NUTS.variables), expected)
    assert max(map(root_mean_square, (distances["mean"], distances["sd"]))) > 1.7
