"""Linear predictors are found wherever they stand in a graph, and what is no sum of latent values is refused."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy.stats import multivariate_normal

import pmgp
from pmgp.core.approximations import ExpectationPropagation, Laplace
from pmgp.core.likelihoods.checks import marked_rows
from pmgp.core.markov import PathSampling
from pmgp.interface.graphs.compilation import Compiler
from pmgp.interface.model.distinct_rows import distinct_rows
from pmgp.interface.model.effects import effects
from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.model.linear_nodes import predictors
from pmgp.interface.model.linear_predictor import Leaf, LinearPredictor
from pmgp.interface.model.taking_apart import take_apart
from pmgp.interface.model.theta_vector import ThetaVector
from pmgp.interface.steps.starts import unusable_start

GROUP, TIME = np.array([0, 1, 2, 3, 0, 1, 2, 0]), np.array([0, 1, 1, 2, 3, 4, 4, 4])
Z, COUNTS = np.linspace(-1.0, 2.0, 8), np.array([0, 1, 2, 3, 1, 0, 4, 2])
BASIS = np.stack([Z, Z**2, Z**3], axis=1)


def pieces():
    tau = pm.HalfNormal("tau", 1.0)
    level, beta = pm.Normal("level", 0.0, 1.0), pm.Normal("beta", 0.0, 1.0, shape=3)
    u, w = pm.Normal("u", 0.0, tau, shape=4), pm.Normal("w", 0.0, tau, shape=4)
    s = pm.GaussianRandomWalk("s", sigma=tau, init_dist=pm.Normal.dist(0, 1), shape=5)
    return tau, level, beta, u, w, s


def indexed():
    _, level, beta, u, _, s = pieces()
    group = pm.Data("group", GROUP)
    pm.Poisson("y", pm.math.exp(level + BASIS @ beta + u[group] + s[TIME]), observed=COUNTS)
    return "u", "s"


def slopes():
    _, level, beta, u, w, _ = pieces()
    eta = level + pm.math.dot(BASIS, beta) + u[GROUP] + Z * w[GROUP] / 2.0
    pm.Bernoulli("y", logit_p=eta, observed=COUNTS > 1)
    return "level", "beta", "u", "w"


def sums_of_several():
    tau, level, _, u, _, s = pieces()
    eta = level + u[GROUP] - s.mean() + s[1:][np.minimum(TIME, 3)]
    pm.NegativeBinomial("y", mu=pm.math.exp(eta), alpha=tau, observed=COUNTS)
    return "u", "s"


def several_observed():
    tau, level, _, u, _, s = pieces()
    eta = level + u[GROUP] + s[TIME]
    pm.Poisson("y", pm.math.exp(eta), observed=COUNTS)
    pm.Normal("r", eta, tau, observed=Z)
    return "u", "s"


def table():
    _, level, _, u, _, s = pieces()
    observed = np.arange(20).reshape(4, 5) % 3
    pm.Poisson("y", pm.math.exp(level + u[:, None] + s[None, :]), observed=observed)
    return "u", "s"


def scales_before():
    tau, level, _, _, w, s = pieces()
    rho = pm.Uniform("rho", 0.0, 1.0)
    raw = pm.Normal("raw", 0.0, 1.0, shape=4)
    eta = tau * (pm.math.sqrt(1.0 - rho) * raw[GROUP] + Z * w[GROUP] / (2.0 * tau)) - rho * s[TIME]
    pm.Poisson("y", pm.math.exp(level + eta), observed=COUNTS)
    return "raw", "w", "s"


def scales_beside_data():
    """Python multiplies from the left: (tau * Z) * raw[GROUP]; other terms are associated in other ways."""
    tau, level, _, _, w, s = pieces()
    rho = pm.Uniform("rho", 0.0, 1.0)
    raw, other = pm.Normal("raw", 0.0, 1.0, shape=4), pm.Normal("other", 0.0, 1.0, shape=(4, 1))
    column = (-(Z / tau * rho))[:, None] * other[GROUP]
    eta = tau * Z * raw[GROUP] - Z * rho * Z * w[GROUP] / (tau * (1.0 + Z**2)) + (Z * (tau / rho)) * s[TIME]
    pm.Poisson("y", pm.math.exp(level + eta + column[:, 0]), observed=COUNTS)
    return "raw", "w", "s", "other"


def signed(scale=None):
    """The likelihood looks at the predictor's negative, at either by the label, and at a half of it."""
    tau, _, _, u, w, _ = pieces()
    pmgp.BernoulliLogit("labels", (1.0 if scale is None else tau) * u[GROUP], observed=COUNTS % 2)
    pm.Normal("y", -w[GROUP], 2.0, observed=COUNTS)
    return "u", "w"


