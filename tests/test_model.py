"""A PyMC model, split: its parts sum to PyMC's own log-density, and wrong models are refused."""

from __future__ import annotations

from functools import cache

import cloudpickle
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose

import pmgp
from pmgp.core import likelihoods
from pmgp.interface.graphs.compilation import INTERPRETED, Compiler
from pmgp.interface.model.graph_likelihood import PyTensorLikelihood
from pmgp.interface.model.latent_gaussian import LatentGaussianModel, ModelError
from pmgp.interface.model.taking_apart import take_apart

FAST = {"mode": INTERPRETED}
JITTER = 1e-6  # what pm.gp adds to the diagonal
N = 7
RNG = np.random.default_rng(8)
X = RNG.normal(size=(N, 3))
LABELS = np.array([0, 1, 1, 0, 1, 0, 1])
COUNTS = np.array([0, 3, 1, 0, 7, 2, 1])
REALS = RNG.normal(size=N)
CATEGORIES = np.array([0, 1, 3, 2, 1, 3, 2])
THRESHOLDS = np.array([-0.8, 0.1, 1.2])
EXPOSURE = np.linspace(0.5, 2.0, N)


def split(model: pm.Model, **kwargs) -> LatentGaussianModel:
    return take_apart(model, compile_kwargs=FAST, **kwargs)


def process(observe, cov_func=None, mean_func=None) -> pm.Model:
    """A latent process at X with the observation model `observe(f)`."""
    with pm.Model() as model:
        variance = pm.Gamma("variance", 2, 1)
        cov_func = cov_func or (lambda: pm.gp.cov.ExpQuad(3, ls=1.5))
        mean_func = mean_func or pm.gp.mean.Zero
        gp = pm.gp.Latent(mean_func=mean_func(), cov_func=variance * cov_func())
        observe(gp.prior("f", X=X, reparameterize=False))
    return model


def negative_binomial(f):
    alpha = pm.Gamma("alpha", 2, 1)
    pm.NegativeBinomial("y", mu=pt.exp(f), alpha=alpha, observed=COUNTS)


def normal(f):
    sigma = pm.HalfNormal("sigma", 1)
    pm.Normal("y", f, sigma, observed=REALS)


def inferred_thresholds():
    """Thresholds and a noise scale to be inferred."""
    ordered = pm.distributions.transforms.ordered
    thresholds = pm.Normal("thresholds", 0, 2, shape=3, transform=ordered, initval=THRESHOLDS)
    return thresholds, pm.Gamma("noise", 4, 4)


def ordinal(f):
    pmgp.OrdinalProbit("y", f, *inferred_thresholds(), observed=CATEGORIES)


def ordinal_of_pymc(f):
    thresholds, noise = inferred_thresholds()
    # Not pm.OrderedProbit: its square root of two has single precision.
    below = 0.5 * pt.erfc((f[:, None] - thresholds) / (noise * np.sqrt(2.0)))
    below = pt.concatenate([pt.zeros((N, 1)), below, pt.ones((N, 1))], axis=1)
    pm.Categorical("y", p=below[:, 1:] - below[:, :-1], observed=CATEGORIES)


def cox(f):
    pmgp.likelihoods.LogGaussianCox("y", f, EXPOSURE * pm.Gamma("level", 2, 2), observed=COUNTS)


def cox_of_pymc(f):
    pm.Poisson("y", EXPOSURE * pm.Gamma("level", 2, 2) * pt.exp(f), observed=COUNTS)


