"""Missing observations: theta and f as without their rows, and draws of them from their distribution given f."""

from __future__ import annotations

import warnings

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pymc.exceptions import ImputationWarning
from scipy.stats import norm

import pmgp
from pmgp.interface.model.taking_apart import take_apart

N = 30
RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0.0, 4.0, N))[:, None]
F = 2.0 * np.sin(2.0 * X[:, 0])
MISSING = np.zeros(N, dtype=bool)
MISSING[[3, 10, 11, 25]] = True
SETTINGS = {"progressbar": False, "quiet": True, "compute_convergence_checks": False, "chains": 1}

LIKELIHOODS = {
    "normal": (lambda f, y: pm.Normal("y", f, pm.HalfNormal("sigma"), observed=y), F + 0.3 * RNG.normal(size=N)),
    "poisson": (lambda f, y: pm.Poisson("y", pm.math.exp(f), observed=y), RNG.poisson(np.exp(F)).astype(float)),
    "probit": (lambda f, y: pmgp.BernoulliProbit("y", f, observed=y), (F + RNG.normal(size=N) > 0).astype(float)),
    "volatility": (
        lambda f, y: pmgp.likelihoods.StochasticVolatility("y", f, observed=y),
        np.exp(0.5 * F) * RNG.normal(size=N),
    ),
    "gamma": (lambda f, y: pm.Gamma("y", alpha=2.0, beta=pm.math.exp(f), observed=y), np.exp(0.3 * F)),
}


def model_of(name: str, without_rows: bool = False, masked: bool = False) -> pm.Model:
    likelihood, y = LIKELIHOODS[name]
    with warnings.catch_warnings(), pm.Model() as model:
        warnings.simplefilter("ignore", ImputationWarning)
        # PyMC has no support point for both parts of a distribution that is not its own.
        warnings.simplefilter("ignore", UserWarning)
        lengthscale = pm.LogNormal("lengthscale", 0.0, 1.0)
        gp = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, ls=lengthscale))
        f = gp.prior("f", X=X, reparameterize=False)
        if without_rows:
            likelihood(f[np.flatnonzero(~MISSING)], y[~MISSING])
        elif masked:
            likelihood(f, np.ma.masked_array(y, MISSING))
        else:
            likelihood(f, np.where(MISSING, np.nan, y))
    return model


def sampled(model: pm.Model, *steps, draws: int = 40, **options):
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        methods = [step() for step in steps or (pmgp.PseudoMarginal,)]
        return pm.sample(draws, tune=40, step=methods, random_seed=3, **SETTINGS | options)


@pytest.mark.parametrize("name", ["normal", "probit", "gamma"])
def test_theta_moves_as_without_the_rows(name):
    with_rows, without = sampled(model_of(name)), sampled(model_of(name, without_rows=True))
    for variable in ("lengthscale", "f"):
        assert_allclose(with_rows["posterior"][variable], without["posterior"][variable], rtol=1e-6, atol=1e-8)
    assert with_rows["posterior"]["y_unobserved"].sizes["y_unobserved_dim_0"] == MISSING.sum()


@pytest.mark.parametrize("steps", [(pmgp.PseudoMarginal,), (pmgp.EllipticalSlice, pmgp.steps.Ancillary)])
def test_they_belong_to_the_f_and_theta_of_their_draw(steps):
    """Their standardized residuals are standard normal, which those beside another draw's f are not."""
    posterior = sampled(model_of("normal", masked=True), *steps, draws=500)["posterior"]
    f, sigma = posterior["f"].to_numpy()[0][:, MISSING], posterior["sigma"].to_numpy()[0][:, None]
    y = posterior["y_unobserved"].to_numpy()[0]
    bound = 5.0 * np.sqrt(2.0 / y.size)
    assert abs(np.mean(((y - f) / sigma) ** 2) - 1.0) < bound
    # The broken twin: those of an f that the chain has left.
    assert abs(np.mean(((y - np.roll(f, 250, axis=0)) / sigma) ** 2) - 1.0) > 2.0 * bound
    assert_array_equal(posterior["y"].to_numpy()[0][:, MISSING], y)


def test_imputed_labels_have_the_probabilities_of_f():
    model = model_of("probit")
    imputation = take_apart(model).imputation
    point = model.initial_point() | {"f": F}
    rng = np.random.default_rng(1)
    drawn = []
    for _ in range(3000):
        drawn.append(imputation.drawn(rng, point)["y_unobserved"])
        rng.random()
    expected = norm.cdf(F[MISSING])
    errors = np.sqrt(expected * (1.0 - expected) / 3000) + 1e-4
    assert (abs(np.mean(drawn, axis=0) - expected) < 5.0 * errors).all()
    # The broken twin: those of the rows that follow.
    assert (abs(np.mean(drawn, axis=0) - norm.cdf(np.roll(F, -1)[MISSING])) > 10.0 * errors).any()


def test_the_generator_of_the_chain_stays_as_it_is():
    model = model_of("normal")
    imputation, rng = take_apart(model).imputation, np.random.default_rng(1)
    before = rng.bit_generator.state
    first = imputation.drawn(rng, model.initial_point())
    assert rng.bit_generator.state == before
    assert_array_equal(first["y_unobserved"], imputation.drawn(rng, model.initial_point())["y_unobserved"])
    rng.random()
    assert (first["y_unobserved"] != imputation.drawn(rng, model.initial_point())["y_unobserved"]).all()


def test_a_stored_run_goes_on_with_them(tmp_path):
    options = {"tune": 20, "chains": 2, "cores": 1, "random_seed": 1, "progressbar": False, "quiet": True}
    whole = pmgp.sample(model_of("poisson"), draws=30, **options)
    pmgp.sample(model_of("poisson"), draws=12, out=tmp_path / "run", **options)
    resumed = pmgp.resume(tmp_path / "run", model_of("poisson"), draws=30, progressbar=False, quiet=True)
    for name in ("lengthscale", "y_unobserved"):
        assert_array_equal(resumed["posterior"][name], whole["posterior"][name])


def test_evidence_and_loo_leave_them_out():
    model, without = model_of("probit"), model_of("probit", without_rows=True)
    idata = sampled(model, draws=200)
    settings = {"random_seed": 2, "progressbar": False}
    found = [pmgp.evidence(idata, model=one, draws=100, **settings).log_evidence for one in (model, without)]
    assert_allclose(found[0], found[1], rtol=1e-8)
    assert pmgp.loo(idata, model=model, draws=50, **settings).n_data_points == N - MISSING.sum()


def test_what_depends_on_them_is_refused():
    with warnings.catch_warnings(), pm.Model() as model:
        warnings.simplefilter("ignore")
        f = pm.gp.Latent(cov_func=pm.LogNormal("v") * pm.gp.cov.ExpQuad(1, ls=1.0)).prior("f", X, reparameterize=False)
        y = pm.Normal("y", f, 1.0, observed=np.where(MISSING, np.nan, F))
        pm.Normal("z", y, 1.0, observed=F)
    with pytest.raises(pmgp.ModelError, match=r"'z' depends on missing observations of y, .* leave out these rows"):
        pmgp.PseudoMarginal(model=model)


@pytest.mark.parametrize("name", ["normal", "poisson"])
def test_the_maximum_is_that_without_the_rows(name):
    found, expected = pmgp.find_map(model_of(name)), pmgp.find_map(model_of(name, without_rows=True))
    assert_allclose(found.log_evidence, expected.log_evidence, rtol=1e-6)
    assert_allclose(found.point["lengthscale"], expected.point["lengthscale"], rtol=1e-3)
    assert not {"y", "y_unobserved"} & set(found.point)