def scale_in_two_parameters():
    scale, u = pm.HalfNormal("scale", 1.0), pm.Normal("u", 0.0, 1.0, shape=4)
    pm.Normal("y", 0.1 + scale * u[GROUP], pm.math.exp(0.2 - 0.5 * (scale * u[GROUP])), observed=Z)


BUILT = [indexed, slopes, sums_of_several, several_observed, table, scales_before, scales_beside_data, signed]


@pytest.mark.parametrize("build", BUILT)
def test_the_likelihood_is_a_function_of_the_predictors(build):
    with pm.Model() as model:
        names = build()
    values = [model.rvs_to_values[model[name]] for name in names]
    point, rng = model.initial_point(), np.random.default_rng(1)
    theta = ThetaVector([one for one in model.value_vars if one not in values], point, Compiler())
    terms = model.logp(vars=model.observed_RVs, sum=False)
    leaves = [Leaf(value.name, value, point[value.name]) for value in values]
    found = LinearPredictor(predictors(terms, [leaf.node for leaf in leaves], theta.values), leaves, theta)
    written = theta.compile([found.vector], found.write(terms), interpreted=True)
    given = theta.compile(values, terms, interpreted=True)
    x = [np.asarray(rng.normal(size=np.shape(point[value.name]))) for value in values]
    at = theta.initial + 0.1 * rng.normal(size=theta.dimension)
    eta = found.design() @ (found.column_scales(at) * np.concatenate([np.ravel(one) for one in x]))
    for one, other in zip(written(eta, at), given(*x, at), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)


@pytest.mark.parametrize("scale", [None, "tau"])
def test_a_predictor_has_no_sign_and_no_number_before_it(scale):
    """Observations of one effect share its element; a scale that depends on theta stays."""
    with pm.Model() as model:
        names = signed(scale)
    values = [model.rvs_to_values[model[name]] for name in names]
    point = model.initial_point()
    theta = ThetaVector([one for one in model.value_vars if one not in values], point, Compiler())
    leaves = [Leaf(value.name, value, point[value.name]) for value in values]
    terms = model.logp(vars=model.observed_RVs, sum=False)
    found = LinearPredictor(predictors(terms, [leaf.node for leaf in leaves], theta.values), leaves, theta)
    assert found.scaled == (scale is not None)
    np.testing.assert_array_equal(found.design().toarray().sum(axis=1), 1.0)
    assert distinct_rows(found.design())[1].sites == 8


def test_rows_that_are_the_same_share_an_element():
    from scipy import sparse

    rows = np.array([[1.0, 0, 0], [0, 2, 0], [1, 1, 0], [0, 0, 0], [0, 2, 0], [0, 0, 1], [1, 1, 0]])
    design, shared = distinct_rows(sparse.csr_array(rows))
    np.testing.assert_array_equal(design.toarray(), np.vstack([np.eye(3), [[0, 2, 0], [1, 1, 0]]]))
    np.testing.assert_array_equal(shared.where, [0, 3, 4, 5, 3, 2, 4])
    x = np.array([0.3, -1.0, 2.0])
    np.testing.assert_allclose(shared.predictors(design @ x), rows @ x)
    np.testing.assert_array_equal(shared.collect(np.arange(7.0)), [3.0, 0.0, 5.0, 5.0, 8.0])


@pytest.mark.parametrize(
    ("build", "names"),
    [(scales_before, ["w", "raw"]), (scales_beside_data, ["w", "raw", "other"]), (scale_in_two_parameters, ["u"])],
)
def test_effects_with_a_scale_before_them_are_found(build, names):
    with pm.Model() as model:
        build()
    assert [rv.name for rv in effects(model)] == names


