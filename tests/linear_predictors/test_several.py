"""Models with several linear predictors for each observation: evidence by quadrature, and what surrounds a run."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from numpy.polynomial.hermite_e import hermegauss

import pmgp
from pmgp.core.approximations import ExpectationPropagation, Laplace
from pmgp.core.markov import PathSampling
from pmgp.interface.model.latent_gaussian import LatentGaussianModel, ModelError
from pmgp.interface.model.taking_apart import take_apart

GROUP = np.array([0, 0, 0, 1, 1, 1, 1, 2, 2, 2])
Z = np.array([0.3, -1.1, 0.8, 1.9, 0.4, 2.5, 1.2, -0.6, -0.2, -1.4])
COUNTS = np.array([3, 0, 0, 1, 2, 0, 5, 0, 1, 4])
LABELS = np.array([0, 2, 1, 1, 1, 0, 2, 0, 0, 1])
TAU, OMEGA = 0.8, 0.5
QUIET = {"progressbar": False, "random_seed": 1}


def logits(u, v):
    return pt.stack([pt.zeros_like(u), 0.2 + u, v - 0.1], axis=-1)


def normal(u, v):
    return pm.Normal, {"mu": 0.2 + u, "sigma": pm.math.exp(v - 0.1)}, Z


def zero_inflated(u, v):
    return pm.ZeroInflatedPoisson, {"mu": pm.math.exp(0.2 + u), "psi": pm.math.sigmoid(v)}, COUNTS


def overdispersed(u, v):
    return pm.NegativeBinomial, {"mu": pm.math.exp(u), "alpha": pm.math.exp(v)}, COUNTS


def categories(u, v):
    return pm.Categorical, {"logit_p": logits(u, v)}, LABELS


KINDS = [normal, zero_inflated, overdispersed, categories]


def built(kind: Callable) -> pm.Model:
    """The last element of u has no observations."""
    with pm.Model() as model:
        tau, omega = pm.HalfNormal("tau", 1.0), pm.HalfNormal("omega", 1.0)
        u, v = pm.Normal("u", 0.0, tau, shape=4), pm.Normal("v", 0.0, omega, shape=3)
        distribution, parameters, y = kind(u[GROUP], v[GROUP])
        distribution("y", **parameters, observed=y)
    return model


def evidence(kind: Callable) -> float:
    """log p(y), by quadrature over the two effects of each group."""
    nodes, weights = hermegauss(80)
    u, v = (np.ravel(each) for each in np.meshgrid(TAU * nodes, OMEGA * nodes, indexing="ij"))
    mass, total = np.outer(weights, weights).ravel() / weights.sum() ** 2, 0.0
    distribution, parameters, y = kind(u, v)
    logs = {value: pm.logp(distribution.dist(**parameters), np.full(u.size, value)).eval() for value in set(y)}
    for group in range(3):
        total += np.log((mass * np.exp(sum(logs[value] for value in y[group == GROUP]))).sum())
    return float(total)


def miss(parts: LatentGaussianModel, truth: float) -> float:
    """The error of the mean of 100 estimates p^ / p, which has a standard deviation of about .01."""
    theta, rng, estimator = np.log([TAU, OMEGA]), np.random.default_rng(1), PathSampling(64, width=2, threshold=0.9)
    q = ExpectationPropagation().fit(parts.prior(theta), parts.likelihood(theta))
    estimates = [estimator.estimate(rng, q, parts.likelihood(theta)).log_evidence for _ in range(100)]
    return float(abs(np.exp(np.array(estimates) - truth).mean() - 1.0))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_estimates_are_unbiased(kind):
    parts = take_apart(built(kind))
    assert parts.latent_vector.coupled.number == 2
    assert parts.latent_vector.coupled.shared.sites == 3
    assert miss(parts, evidence(kind)) < 0.05


def test_a_twin_with_exchanged_predictors_is_rejected():
    assert miss(take_apart(built(lambda u, v: normal(v, u))), evidence(normal)) > 0.2


@pytest.mark.parametrize("method", [Laplace, ExpectationPropagation])
def test_the_gradient_in_theta_is_that_of_differences(method):
    """Categories are log-concave."""
    parts, fit, theta = take_apart(built(categories)), method(tolerance=1e-10), np.log([TAU, OMEGA])
    likelihood = parts.likelihood(theta)
    found = fit.evidence_gradient(fit.fit(parts.prior(theta), likelihood), likelihood)
    gradient = parts.covariance_pullback(theta, found.covariance, found.mean)
    for place in range(2):
        step = 1e-4 * np.eye(2)[place]
        above, below = (fit.fit(parts.prior(at), likelihood).log_evidence for at in (theta + step, theta - step))
        assert gradient[place] == pytest.approx((above - below) / 2e-4, rel=2e-3)


@pytest.mark.parametrize("log_tau", [0.0, 6.0, 11.0])
def test_sharp_sites_keep_their_digits(log_tau):
    """The prior of the mean is up to 1e5 times as wide as the noise; the truth is a sum over the log scale."""
    parts, theta, truth = take_apart(built(normal)), np.array([log_tau, 0.0]), 0.0
    v = np.linspace(-8.0, 8.0, 20_001)
    scale, tau = np.exp(v - 0.1), np.exp(log_tau)
    for group in range(3):
        r = Z[group == GROUP] - 0.2
        wide, square = scale**2 + len(r) * tau**2, r @ r - (tau * r.sum()) ** 2 / (scale**2 + len(r) * tau**2)
        logs = -(len(r) - 1) * np.log(scale) - 0.5 * np.log(wide) - 0.5 * square / scale**2
        logs -= 0.5 * len(r) * np.log(2.0 * np.pi) + 0.5 * v**2 + 0.5 * np.log(2.0 * np.pi)
        truth += np.log(np.trapezoid(np.exp(logs), v))
    q = ExpectationPropagation().fit(parts.prior(theta), parts.likelihood(theta))
    assert q.resolved
    assert q.log_evidence == pytest.approx(truth, abs=0.05)


SAME = {
    "a loading": lambda tau, u, v: (u, 0.5 * u + v),
    "a scale before both": lambda tau, u, v: (tau * u, 0.5 * (tau * u) + v),
}


@pytest.mark.parametrize("predictors", SAME.values(), ids=SAME)
def test_predictors_may_share_effects(predictors):
    """The approximation's marginals of the sites may be singular."""
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1.0)
        u, v = pm.Normal("u", 0.0, 1.0, shape=3), pm.Normal("v", 0.0, 0.5 * tau, shape=3)
        eta, zeta = predictors(tau, u[GROUP], v[GROUP])
        pm.Normal("y", eta, pm.math.exp(zeta), observed=Z)
    parts, theta = take_apart(model, ["u", "v"]), np.log([TAU])
    prior, likelihood = parts.prior(theta), parts.likelihood(theta)
    q = ExpectationPropagation().fit(prior, likelihood)
    assert q.converged
    scaled = np.log([TAU]) if predictors is SAME["a scale before both"] else np.zeros(1)
    nodes, weights = hermegauss(80)
    u, v = np.meshgrid(nodes, 0.5 * TAU * nodes, indexing="ij")
    eta, zeta = predictors(np.exp(scaled[0]), u, v)
    mass, truth = np.outer(weights, weights) / weights.sum() ** 2, 0.0
    for group in range(3):
        r = (Z[group == GROUP, None, None] - eta) * np.exp(-zeta)
        truth += np.log((mass * np.exp((-0.5 * r**2 - zeta - 0.5 * np.log(2.0 * np.pi)).sum(axis=0))).sum())
    assert q.log_evidence == pytest.approx(truth, abs=0.1)
    rng = np.random.default_rng(4)
    found = [PathSampling(256).estimate(rng, q, likelihood).log_evidence for _ in range(30)]
    ratios = np.exp(np.array(found) - truth)
    assert abs(ratios.mean() - 1.0) < 0.05


