"""A PyMC model, split: its parts sum to PyMC's own log-density, and wrong models are refused."""

from __future__ import annotations

from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose

import pmgp
from pmgp import likelihoods
from pmgp.model import LatentGaussianModel, ModelError, PyTensorLikelihood

FAST = {"mode": "FAST_COMPILE"}
JITTER = 1e-6  # what pm.gp adds to the diagonal
N = 7
RNG = np.random.default_rng(8)
X = RNG.normal(size=(N, 3))
LABELS = np.array([0, 1, 1, 0, 1, 0, 1])
COUNTS = np.array([0, 3, 1, 0, 7, 2, 1])
REALS = RNG.normal(size=N)


def split(model: pm.Model, **kwargs) -> LatentGaussianModel:
    return LatentGaussianModel(model, compile_kwargs=FAST, **kwargs)


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


OBSERVATIONS = {
    "probit": lambda f: pmgp.BernoulliProbit("y", f, observed=LABELS),
    "logit": lambda f: pmgp.BernoulliLogit("y", f, observed=LABELS),
    "bernoulli": lambda f: pm.Bernoulli("y", logit_p=f, observed=LABELS),
    "shifted probit": lambda f: pmgp.BernoulliProbit("y", 2 * f + 1, observed=LABELS),
    "poisson": lambda f: pm.Poisson("y", pt.exp(f), observed=COUNTS),
    "normal": normal,
    "negative binomial": negative_binomial,
    "potential": lambda f: pm.Potential("y", -0.25 * (f - REALS) ** 4),
}
CLOSED = {"probit": likelihoods.BernoulliProbit, "logit": likelihoods.BernoulliLogit}
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
    likelihood = example(name)[1].likelihood(np.zeros(1))
    assert isinstance(likelihood, CLOSED[name])


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
    f = pm.MvNormal("f", np.zeros(N), cov=scale * np.eye(N), shape=(2, N))
    pm.Normal("y", f, 1, observed=np.zeros((2, N)))


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


def missing_labels():
    masked = np.ma.masked_array(LABELS, mask=np.arange(N) == 0)
    pmgp.BernoulliProbit("y", latent_vector(), observed=masked)


def differences():
    f = latent_vector()
    pm.Normal("y", f[1:] - f[:-1], 1, observed=REALS[1:])


def summed_rate():
    pm.Poisson("y", pt.exp(latent_vector()).cumsum(), observed=COUNTS)


WRONG_MODELS = {
    whitened: "'f_rotated_' is a whitened Gaussian process.*reparameterize=False",
    without_latent: r"no latent multivariate normal variable.*pm\.MvNormal",
    several_latent: r"several multivariate normal variables \(f, g\); say which with latent=",
    matrix_latent: "'f' has 2 dimensions",
    discrete_parameter: "must be continuous; these are not: kind",
    without_theta: "no hyper-parameters besides 'f'",
    nothing_observed: "no observed variable depends on 'f'",
    free_variable_below: "the free variables z depend on 'f'",
    differences: "does not factorize over 'f'",
    summed_rate: "does not factorize over 'f'",
}


@pytest.mark.parametrize("build", WRONG_MODELS, ids=lambda build: build.__name__)
def test_wrong_models_are_refused(build):
    with pm.Model() as model:
        build()
    with pytest.raises(ModelError, match=WRONG_MODELS[build]):
        split(model)


@pytest.mark.filterwarnings("ignore::pymc.exceptions.ImputationWarning")
def test_missing_labels_are_refused():
    with pm.Model() as model:
        missing_labels()
    with pytest.raises(ModelError, match="y_unobserved"):
        split(model)


def test_an_unknown_latent_is_refused():
    with pm.Model() as model:
        several_latent()
    with pytest.raises(ModelError, match=r"'h' is not a free multivariate normal.*those are: f, g"):
        split(model, latent="h")
