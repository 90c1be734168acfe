"""Autoregressions on areas have PyMC's density, and the evidence and the marginals of dense algebra."""

from __future__ import annotations

import re

import numpy as np
import pymc as pm
import pytest
from scipy import sparse
from scipy.stats import multivariate_normal

import pmgp
from pmgp.core.approximations import ExpectationPropagation, Laplace
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.markov import PathSampling
from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.model.taking_apart import take_apart
from pmgp.interface.steps.starts import unusable_start
from tests.fields.models import around, conditional, counts_on, lattice_neighbors, normal_on

NEIGHBORS = lattice_neighbors(4, 3)
N = len(NEIGHBORS)
PIECES = np.kron(np.eye(2), lattice_neighbors(2, 3))
MATRICES = {"dense": NEIGHBORS, "sparse": sparse.csc_matrix(NEIGHBORS), "pieces": PIECES}
every_matrix = pytest.mark.parametrize("neighbors", MATRICES.values(), ids=MATRICES)


def precision_of(parts, theta, neighbors) -> np.ndarray:
    with_names = dict(zip(parts.theta_names, theta, strict=True))
    alpha = -0.99 + 1.98 / (1.0 + np.exp(-with_names["alpha_interval__"]))
    weights = neighbors.toarray() if sparse.issparse(neighbors) else neighbors
    return np.exp(with_names["tau_log__"]) * (np.diag(weights.sum(axis=0)) - alpha * weights)


@every_matrix
def test_densities_are_those_of_pymc(neighbors):
    """Up to a constant, which PyMC leaves out."""
    model = normal_on(conditional, N, neighbors)
    parts, rng = take_apart(model), np.random.default_rng(2)
    density = model.compile_fn(
        model.logp(vars=[model["s"]], sum=False)[0], inputs=model.value_vars, mode="FAST_COMPILE"
    )
    degrees = np.asarray(neighbors.sum(axis=0)).ravel()
    constant = 0.5 * (np.log(degrees).sum() - N * np.log(2.0 * np.pi))
    for theta in around(parts):
        prior, x = parts.prior(theta), rng.normal(size=N)
        deviation = x - prior.mean
        found = 0.5 * (prior.factor.log_determinant - N * np.log(2.0 * np.pi))
        found -= 0.5 * deviation @ prior.pattern.product(prior.values, deviation)
        assert found == pytest.approx(density(parts.unravel(theta) | {"s": x}).item() + constant, rel=1e-9)
        # A twin that forgets alpha in the log-determinant.
        assert abs(prior.factor.log_determinant - np.log(degrees * np.exp(theta[1])).sum()) > 1e-3


@every_matrix
def test_normal_observations_have_the_evidence_of_dense_algebra(neighbors):
    parts = take_apart(normal_on(conditional, N, neighbors))
    for theta in around(parts):
        prior, likelihood = parts.prior(theta), parts.likelihood(theta)
        covariance = np.linalg.inv(precision_of(parts, theta, neighbors))
        exact = multivariate_normal(np.full(N, 0.3), covariance + 0.25 * np.eye(N)).logpdf(np.cos(np.arange(N)))
        np.testing.assert_allclose(prior.variance, np.diag(covariance), rtol=1e-10)
        q = Laplace(sweeps=0).fit(prior, likelihood)
        assert q.log_evidence == pytest.approx(exact, rel=1e-10)
        for estimator in (PathSampling(8, width=2), ImportanceSampling(8)):
            estimate = estimator.estimate(np.random.default_rng(1), q, likelihood)
            assert estimate.log_evidence == pytest.approx(exact, rel=1e-10)
            assert estimate.effective_size == pytest.approx(8.0)


def test_the_order_of_areas_makes_no_difference():
    order = np.random.default_rng(3).permutation(N)
    y, found = np.arange(N) % 4, []
    for places in (np.arange(N), order):
        with pm.Model() as model:
            s = conditional(NEIGHBORS[np.ix_(places, places)])
            pm.Poisson("y", pm.math.exp(s), observed=y[places])
        parts = take_apart(model)
        theta = around(parts, 1)[0]
        found.append(ExpectationPropagation().fit(parts.prior(theta), parts.likelihood(theta)).log_evidence)
    assert found[0] == pytest.approx(found[1], rel=1e-9)


def test_gradients_of_the_evidence_are_its_derivatives():
    parts = take_apart(counts_on(conditional, N, NEIGHBORS))
    theta, rng = around(parts, 1)[0], np.random.default_rng(4)
    prior, step = parts.prior(theta), 1e-4
    bar, mean_bar = rng.normal(size=prior.values.shape), rng.normal(size=N)

    def inner(at: np.ndarray) -> float:
        return float(bar @ parts.prior(at).values + mean_bar @ parts.prior(at).mean)

    expected = [(inner(theta + s) - inner(theta - s)) / (2.0 * step) for s in step * np.eye(parts.dimension)]
    np.testing.assert_allclose(parts.covariance_pullback(theta, bar, mean_bar), expected, rtol=1e-6, atol=1e-8)


def changed(row: int, column: int, value: float) -> np.ndarray:
    found = NEIGHBORS.copy()
    found[row, column] = found[column, row] = value
    return found