SLOPES = {
    "scale first": lambda omega, w: omega * Z * w,
    "scale second": lambda omega, w: Z * omega * w,
    "scale last": lambda omega, w: Z * w * omega,
    "brackets": lambda omega, w: omega * (Z * w),
    "divided": lambda omega, w: Z / (1.0 / omega) * w,
    "negative": lambda omega, w: -(-omega * Z) * w,
    "three": lambda omega, w: 0.5 * Z * (2.0 * omega) * w,
}


@pytest.mark.parametrize("slope", SLOPES.values(), ids=SLOPES)
def test_a_slope_has_one_evidence_however_it_is_associated(slope):
    with pm.Model() as model:
        omega, w = pm.HalfNormal("omega", 1.0), pm.Normal("w", 0.0, 1.0, shape=4)
        pm.Normal("y", slope(omega, w[GROUP]), np.float64(0.5), observed=Z)
    parts, theta = take_apart(model), np.log([0.7])
    design = Z[:, None] * np.eye(4)[GROUP]
    exact = multivariate_normal(np.zeros(8), 0.49 * design @ design.T + 0.25 * np.eye(8)).logpdf(Z)
    q = Laplace(sweeps=0).fit(parts.prior(theta), parts.likelihood(theta))
    assert q.log_evidence == pytest.approx(exact, rel=1e-7)


def test_a_slope_with_a_factor_that_is_not_a_number_has_no_scale():
    with pm.Model() as model:
        omega, w = pm.HalfNormal("omega", 1.0), pm.Normal("w", 0.0, 1.0, shape=4)
        pm.Normal("y", (omega + Z) * Z * w[GROUP], 0.5, observed=Z)
    assert effects(model) == []


def test_effects_of_groups_are_found_and_other_normal_variables_are_not():
    with pm.Model() as model:
        indexed()
        mean = pm.Normal("mean", 0.0, model["tau"], shape=3)
        pm.Normal("below", mean, 1.0, shape=3)
    assert [rv.name for rv in effects(model)] == ["u"]


def scaled():
    _, level, *_, s = pieces()
    raw, several = pm.Normal("raw", 0.0, 1.0, shape=4), pm.HalfNormal("several", 1.0, shape=4)
    pm.Poisson("y", pm.math.exp(level + several[GROUP] * raw[GROUP] + s[TIME]), observed=COUNTS)


def deviations():
    _, level, _, u, _, s = pieces()
    pm.Normal("y", level + s[TIME], pm.math.exp(u[GROUP]), observed=Z)


def shared():
    level, u = pm.Normal("level", 0.0, 1.0), pm.Normal("u", 0.0, pm.HalfNormal("tau", 1.0), shape=4)
    pm.Normal("y", Z + u[GROUP], pm.math.exp(level + 0.5 * u[GROUP]), observed=Z)


def products():
    tau = pm.HalfNormal("tau", 1.0)
    u, v = pm.Normal("u", 0.0, tau, shape=4), pm.Normal("v", 1.0, tau, shape=4)
    pm.Normal("y", u[GROUP] * v[GROUP[::-1]], 1.0, observed=Z)


def averaged():
    u = pm.Normal("u", 0.0, pm.HalfNormal("tau", 1.0), shape=4)
    pm.Normal("y", Z + pm.math.exp(u).mean(), 1.0, observed=Z)


def opposite():
    tau = pm.HalfNormal("tau", 1.0)
    u, v = pm.Normal("u", 0.0, tau, shape=4)[GROUP], pm.Normal("v", 0.0, tau, shape=4)[GROUP]
    shapes = (2.0 * pm.math.sigmoid(u + Z * v), 2.0 * pm.math.sigmoid(-u - Z * v))
    pm.BetaBinomial("y", *shapes, n=9, observed=COUNTS)


def shared_without_constants():
    """As the refusal of the one before advises."""
    level, u = pm.Normal("level", 0.0, 1.0), pm.Normal("u", 0.0, pm.HalfNormal("tau", 1.0), shape=4)
    pm.Normal("y", Z + u[GROUP], pm.math.exp(level) * pm.math.exp(0.5 * u[GROUP]), observed=Z)