def test_one_scale_for_all_and_predictors_in_some_terms_only():
    """A second variable depends on the first predictor alone."""
    with pm.Model() as model:
        tau, omega = pm.HalfNormal("tau", 1.0), pm.HalfNormal("omega", 1.0)
        u, v = pm.Normal("u", 0.0, tau, shape=3), pm.Normal("v", 0.0, omega, shape=3)
        eta = u[GROUP]
        pm.Normal("y", eta, pm.math.exp(v[GROUP]), observed=Z)
        pm.Poisson("n", pm.math.exp(u), observed=np.array([1, 0, 2]))
    parts = take_apart(model)
    nodes, weights = hermegauss(80)
    u, v = np.meshgrid(TAU * nodes, OMEGA * nodes, indexing="ij")
    mass, truth = np.outer(weights, weights) / weights.sum() ** 2, 0.0
    for group, n in enumerate([1, 0, 2]):
        r = (Z[group == GROUP, None, None] - u) * np.exp(-v)
        logs = (-0.5 * r**2 - v - 0.5 * np.log(2.0 * np.pi)).sum(axis=0) + n * u - np.exp(u) - np.log([1, 1, 2][n])
        truth += np.log((mass * np.exp(logs)).sum())
    assert miss(parts, float(truth)) < 0.05