ISLAND = np.pad(NEIGHBORS, (0, 2))
REFUSED = {
    "island": (ISLAND, "2 of the 14 areas have no neighbors.*: 12, 13; connect them"),
    "itself": (changed(3, 3, 1.0), "no area is its own neighbor"),
    "infinite": (changed(3, 4, np.inf), "not finite"),
    "one way": (NEIGHBORS + np.eye(N, k=5), "not symmetric"),
}


@pytest.mark.parametrize(("neighbors", "words"), REFUSED.values(), ids=REFUSED)
def test_impossible_neighbors_are_refused_in_words(neighbors, words):
    with pm.Model() as model:
        s = conditional(neighbors)
        pm.Poisson("y", pm.math.exp(s), observed=np.ones(len(neighbors), dtype=int))
    with model, pytest.raises(ModelError, match=f"the field 's' is impossible: .*{words}"):
        pmgp.PseudoMarginal()


def test_two_fields_are_integrated_out_together():
    with pm.Model() as model:
        s = conditional(NEIGHBORS)
        other = pm.CAR("t", mu=np.zeros(N), W=NEIGHBORS, alpha=0.5, tau=1.0)
        pm.Poisson("y", pm.math.exp(s + other), observed=np.ones(N, dtype=int))
    parts = take_apart(model)
    assert parts.latent_vector.names == ["s", "t"]
    assert np.isfinite(
        Laplace().fit(parts.prior(parts.initial_theta), parts.likelihood(parts.initial_theta)).log_evidence
    )


def test_an_indefinite_precision_is_rejected_and_named_at_the_start():
    with pm.Model() as model:
        alpha = pm.Normal("alpha", 0.5, 1.0)
        s = pm.CAR("s", mu=np.zeros(N), W=NEIGHBORS, alpha=alpha, tau=np.float64(2.0))
        pm.Poisson("y", pm.math.exp(s), observed=np.arange(N) % 3)
    parts = take_apart(model)
    for wrong in (1.0, 1.7, -1.0, -1.2, np.nan):
        theta = np.array([wrong])
        assert Laplace().fit(parts.prior(theta), parts.likelihood(theta)) is None
    words = r"the field 's' has no density there: alpha must be between -1 and 1, and tau positive.*alpha=1\.7"
    assert re.search(words, unusable_start(parts, np.array([1.7])))
    assert Laplace().fit(parts.prior(np.array([0.999])), parts.likelihood(np.array([0.999]))) is not None


CONSTANTS = {"alpha": (1.5, 2.0), "intrinsic": (1.0, 2.0), "tau": (0.5, -2.0), "possible": (0.5, 2.0)}


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "in a sum"])
@pytest.mark.parametrize(("alpha", "tau"), CONSTANTS.values(), ids=CONSTANTS)
def test_constants_of_an_indefinite_precision_are_named_where_a_chain_starts(alpha, tau, alone):
    with pm.Model() as model:
        sd = pm.HalfNormal("sd", 1.0)
        s = pm.CAR("s", mu=np.zeros(N), W=NEIGHBORS, alpha=np.float64(alpha), tau=np.float64(tau))
        eta = s if alone else s + pm.Normal("u", 0.0, 1.0, shape=3)[np.arange(N) % 3]
        pm.Normal("y", eta, sd, observed=np.cos(np.arange(N)))
    parts = take_apart(model, None if alone else ["s", "u"])
    found = parts.latent_prior.fault(parts.latent_name, parts.initial_theta)
    if (alpha, tau) == CONSTANTS["possible"]:
        assert found is None
    else:
        named = "the field 's' has no density there: " if alone else "s, u have no density there: of 's', "
        assert f"{named}alpha must be between -1 and 1, and tau positive; give other initvals" in found
        assert found in unusable_start(parts, parts.initial_theta)


@pytest.mark.parametrize("neighbors", [NEIGHBORS, PIECES])
def test_descriptions_say_what_a_field_is(neighbors):
    description = str(pmgp.describe(counts_on(conditional, N, neighbors)))
    assert "conditional autoregression on areas" in description
    assert "acts on the alpha of s" in description
    assert ("in 2 separate pieces" in description) is (neighbors is PIECES)


def test_new_neighbors_are_read_again():
    with pm.Model() as model:
        weights = pm.Data("weights", NEIGHBORS)
        s = pm.CAR("s", mu=np.zeros(N), W=weights, alpha=pm.Uniform("alpha", 0.0, 1.0), tau=np.float64(1.0))
        pm.Poisson("y", pm.math.exp(s), observed=np.arange(N) % 3)
    parts = take_apart(model)
    before = parts.prior(parts.initial_theta).factor.log_determinant
    with model:
        pm.set_data({"weights": PIECES})
    parts.refresh_data()
    theta = parts.initial_theta
    expected = np.linalg.slogdet(np.diag(PIECES.sum(axis=0)) - 0.5 * PIECES)[1]
    assert parts.prior(theta).factor.log_determinant == pytest.approx(expected, rel=1e-10)
    assert abs(before - expected) > 1.0