OBSERVATIONS = {
    "probit": lambda f: pmgp.BernoulliProbit("y", f, observed=LABELS),
    "logit": lambda f: pmgp.BernoulliLogit("y", f, observed=LABELS),
    "bernoulli": lambda f: pm.Bernoulli("y", logit_p=f, observed=LABELS),
    "shifted probit": lambda f: pmgp.BernoulliProbit("y", 2 * f + 1, observed=LABELS),
    "poisson": lambda f: pm.Poisson("y", pt.exp(f), observed=COUNTS),
    "normal": normal,
    "negative binomial": negative_binomial,
    "potential": lambda f: pm.Potential("y", -0.25 * (f - REALS) ** 4),
    "Cox": lambda f: pmgp.likelihoods.LogGaussianCox("y", f, observed=COUNTS),
    "Cox with inferred level": cox,
    "volatility": lambda f: pmgp.likelihoods.StochasticVolatility("y", f, observed=REALS),
    "ordinal": ordinal,
}
CLOSED = {
    "probit": likelihoods.BernoulliProbit,
    "logit": likelihoods.BernoulliLogit,
    "Cox": likelihoods.LogGaussianCox,
    "Cox with inferred level": likelihoods.LogGaussianCox,
    "volatility": likelihoods.StochasticVolatility,
    "ordinal": likelihoods.OrdinalProbit,
}
# The same models with PyMC's own distributions.
TWINS = {
    "logit": OBSERVATIONS["bernoulli"],
    "Cox": OBSERVATIONS["poisson"],
    "Cox with inferred level": cox_of_pymc,
    "volatility": lambda f: pm.Normal("y", 0, pt.exp(f), observed=REALS),
    "ordinal": ordinal_of_pymc,
}
every_observation = pytest.mark.parametrize("name", OBSERVATIONS)
by_graph = pytest.mark.parametrize("name", [k for k in OBSERVATIONS if k not in CLOSED])


@cache
def example(name: str) -> tuple[pm.Model, LatentGaussianModel]:
    """A model and its parts, compiled once for all tests that only read them."""
    model = process(OBSERVATIONS[name])
    return model, split(model)


@every_observation
def test_parts_sum_to_the_log_density_of_pymc(name, rng):
    model, latent_model = example(name)
    logp = model.compile_logp(**FAST)
    for _ in range(3):
        theta, f = rng.normal(size=latent_model.dimension), rng.normal(size=N)
        parts = (
            latent_model.log_prior(theta)
            + latent_model.prior(theta).log_density(f)
            + latent_model.likelihood(theta).log_likelihood(f)
        )
        assert parts == pytest.approx(logp({**latent_model.unravel(theta), "f": f}), abs=1e-8)


def test_log_prior_has_the_jacobian_and_parts_of_every_shape(rng):
    with pm.Model() as model:
        lengthscale = pm.Gamma("lengthscale", 1, 0.5, shape=3)
        level = pm.Normal("level", 1, 2)
        variance = pm.Uniform("variance", 0, 4)
        pm.Normal("elsewhere", 0, 1, shape=(2, 2))
        cov_func = variance * pm.gp.cov.ExpQuad(3, ls=lengthscale)
        gp = pm.gp.Latent(mean_func=pm.gp.mean.Constant(level), cov_func=cov_func)
        OBSERVATIONS["probit"](gp.prior("f", X=X, reparameterize=False))
    latent_model = split(model)
    assert latent_model.dimension == 9
    priors = [rv for rv in model.free_RVs if rv.name != "f"]
    logp = model.compile_logp(vars=priors, **FAST)
    for _ in range(3):
        theta = rng.normal(size=9)
        point = {**latent_model.unravel(theta), "f": np.zeros(N)}
        assert latent_model.log_prior(theta) == pytest.approx(logp(point), abs=1e-10)


def test_ravel_and_unravel_are_inverse(rng):
    latent_model = example("negative binomial")[1]
    assert latent_model.theta_names == ["variance_log__", "alpha_log__"]
    theta = rng.normal(size=2)
    point = latent_model.unravel(theta)
    assert_allclose(latent_model.ravel(point), theta)
    assert point["alpha_log__"] == theta[1]
    point["alpha_log__"][...] = 0.0
    assert theta[1] != 0.0


def squared_exponential(lengthscale, columns=(0, 1, 2)) -> np.ndarray:
    scaled = X[:, columns] / lengthscale
    return np.exp(-0.5 * np.square(scaled[:, None] - scaled).sum(axis=-1))


