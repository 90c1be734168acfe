"""Degenerate data: right answers or clear errors, and never NaN."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pymc as pm
import pytest
from scipy.special import log_ndtr, logsumexp

import pmgp
from pmgp.core.approximations import ExpectationPropagation, Laplace
from pmgp.core.estimators import AnnealedImportanceSampling, ImportanceSampling
from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods import BernoulliProbit
from pmgp.core.marginal.evaluation import Evaluator
from pmgp.core.marginal.pseudo_marginal import Frozen, PseudoMarginalChain, State
from tests.marginal.geweke import ToyModel, learned
from tests.steps.test_contract import FAST

RNG = np.random.default_rng(4)
INPUTS = RNG.normal(size=(6, 2))
LABELS = np.array([0, 1, 1, 0, 1, 0])
DATA = {
    "duplicate rows": (np.repeat(INPUTS[:3], 4, axis=0), np.tile([0, 1, 1, 1], 3)),
    "contradictory duplicates": (np.repeat(INPUTS[:1], 6, axis=0), LABELS),
    "one class": (INPUTS, np.ones(6, dtype=int)),
    "a constant feature": (np.column_stack([INPUTS[:, 0], np.full(6, 3.0)]), LABELS),
    "one point": (INPUTS[:1], np.array([1])),
    "far apart": (1e8 * INPUTS, LABELS),
}
SETTINGS = {
    "laplace": {"approximation": "laplace"},
    "ep": {"approximation": "ep"},
    "annealed": {"approximation": "ep", "estimator": "annealed"},
    "approximate": {"approximation": "ep", "estimator": "none"},
}


def classifier(X: np.ndarray, y: np.ndarray, link=pmgp.BernoulliProbit) -> pm.Model:
    with pm.Model() as model:
        lengthscale = pm.Gamma("lengthscale", 2, 1)
        variance = pm.Gamma("variance", 2, 0.1)
        gp = pm.gp.Latent(cov_func=variance * pm.gp.cov.ExpQuad(X.shape[1], ls=lengthscale))
        link("y", gp.prior("f", X=X, reparameterize=False), observed=y)
    return model


@cache
def on(name: str, link=pmgp.BernoulliProbit) -> pm.Model:
    """A model of each data set for all tests, which is thus taken apart once."""
    return classifier(*DATA[name], link)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("name", DATA)
def test_a_chain_has_no_nan(name, settings):
    model = on(name)
    step = pmgp.PseudoMarginal(model=model, compile_kwargs=FAST, **SETTINGS[settings])
    step.setup_chain(np.random.default_rng(1), 60, 30)
    point = model.initial_point()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for iteration in range(90):
            if iteration == 60:
                step.stop_tuning()
            point, [stats] = step.step(point)
            assert all(np.isfinite(value).all() for value in point.values())
            assert np.isfinite(stats["log_marginal_likelihood"])
            assert np.isfinite(stats["acceptance_rate"])
    assert step.chain.iteration == 30


def estimate(model: pm.Model, **settings) -> tuple[float, float]:
    point = {"lengthscale": 1.3, "variance": 5.0}
    found = pmgp.marginal.log_likelihood(model, point, random_seed=2, compile_kwargs=FAST, **settings)
    return found.value, found.standard_error


@pytest.mark.parametrize("link", [pmgp.BernoulliProbit, pmgp.BernoulliLogit])
def test_one_point_has_even_odds(link):
    value, error = estimate(on("one point", link))
    assert abs(value - np.log(0.5)) < 4.0 * error + 1e-9


def test_duplicate_rows_are_repeated_observations_of_one_latent_value():
    """The evidence of six labels at one input is a one-dimensional integral."""
    f = np.linspace(-30.0, 30.0, 40_001)
    terms = 3 * (log_ndtr(f) + log_ndtr(-f)) - 0.1 * f**2 - 0.5 * np.log(2.0 * np.pi * 5.0)
    truth = logsumexp(terms) + np.log(f[1] - f[0])
    value, error = estimate(on("contradictory duplicates"))
    # pymc adds a jitter of 1e-6 to the covariance.
    assert abs(value - truth) < 4.0 * error + 1e-5
    assert error < 0.05


def test_a_constant_feature_changes_nothing():
    X, y = DATA["a constant feature"]
    assert estimate(classifier(X, y))[0] == pytest.approx(estimate(classifier(X[:, :1], y))[0], abs=1e-9)


def test_points_far_apart_are_independent():
    value, error = estimate(on("far apart"))
    assert abs(value - 6 * np.log(0.5)) < 4.0 * error + 1e-9


@pytest.mark.parametrize("approximation", ["ep", "laplace"])
@pytest.mark.parametrize("name", ["duplicate rows", "one point", "a constant feature"])
def test_the_maximum_exists(name, approximation):
    found = pmgp.find_map(on(name), approximation=approximation, compile_kwargs=FAST)
    assert all(np.isfinite(value).all() for value in found.point.values())
    assert np.isfinite(found.log_evidence)


class OnlyAtTheMean(ToyModel):
    """A likelihood that is zero but for one f, which no particle ever hits."""

    def likelihood(self, theta):
        return self

    def log_likelihood(self, f):
        return np.where((f == 0.4).all(axis=-1), 0.0, -np.inf)

    def gradient(self, f):
        return np.zeros_like(f)

    curvature = fisher_information = gradient

    def derivatives(self, f):
        return self.gradient(f), self.curvature(f)

    def tilted_moments(self, mean, variance, near=None):
        return None


@pytest.mark.parametrize("estimator", [ImportanceSampling(4), AnnealedImportanceSampling(draws=4)])
def test_weights_that_all_underflow_are_refused_at_the_start_and_rejected_later(estimator):
    rng = np.random.default_rng(0)
    evaluate, frozen = Evaluator(OnlyAtTheMean(LABELS), Laplace()), Frozen(learned(), None, 4)
    scheme = PseudoMarginalChain(estimator)
    current = evaluate.prepare(evaluate(ToyModel.prior_mean, None))
    assert np.isfinite(current.log_screen)
    with pytest.raises(FloatingPointError, match="every importance weight underflows"):
        scheme.init(rng, current, frozen)
    estimate = estimator.estimate(rng, current.approximation, current.likelihood, 4)
    assert np.isneginf(estimate.log_evidence)
    # As a proposal it has probability zero.
    state = State(current.theta, current.approximation.mean, -3.0, 1.0, 0)
    assert scheme._accept(rng, state, current, current, 0.0, frozen) == (None, 0.0)


def test_a_covariance_of_rank_one_is_jittered():
    prior = DensePrior(np.zeros(5), np.ones((5, 5), order="F"))
    likelihood = BernoulliProbit(np.array([0, 1, 1, 1, 0]))
    for method in (Laplace(), ExpectationPropagation()):
        q = method.fit(prior.factorized(), likelihood)
        f = q.sample(np.random.default_rng(0), 50)
        assert np.isfinite(f).all()
        assert np.ptp(f, axis=1).max() < 1e-2