def two_maps():
    level = pm.Normal("level", 0.0, 1.0)
    neighbors = np.eye(8, k=1) + np.eye(8, k=-1)
    s, r = (pm.CAR(name, np.zeros(8), neighbors, alpha=0.5, tau=pm.math.exp(level)) for name in ("m", "r"))
    pm.Poisson("y", pm.math.exp(s + r), observed=COUNTS)


@pytest.mark.parametrize(
    ("build", "latent", "words"),
    [
        (two_maps, ["m"], r"second latent process besides 'm': 'r' is a field. Name both"),
        (averaged, None, r"linear predictors of u.*consist of \(u\).*pm\.Normal\('u', 0, tau, shape=G\)"),
        (indexed, ["u", "h"], r"'h' is not a free multivariate normal variable"),
    ],
)
def test_models_are_refused_in_words(build, latent, words):
    with pm.Model() as model:
        build()
    with pytest.raises(ModelError, match=words):
        take_apart(model, latent)


def test_a_shared_effect_without_constants_is_accepted():
    with pm.Model() as model:
        shared_without_constants()
    assert take_apart(model, ["u"]).latent_vector.names == ["u"]


@pytest.mark.parametrize(
    ("build", "latent"),
    [(scaled, ["raw", "s"]), (deviations, None), (shared, ["u"]), (opposite, None), (products, None)],
)
def test_observations_with_two_predictors_have_an_evidence(build, latent):
    """The mean of the likelihood over draws from the prior, against particles of the approximation."""
    with pm.Model() as model:
        build()
    parts = take_apart(model, latent)
    assert parts.latent_vector.predictors.number == 2
    prior, likelihood, rng = (
        parts.prior(parts.initial_theta),
        parts.likelihood(parts.initial_theta),
        np.random.default_rng(1),
    )
    logs = likelihood.log_likelihood(prior.sample(rng, 200_000))
    weights = np.exp(logs - logs.max())
    q = ExpectationPropagation().fit(prior, likelihood)
    found = [PathSampling(256).estimate(rng, q, likelihood).log_evidence for _ in range(30)]
    ratios = np.exp(np.array(found) - logs.max()) / weights.mean()
    error = np.hypot(ratios.std() / np.sqrt(30), weights.std() / weights.mean() / np.sqrt(len(weights)))
    assert error < 0.15
    assert q.log_evidence == pytest.approx(np.log(np.exp(np.array(found) - max(found)).mean()) + max(found), abs=0.15)
    assert abs(ratios.mean() - 1.0) < 3.0 * error


def test_impossible_starts_name_observations_and_not_elements_of_f():
    """Eight observations look at seven sums, one of them twice, below nine elements of pieces."""
    with pm.Model() as model:
        _, level, _, u, _, s = pieces()
        spread = pm.Normal("spread", 1.0, 1.0)
        eta = level + u[GROUP] + s[np.minimum(TIME, 3)]
        pm.StudentT("y", 4.0, eta, sigma=spread, observed=Z)
    parts = take_apart(model)
    words = unusable_start(parts, parts.ravel(model.initial_point() | {"spread": -1.0}))
    assert f"-inf for the observations in {marked_rows(np.full(8, True), Z)}, wherever 'u, s' was" in words


def test_descriptions_and_recommendations():
    with pm.Model() as model:
        _, level, beta, u, _, s = pieces()
        pm.Poisson("y", pm.math.exp(level + BASIS @ beta + u[GROUP] + s[TIME]), observed=COUNTS)
    found = pmgp.describe(model)
    assert found.latent_vectors["u"] == "vector of 4; independent normal elements, in linear predictors"
    assert "the standard deviation of u" in found.hyperparameters["tau"]
    assert pmgp.recommend(model).code == "pmgp.PseudoMarginal()"
    recommended = pmgp.recommend(model, latent=["beta", "u", "s"])
    assert recommended.code == "pmgp.PseudoMarginal(latent=['beta', 'u', 's'])"