def test_an_index_may_come_after_the_link():
    with pm.Model() as model:
        tau, omega = pm.HalfNormal("tau", 1.0), pm.HalfNormal("omega", 1.0)
        u, v = pm.Normal("u", 0.0, tau, shape=3), pm.Normal("v", 0.0, omega, shape=3)
        pm.Normal("y", 0.2 + u[GROUP], pm.math.exp(v - 0.1)[GROUP], observed=Z)
    assert miss(take_apart(model), evidence(normal)) < 0.05


def test_predictors_of_different_lengths_are_refused_in_words():
    with pm.Model() as model:
        tau, omega = pm.HalfNormal("tau", 1.0), pm.HalfNormal("omega", 1.0)
        u, v = pm.Normal("u", 0.0, tau, shape=3), pm.Normal("v", 0.0, omega, shape=2)
        pm.Normal("y", u[GROUP], pm.math.exp(v).sum(), observed=Z)
    with pytest.raises(ModelError, match=r"The predictors consist of .*an element for each observation"):
        take_apart(model)


def test_what_the_data_cannot_tell_apart_is_reported_for_each_predictor():
    """A level beside a walk with a vague first value, in the log scale."""
    with pm.Model() as model:
        level, tau = pm.Normal("level", 0.0, 10.0), pm.HalfNormal("tau", 1.0)
        walk = pm.GaussianRandomWalk("walk", sigma=tau, init_dist=pm.Normal.dist(0.0, np.float64(10.0)), shape=3)
        v = pm.Normal("v", 0.0, tau, shape=3)
        pm.Normal("y", v[GROUP], pm.math.exp(0.1 * (level + walk[GROUP])), observed=Z)
    assert "determine only the sum of 'level' (10), 'walk' (10)" in str(pmgp.describe(model))


def test_data_that_make_a_constant_predictor_vary_are_refused():
    with pm.Model() as model:
        tau, omega = pm.HalfNormal("tau", 1.0), pm.HalfNormal("omega", 1.0)
        u, v, w = (pm.Normal(name, 0.0, s, shape=3)[GROUP] for name, s in (("u", tau), ("v", omega), ("w", omega)))
        share = pm.Data("share", np.zeros(len(Z)))
        pm.Categorical("y", logit_p=pt.stack([share * w, u, v], axis=1), observed=LABELS)
    parts = take_apart(model)
    model.set_data("share", np.ones(len(Z)))
    with pytest.raises(ModelError, match=r"make the step method again after pm\.set_data"):
        parts.refresh_data()


@pytest.fixture(scope="module")
def model():
    return built(normal)


@pytest.fixture(scope="module")
def idata(model):
    with warnings.catch_warnings(), model:
        warnings.simplefilter("ignore", UserWarning)
        return pm.sample(100, tune=150, chains=2, cores=1, step=pmgp.PseudoMarginal(), **QUIET)


def test_a_step_method_that_is_pickled_computes_the_same(model):
    with model:
        step = pmgp.PseudoMarginal()
    theta, copy = step.latent_model.initial_theta, pickle.loads(pickle.dumps(step))
    found, again = (one._evaluate(theta, None).log_screen for one in (step, copy))
    assert np.isfinite(found)
    assert again == found
    assert step.scheme.estimator == PathSampling(width=16)


def test_predictions_evidence_and_left_out_observations(model, idata):
    found = pmgp.predict(idata, model=model)
    posterior = idata["posterior"].dataset
    np.testing.assert_allclose(found["mean"], 0.2 + posterior["u"].mean(("chain", "draw")).to_numpy()[GROUP], atol=1e-8)
    assert pmgp.evidence(idata, model=model, draws=200, **QUIET).standard_error < 0.3
    left_out = pmgp.loo(idata, model=model, draws=200, **QUIET)
    assert left_out.n_data_points == len(Z)


def test_one_left_out_observation_has_the_ratio_of_two_evidences(model, monkeypatch):
    """At a theta: p(y_j|y_-j) from the draws of q, against quadrature with and without the observation."""
    from pmgp.core.importance.block_left_out import block_evidence_left_out
    from pmgp.interface.importance.loo import _terms

    parts, theta = take_apart(model), np.log([TAU, OMEGA])
    likelihood = parts.likelihood(theta)
    q = ExpectationPropagation().fit(parts.prior(theta), likelihood)
    particles = q.sample(np.random.default_rng(2), 20_000)
    found = block_evidence_left_out(q, _terms(parts, likelihood, theta), particles)
    for observation in (0, 9):
        kept = np.arange(len(Z)) != observation
        monkeypatch.setattr(f"{__name__}.GROUP", np.where(kept, GROUP, 3))
        assert found[observation] == pytest.approx(evidence(normal), abs=0.02)
        monkeypatch.undo()
