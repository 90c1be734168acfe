"""Estimates of log p(y|theta) of a PyMC model."""

from __future__ import annotations

from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.stats import norm

import pmgp
from pmgp.core.approximations import ExpectationPropagation, Laplace
from pmgp.interface.model.addends import addends
from tests.steps.test_contract import FAST
from tests.truths import low_rank_problem

ESTIMATORS = {
    "importance": pmgp.estimators.ImportanceSampling(256),
    "annealed": pmgp.estimators.AnnealedImportanceSampling(draws=64),
    "orthant": pmgp.estimators.OrthantSampling(64),
    "from the prior": pmgp.estimators.AnnealedImportanceSampling(
        "prior", np.concatenate([[0.0], np.geomspace(1e-3, 1, 80)]), 64
    ),
}


@pytest.fixture(scope="module")
def known() -> tuple[pm.Model, float]:
    """A model whose evidence at scale 1 is a one-dimensional integral."""
    prior, y, truth = low_rank_problem(50)
    with pm.Model() as model:
        scale = pm.LogNormal("scale", 0.0, 1.0)
        f = pm.MvNormal("f", np.zeros(50), cov=scale * prior.covariance)
        pmgp.BernoulliProbit("y", f, observed=y)
    return model, truth


@pytest.mark.parametrize("approximation", ["laplace", "ep"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_estimate_is_within_its_error_of_the_truth(known, name, approximation):
    model, truth = known
    found = pmgp.marginal.log_likelihood(
        model,
        {"scale": 1.0},
        estimator=ESTIMATORS[name],
        approximation=approximation,
        random_seed=1,
        compile_kwargs=FAST,
    )
    assert abs(found.value - truth) < 4.0 * found.standard_error
    assert found.standard_error < 0.1
    assert found.estimates.shape == (20,)


def test_a_model_without_hyper_parameters_needs_no_point():
    prior, y, truth = low_rank_problem(50)
    with pm.Model() as model:
        pmgp.BernoulliProbit("y", pm.MvNormal("f", np.zeros(50), cov=prior.covariance), observed=y)
    found = pmgp.marginal.log_likelihood(model, random_seed=1, compile_kwargs=FAST)
    assert abs(found.value - truth) < 4.0 * found.standard_error < 0.4


def test_a_sum_of_latent_values_has_an_evidence_without_hyper_parameters_too():
    with pm.Model() as model:
        pm.Normal("y", pm.MvNormal("f", np.zeros(3), cov=np.eye(3)).sum(), 1.0, observed=1.0)
    found = pmgp.marginal.log_likelihood(model, compile_kwargs=FAST)
    assert found.value == pytest.approx(norm.logpdf(1.0, scale=2.0), abs=1e-6)


def test_a_likelihood_that_does_not_factorize_is_refused_without_hyper_parameters_too():
    with pm.Model() as model:
        pm.Normal("y", pt.exp(pm.MvNormal("f", np.zeros(40), cov=np.eye(40))).sum(), 1.0, observed=1.0)
    with pytest.raises(pmgp.ModelError, match="does not factorize over 'f'"):
        pmgp.marginal.log_likelihood(model, compile_kwargs=FAST)


def estimate_of_counts(potential) -> float:
    with pm.Model() as model:
        scale = pm.HalfNormal("scale")
        f = pm.MvNormal("f", np.zeros(4), scale**2 * (0.5 + 0.5 * np.eye(4)))
        pm.Potential("y", potential(pm.logp(pm.Poisson.dist(pm.math.exp(f)), np.array([0, 2, 1, 4])), scale))
    return pmgp.marginal.log_likelihood(model, random_seed=1, compile_kwargs=FAST).value


@cache
def estimate_of_terms() -> float:
    return estimate_of_counts(lambda terms, scale: terms)


@pytest.mark.parametrize(
    "potential",
    [
        lambda terms, scale: terms.sum(),
        lambda terms, scale: terms[0] + 2.0 * (terms[1:3].sum() - 0.5 * -terms[3:].sum()) - terms[1:3].sum(),
        lambda terms, scale: -(scale * (-terms / scale).sum()),
    ],
    ids=["sum", "sums", "factors"],
)
def test_a_potential_that_is_a_sum_has_the_estimate_of_its_terms(potential):
    assert estimate_of_counts(potential) == pytest.approx(estimate_of_terms(), rel=1e-9)


def test_a_sum_over_all_pairs_is_not_taken_apart():
    f = pt.vector("f")
    pairs = (f[:, None] * f).sum()
    assert addends(f.sum()) is f
    assert addends(pairs) is pairs


def test_a_potential_whose_terms_are_hidden_has_nearly_the_estimate_of_its_terms():
    """They cannot be evaluated one by one, so Laplace's method takes the place of expectation propagation."""
    hidden = estimate_of_counts(lambda terms, scale: pt.dot(np.ones(4), terms))
    assert hidden == pytest.approx(estimate_of_terms(), abs=0.02)


def test_the_standard_error_is_that_of_repeated_runs(known):
    model, _ = known
    settings = {"estimator": pmgp.estimators.ImportanceSampling(16), "compile_kwargs": FAST}
    runs = [pmgp.marginal.log_likelihood(model, {"scale": 1.0}, random_seed=s, **settings) for s in range(12)]
    spread = np.std([run.value for run in runs], ddof=1)
    assert 0.4 < np.mean([run.standard_error for run in runs]) / spread < 2.2


def test_an_error_that_cannot_be_trusted_is_said():
    """Draws from the prior hardly ever explain ten sharp observations."""
    with pm.Model() as model:
        f = pm.Normal("f", 0.0, pm.HalfNormal("scale"), shape=10)
        pm.Normal("y", f, 0.1, observed=np.linspace(-1.0, 1.0, 10))
    from_prior = pmgp.estimators.AnnealedImportanceSampling("prior", np.array([0.0, 1.0]), 4)
    with pytest.warns(UserWarning, match=r"its standard error of \d\.\d+ cannot be trusted"):
        found = pmgp.marginal.log_likelihood(model, {"scale": 1.0}, estimator=from_prior, random_seed=1)
    assert found.value < -20.0 < pmgp.marginal.log_likelihood(model, {"scale": 1.0}, random_seed=1).value


def test_the_approximations_own_evidence_has_no_spread(known):
    model, truth = known
    found = pmgp.marginal.log_likelihood(model, {"scale": 1.0}, estimator="none", compile_kwargs=FAST)
    assert found.standard_error == 0.0
    assert found.value == pytest.approx(truth, abs=0.05)


@pytest.mark.parametrize("name", ["laplace", "ep"])
def test_the_approximations_own_evidence_is_that_of_its_fixed_point(name):
    """Fits in a chain end earlier, since its estimates are unbiased all the same; this is not an estimate."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 3.0, (60, 2))
    model = pmgp.models.classifier(X, X[:, 0] + rng.normal(size=60) > 1.5)
    point, settings = {"lengthscale": 0.8, "variance": 8.0}, {"estimator": "none", "compile_kwargs": FAST}
    found = pmgp.marginal.log_likelihood(model, point, approximation=name, **settings).value
    longest = {"laplace": Laplace(tolerance=1e-14), "ep": ExpectationPropagation(tolerance=1e-11, max_sweeps=500)}[name]
    exact = pmgp.marginal.log_likelihood(model, point, approximation=longest, **settings).value
    assert found == pytest.approx(exact, abs=1e-6)
    of_chains = pmgp.marginal.log_likelihood(model, point, approximation=type(longest)(), **settings).value
    assert abs(of_chains - exact) > 1e-5


def test_the_seed_repeats_it_and_the_point_matters(known):
    model, _ = known
    with model:
        one, two = (pmgp.marginal.log_likelihood(random_seed=3, compile_kwargs=FAST).value for _ in range(2))
        other = pmgp.marginal.log_likelihood(point={"scale_log__": -3.0}, random_seed=3, compile_kwargs=FAST).value
    assert one == two
    assert abs(one - other) > 0.5


def test_what_cannot_be_estimated_is_refused(known):
    model, _ = known
    with pytest.raises(ValueError, match="repeats must be at least 2"):
        pmgp.marginal.log_likelihood(model, repeats=1)
    with pytest.raises(ValueError, match="no free variables level"):
        pmgp.marginal.log_likelihood(model, {"level": 1.0})
    with pytest.raises(ValueError, match="prior covariance of 'f' is not finite"):
        pmgp.marginal.log_likelihood(model, {"scale_log__": 800.0}, compile_kwargs=FAST)
    with pytest.raises(ValueError, match="unknown estimator"):
        pmgp.marginal.log_likelihood(model, estimator="guess")