LENGTHSCALES = np.array([0.7, 1.5, 3.0])
KERNELS = {
    "isotropic": (lambda: pm.gp.cov.ExpQuad(3, ls=1.5), lambda: squared_exponential(1.5)),
    "relevance": (
        lambda: pm.gp.cov.ExpQuad(3, ls=LENGTHSCALES),
        lambda: squared_exponential(LENGTHSCALES),
    ),
    "active columns": (
        lambda: pm.gp.cov.ExpQuad(3, ls=0.8, active_dims=[0, 2]),
        lambda: squared_exponential(0.8, (0, 2)),
    ),
    "sum": (
        lambda: pm.gp.cov.ExpQuad(3, ls=1.5) + pm.gp.cov.Linear(3, c=0.5),
        lambda: squared_exponential(1.5) + (X - 0.5) @ (X - 0.5).T,
    ),
    "product": (
        lambda: pm.gp.cov.ExpQuad(3, ls=1.5) * pm.gp.cov.Linear(3, c=0.5),
        lambda: squared_exponential(1.5) * ((X - 0.5) @ (X - 0.5).T),
    ),
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_covariance_is_that_of_the_kernel(kernel):
    cov_func, expected = KERNELS[kernel]
    latent_model = split(process(OBSERVATIONS["probit"], cov_func))
    prior = latent_model.prior(np.array([0.4]))
    K = np.exp(0.4) * expected() + JITTER * np.eye(N)
    assert_allclose(np.tril(prior.covariance), np.tril(K), rtol=1e-10, atol=1e-12)
    assert prior.covariance.flags.f_contiguous
    assert_allclose(prior.mean, 0.0)


def test_mean_function():
    slopes = np.array([1.0, -2.0, 0.5])
    mean_func = lambda: pm.gp.mean.Linear(coeffs=slopes, intercept=0.3)  # noqa: E731
    latent_model = split(process(OBSERVATIONS["probit"], mean_func=mean_func))
    assert_allclose(latent_model.prior(np.zeros(1)).mean, 0.3 + X @ slopes, rtol=1e-12)


def test_moments_are_of_double_precision():
    prior = example("probit")[1].prior(np.zeros(1))
    assert prior.mean.dtype == prior.covariance.dtype == np.float64


def test_a_multivariate_normal_without_a_process_serves_too(rng):
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        f = pm.MvNormal("f", np.arange(3.0), cov=scale**2 * np.eye(3))
        pmgp.BernoulliProbit("y", f, observed=[0, 1, 1])
    prior = split(model).prior(np.array([0.5]))
    assert_allclose(prior.mean, np.arange(3.0))
    assert_allclose(prior.covariance, np.exp(1.0) * np.eye(3))


@pytest.mark.parametrize("name", CLOSED)
def test_links_of_the_core_take_its_closed_form(name):
    latent_model = example(name)[1]
    assert isinstance(latent_model.likelihood(np.zeros(latent_model.dimension)), CLOSED[name])


@pytest.mark.parametrize("name", TWINS)
def test_the_distributions_of_pymc_give_the_same_likelihood(name, rng):
    own, other = example(name)[1], split(process(TWINS[name]))
    assert own.theta_names == other.theta_names
    for _ in range(3):
        theta, f = 0.5 * rng.normal(size=own.dimension), rng.normal(size=N)
        assert own.log_prior(theta) == pytest.approx(other.log_prior(theta), abs=1e-10)
        closed, graph = own.likelihood(theta), other.likelihood(theta)
        assert isinstance(graph, PyTensorLikelihood)
        for method in ("log_likelihood", "gradient", "curvature", "third_derivative"):
            assert_allclose(getattr(closed, method)(f), getattr(graph, method)(f), rtol=1e-8, err_msg=method)


def test_the_likelihood_follows_its_parameters_in_theta(rng):
    latent_model, f = example("ordinal")[1], rng.normal(size=N)
    for _ in range(3):
        theta = 0.5 * rng.normal(size=latent_model.dimension)
        point = latent_model.unravel(theta)
        thresholds = point["thresholds_ordered__"]
        thresholds = thresholds[0] + np.append(0.0, np.exp(thresholds[1:]).cumsum())
        core = likelihoods.OrdinalProbit(CATEGORIES, thresholds, np.exp(point["noise_log__"]))
        assert_allclose(latent_model.likelihood(theta).gradient(f), core.gradient(f), rtol=1e-12)


def test_parameters_that_are_fixed_are_looked_at_once():
    model = process(lambda f: pmgp.likelihoods.LogGaussianCox("y", f, pm.Data("area", EXPOSURE), observed=COUNTS))
    latent_model = split(model)
    assert latent_model.likelihood(np.zeros(1)) is latent_model.likelihood(np.ones(1))


PARAMETRIC = {
    "exposure": (
        lambda f, value: pmgp.likelihoods.LogGaussianCox("y", f, 2.0 * value, observed=COUNTS),
        lambda value: likelihoods.LogGaussianCox(COUNTS, 2.0 * value),
        (EXPOSURE, 2.0 * EXPOSURE),
    ),
    "thresholds": (
        lambda f, value: pmgp.OrdinalProbit("y", f, value, observed=CATEGORIES),
        lambda value: likelihoods.OrdinalProbit(CATEGORIES, value),
        (THRESHOLDS, THRESHOLDS + 0.5),
    ),
    "noise beside an inferred one": (
        lambda f, value: pmgp.OrdinalProbit("y", f, THRESHOLDS, value * pm.Gamma("noise", 4, 4), observed=CATEGORIES),
        lambda value: likelihoods.OrdinalProbit(CATEGORIES, THRESHOLDS, value),
        (0.7, 1.3),
    ),
}


@pytest.mark.parametrize("name", PARAMETRIC)
def test_replaced_parameters_are_seen(name, rng):
    observe, core, values = PARAMETRIC[name]
    f = rng.normal(size=N)
    model = process(lambda f: observe(f, pm.Data("value", values[0])))
    latent_model = split(model)
    for value in values:
        with model:
            pm.set_data({"value": value})
        latent_model.refresh_data()
        likelihood = latent_model.likelihood(np.zeros(latent_model.dimension))
        assert_allclose(likelihood.gradient(f), core(value).gradient(f), rtol=1e-12)


BAD_DATA = {
    "found -1": lambda f: pmgp.likelihoods.LogGaussianCox("y", f, observed=pm.Data("d", COUNTS - 1)),
    "exposure must be positive": lambda f: pmgp.likelihoods.LogGaussianCox(
        "y", f, pm.Data("d", -EXPOSURE), observed=COUNTS
    ),
    "exposure has shape": lambda f: pmgp.likelihoods.LogGaussianCox(
        "y", f, pm.Data("d", EXPOSURE[1:]), observed=COUNTS
    ),
    "from 0 to 2.*found 3": lambda f: pmgp.OrdinalProbit("y", f, pm.Data("d", [0.0, 1.0]), observed=CATEGORIES),
    r"found 1\.0, 0\.0": lambda f: pmgp.OrdinalProbit("y", f, pm.Data("d", [1.0, 0.0]), observed=LABELS),
    r"noise must be positive .* 0\.0": lambda f: pmgp.OrdinalProbit(
        "y", f, THRESHOLDS, pm.Data("d", 0.0), observed=CATEGORIES
    ),
    "must be finite, found -inf, inf": lambda f: pmgp.likelihoods.StochasticVolatility(
        "y", f, observed=pm.Data("d", REALS * np.inf)
    ),
    "initval": lambda f: pmgp.OrdinalProbit("y", f, pm.Normal("thresholds", shape=3), observed=CATEGORIES),
}


@pytest.mark.parametrize("message", BAD_DATA)
def test_data_and_parameters_that_only_the_split_can_check_are_named(message):
    with pytest.raises(ValueError, match=message):
        split(process(BAD_DATA[message]))


def test_parameters_that_depend_on_f_are_left_to_the_graph(rng):
    def observe(f):
        pmgp.likelihoods.LogGaussianCox("y", f, pt.exp(f), observed=COUNTS)

    likelihood = split(process(observe)).likelihood(np.zeros(1))
    core, f = likelihoods.LogGaussianCox(COUNTS), rng.normal(size=N)
    assert isinstance(likelihood, PyTensorLikelihood)
    assert_allclose(likelihood.third_derivative(f), 8 * core.third_derivative(2 * f), rtol=1e-8)


def unordered_thresholds() -> pm.Model:
    """Inferred thresholds that nothing keeps in order."""
    return process(
        lambda f: pmgp.OrdinalProbit(
            "y", f, pm.Normal("thresholds", 0, 0.5, shape=3, initval=THRESHOLDS), observed=CATEGORIES
        )
    )


def test_a_theta_with_impossible_parameters_has_no_likelihood(rng):
    latent_model = split(unordered_thresholds())
    f = rng.normal(size=(4, N))
    good, bad = np.array([0.0, -1.0, 0.0, 1.0]), np.array([0.0, -1.0, 0.5, 0.4])
    assert np.isfinite(latent_model.likelihood(good).log_likelihood(f)).all()
    assert np.array_equal(latent_model.likelihood(bad).log_likelihood(f), np.full(4, -np.inf))


def test_a_chain_rejects_impossible_parameters():
    model = unordered_thresholds()
    with model:
        step = pmgp.PseudoMarginal(compile_kwargs=FAST)
        quiet = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
        idata = pm.sample(60, tune=60, chains=1, cores=1, step=step, random_seed=3, **quiet)
    thresholds = idata["posterior"]["thresholds"].to_numpy()[0]
    assert np.all(np.diff(thresholds, axis=-1) > 0.0)
    assert len(np.unique(thresholds[:, 0])) > 3


def test_thresholds_are_inferred_by_the_pseudo_marginal_chain():
    model = example("ordinal")[0]
    with model:
        step = pmgp.PseudoMarginal(compile_kwargs=FAST)
        quiet = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
        idata = pm.sample(40, tune=40, chains=1, cores=1, step=step, random_seed=3, **quiet)
    for name in ("thresholds", "noise", "variance", "f"):
        assert np.isfinite(idata["posterior"][name]).all()
    assert len(np.unique(idata["posterior"]["noise"])) > 3


@pytest.mark.parametrize("name", ["ordinal", "poisson"])
def test_pickled_likelihoods_are_the_same(name, rng):
    latent_model = split(process(OBSERVATIONS[name]))
    theta, f = np.zeros(latent_model.dimension), rng.normal(size=N)
    before = cloudpickle.loads(cloudpickle.dumps(latent_model))
    expected = latent_model.likelihood(theta).third_derivative(f)
    after = cloudpickle.loads(cloudpickle.dumps(latent_model))
    for twin in (before, after):
        assert np.array_equal(twin.likelihood(theta).third_derivative(f), expected)


def test_derivatives_are_compiled_once_and_only_if_needed(monkeypatch, rng):
    latent_model = split(process(OBSERVATIONS["poisson"]))
    compiled, original = [], Compiler._compiled
    monkeypatch.setattr(Compiler, "_compiled", lambda *a, **k: compiled.append(a) or original(*a, **k))
    for scale in (1.0, 2.0):
        likelihood, f = latent_model.likelihood(np.zeros(1)), scale * rng.normal(size=N)
        assert len(compiled) == 2 * (scale > 1.0)
        assert_allclose(likelihood.curvature(f), np.exp(f), rtol=1e-10)
        assert_allclose(likelihood.third_derivative(f), -np.exp(f), rtol=1e-10)
    assert len(compiled) == 2


@by_graph
def test_likelihoods_by_graph_have_the_right_derivatives(name, rng):
    model, latent_model = example(name)
    theta, f, h = rng.normal(size=latent_model.dimension), rng.normal(size=N), 1e-4
    likelihood = latent_model.likelihood(theta)
    assert isinstance(likelihood, PyTensorLikelihood)
    term = model.potentials if name == "potential" else [model["y"]]
    logp = model.compile_logp(vars=term, **FAST)
    point = latent_model.unravel(theta)

    def value(f: np.ndarray) -> float:
        return float(logp({**point, "f": f}))

    assert likelihood.log_likelihood(f) == pytest.approx(value(f), abs=1e-10)
    upper = np.array([value(f + h * e) for e in np.eye(N)])
    lower = np.array([value(f - h * e) for e in np.eye(N)])
    slope, bend = (upper - lower) / (2 * h), (2 * value(f) - upper - lower) / h**2
    assert_allclose(likelihood.gradient(f), slope, atol=1e-5)
    assert_allclose(likelihood.curvature(f), bend, atol=1e-5)
    at_once = likelihood.derivatives(f)
    assert_allclose(at_once, [likelihood.gradient(f), likelihood.curvature(f)], rtol=1e-10, atol=1e-12)
    third = (likelihood.curvature(f - h) - likelihood.curvature(f + h)) / (2 * h)
    assert_allclose(likelihood.third_derivative(f), third, rtol=1e-6, atol=1e-5)
    assert np.all(likelihood.fisher_information(f) >= 0.0)


@by_graph
def test_leading_axes_are_independent_draws(name, rng):
    latent_model = example(name)[1]
    likelihood = latent_model.likelihood(rng.normal(size=latent_model.dimension))
    f = rng.normal(size=(N, 2, 4)).transpose(1, 2, 0)
    together = likelihood.log_likelihood(f)
    assert together.shape == (2, 4)
    for index in np.ndindex(2, 4):
        assert together[index] == pytest.approx(likelihood.log_likelihood(f[index]), abs=1e-10)


def test_a_shifted_probit_is_the_core_one_elsewhere(rng):
    f = rng.normal(size=N)
    likelihood = example("shifted probit")[1].likelihood(np.zeros(1))
    core = likelihoods.BernoulliProbit(LABELS)
    assert likelihood.log_likelihood(f) == pytest.approx(core.log_likelihood(2 * f + 1))
    assert_allclose(likelihood.gradient(f), 2 * core.gradient(2 * f + 1), rtol=1e-10)
    assert_allclose(likelihood.curvature(f), 4 * core.curvature(2 * f + 1), rtol=1e-8)


def test_parameters_of_the_likelihood_belong_to_theta(rng):
    latent_model = example("normal")[1]
    f, theta = rng.normal(size=N), np.array([0.0, np.log(0.3)])
    assert latent_model.theta_names == ["variance_log__", "sigma_log__"]
    assert_allclose(latent_model.likelihood(theta).curvature(f), 1.0 / 0.09, rtol=1e-10)


@pytest.mark.parametrize("link", [pmgp.BernoulliProbit, pm.Bernoulli])
def test_replaced_labels_are_seen(link, rng):
    with pm.Model() as model:
        data = pm.Data("labels", LABELS)
        scale = pm.HalfNormal("scale", 1)
        f = pm.MvNormal("f", np.zeros(N), cov=scale * np.eye(N))
        link("y", observed=data, **{"f" if link is pmgp.BernoulliProbit else "logit_p": f})
    latent_model = split(model)
    f, theta = rng.normal(size=N), np.zeros(1)
    before = latent_model.likelihood(theta).log_likelihood(f)
    with model:
        pm.set_data({"labels": 1 - LABELS})
    latent_model.refresh_data()
    after = latent_model.likelihood(theta).log_likelihood(f)
    assert after != pytest.approx(before)
    assert after == pytest.approx(latent_model.likelihood(theta).log_likelihood(f))
    with model:
        pm.set_data({"labels": LABELS})
    latent_model.refresh_data()
    assert latent_model.likelihood(theta).log_likelihood(f) == pytest.approx(before)


def test_replaced_labels_outside_the_support_are_named():
    with pm.Model() as model:
        data = pm.Data("labels", LABELS)
        scale = pm.HalfNormal("scale", 1)
        f = pm.MvNormal("f", np.zeros(N), cov=scale * np.eye(N))
        pmgp.BernoulliProbit("y", f, observed=data)
    latent_model = split(model)
    with model:
        pm.set_data({"labels": np.full(N, 3)})
    with pytest.raises(ValueError, match="found 3"):
        latent_model.refresh_data()


def test_one_of_several_latent_vectors_can_be_named():
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        pm.MvNormal("g", np.zeros(2), cov=np.eye(2))
        f = pm.MvNormal("f", np.zeros(N), cov=scale * np.eye(N))
        OBSERVATIONS["probit"](f)
    for latent in ("f", f):
        latent_model = split(model, latent=latent)
        assert latent_model.latent is f
        assert latent_model.theta_names == ["scale_log__", "g"]


def whitened():
    scale = pm.HalfNormal("scale", 1)
    gp = pm.gp.Latent(cov_func=scale * pm.gp.cov.ExpQuad(3, ls=1.0))
    OBSERVATIONS["probit"](gp.prior("f", X=X))


def latent_vector(name="f", scale=None):
    scale = pm.HalfNormal("scale", 1) if scale is None else scale
    return pm.MvNormal(name, np.zeros(N), cov=scale * np.eye(N))


def without_latent():
    OBSERVATIONS["probit"](pm.Normal("f", 0, 1, shape=N))


def several_latent():
    OBSERVATIONS["probit"](latent_vector())
    pm.MvNormal("g", np.zeros(2), cov=np.eye(2))


def matrix_latent():
    scale = pm.HalfNormal("scale", 1)
    f = pm.MvNormal("f", np.zeros(N), cov=scale * np.eye(N), shape=(2, 2, N))
    pm.Normal("y", f, 1, observed=np.zeros((2, 2, N)))


def discrete_parameter():
    kind = pm.Bernoulli("kind", 0.5)
    OBSERVATIONS["probit"](latent_vector(scale=1.0 + kind))


def without_theta():
    OBSERVATIONS["probit"](latent_vector(scale=1.0))


def nothing_observed():
    latent_vector()
    pm.Normal("y", 0, 1, observed=REALS)


def free_variable_below():
    z = pm.Normal("z", latent_vector(), 1, shape=N)
    pm.Normal("y", z, 1, observed=REALS)


def summed_rate():
    pm.Poisson("y", pt.exp(latent_vector()).cumsum(), observed=COUNTS)


WRONG_MODELS = {
    whitened: "'f_rotated_' is a whitened Gaussian process.*reparameterize=False",
    without_latent: r"no latent multivariate normal variable; 'f' is a normal variable .*latent=\['f'\]",
    matrix_latent: "'f' has 3 dimensions",
    discrete_parameter: "must be continuous; these are not: kind",
    without_theta: "no hyper-parameters besides 'f'",
    nothing_observed: "no observed variable depends on 'f'",
    free_variable_below: "the free variables z depend on 'f'",
    summed_rate: "does not factorize over 'f'",
}


@pytest.mark.parametrize("build", WRONG_MODELS, ids=lambda build: build.__name__)
def test_wrong_models_are_refused(build):
    with pm.Model() as model:
        build()
    with pytest.raises(ModelError, match=WRONG_MODELS[build]):
        split(model)


def test_an_unknown_latent_is_refused():
    with pm.Model() as model:
        several_latent()
    with pytest.raises(ModelError, match=r"'h' is not a free multivariate normal.*those are: f, g"):
        split(model, latent="h")


@pytest.mark.parametrize(
    "function",
    [
        pmgp.sample,
        pmgp.find_map,
        pmgp.describe,
        pmgp.recommend,
        pmgp.importance,
        pmgp.marginal.approximate,
        pmgp.marginal.log_likelihood,
        pmgp.marginal.iterative_log_likelihood,
    ],
)
@pytest.mark.parametrize(("given", "words"), [((1000,), "a pymc.Model is expected where 1000"), ((), "give one")])
def test_what_is_no_model_is_refused(function, given, words):
    """As in ``pmgp.sample(1000)``, which is how PyMC takes the number of draws."""
    with pytest.raises(TypeError, match=words):
        function(*given)
