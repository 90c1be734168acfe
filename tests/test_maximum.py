"""Maxima of the approximate evidence: gradients in theta, priors, and agreement of what ought to agree."""

from __future__ import annotations

from functools import cache

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

import pmgp
from pmgp.core.approximations import TIGHT
from pmgp.core.gaussians.sites import SiteApproximation
from pmgp.interface.maximum import Objective
from pmgp.interface.model.latent_gaussian import LatentGaussianModel
from pmgp.interface.model.points import value_point
from pmgp.interface.model.taking_apart import take_apart
from tests.steps.test_contract import FAST


def ard_model(X, y) -> pm.Model:
    """A length-scale for each input, a variance and a prior mean."""
    with pm.Model() as model:
        lengthscale = pm.Gamma("lengthscale", 2, 1, shape=2)
        variance = pm.Gamma("variance", 2, 0.5)
        level = pm.Normal("level", 0, 1)
        gp = pm.gp.Latent(
            mean_func=pm.gp.mean.Constant(level), cov_func=variance * pm.gp.cov.ExpQuad(2, ls=lengthscale)
        )
        pmgp.BernoulliProbit("y", gp.prior("f", X=X, reparameterize=False), observed=y)
    return model


def noisy_model(X, y) -> pm.Model:
    """A likelihood with a parameter of its own, known only to PyTensor."""
    with pm.Model() as model:
        variance = pm.Gamma("variance", 2, 0.5)
        noise = pm.HalfNormal("noise", 1)
        f = pm.gp.Latent(cov_func=variance * pm.gp.cov.ExpQuad(2, ls=1.5)).prior("f", X=X, reparameterize=False)
        pm.StudentT("y", nu=6, mu=f, sigma=noise, observed=X[:, 0] + 0.3 * np.sin(7.0 * X[:, 1]))
    return model


@cache
def parts_of(model: pm.Model) -> LatentGaussianModel:
    """Return the parts of a model that several tests need; their functions are compiled once."""
    return take_apart(model, compile_kwargs=FAST)


MODELS = {"isotropic": None, "ard": ard_model, "noisy": noisy_model}


@pytest.fixture(scope="module", params=MODELS)
def model(request, probit_model, binary_data):
    return probit_model if request.param == "isotropic" else MODELS[request.param](*binary_data)


@pytest.mark.parametrize("prior", [True, False])
@pytest.mark.parametrize("name", TIGHT)
def test_the_gradient_is_that_of_the_objective(model, name, prior):
    parts = parts_of(model)
    objective = Objective(model, parts, TIGHT[name](), prior)
    theta = np.linspace(-0.3, 0.6, parts.dimension)
    _, gradient = objective(theta)
    step = 1e-4 * np.eye(len(theta))
    expected = [(objective(theta + s)[0] - objective(theta - s)[0]) / 2e-4 for s in step]
    assert_allclose(gradient, expected, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", TIGHT)
def test_the_prior_leaves_the_jacobian_out(probit_model, name):
    """As pymc.find_MAP: the density of Gamma(2, 1) at the length-scale itself."""
    parts = parts_of(probit_model)
    theta = np.log([1.7, 3.0])
    with_prior, without = (Objective(probit_model, parts, TIGHT[name](), prior)(theta)[0] for prior in (True, False))
    densities = pm.logp(pm.Gamma.dist([2, 2], [1, 0.5]), np.array([1.7, 3.0])).eval()
    assert with_prior - without == pytest.approx(densities.sum(), abs=1e-8)


@pytest.fixture(scope="module")
def found_by(probit_model):
    """Return the maximum by each approximation."""
    return cache(lambda name: pmgp.find_map(probit_model, approximation=name, compile_kwargs=FAST))


@pytest.mark.parametrize("approximation", ["ep", "laplace"])
def test_it_finds_a_maximum(probit_model, found_by, approximation):
    found = found_by(approximation)
    assert found.converged
    assert set(found.point) == {"lengthscale", "variance", "f"}
    assert_allclose(found.point["f"], found.approximation.mean)
    parts = parts_of(probit_model)
    objective = Objective(probit_model, parts, TIGHT[approximation](), True)
    theta = np.log([found.point["lengthscale"], found.point["variance"]])
    value, gradient = objective(theta)
    assert_allclose(gradient, 0.0, atol=2e-3)
    assert value == pytest.approx(found.log_evidence + found.log_prior, abs=1e-6)
    for shift in 0.1 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]]):
        assert objective(theta + shift)[0] < value


def test_different_starts_lead_to_one_maximum(probit_model, found_by):
    far = pmgp.find_map(probit_model, start={"lengthscale": 4.0, "variance_log__": 2.0}, compile_kwargs=FAST)
    near = found_by("ep")
    assert_allclose(far.point["variance"], near.point["variance"], rtol=5e-3)
    assert_allclose(far.point["lengthscale"], near.point["lengthscale"], rtol=5e-3)


def test_without_the_prior_the_evidence_is_larger(probit_model, found_by):
    type_two = pmgp.find_map(probit_model, prior=False, compile_kwargs=FAST)
    assert type_two.log_evidence > found_by("ep").log_evidence


def test_the_context_gives_the_model(probit_model):
    with probit_model:
        found = pmgp.find_map(max_iterations=1, compile_kwargs=FAST)
    assert np.isfinite(found.log_evidence)


def separate_processes(X, y) -> pm.Model:
    """Counts whose rate has a process of each of two variances, one of them with a mean."""
    with pm.Model() as model:
        scale, level = pm.Gamma("scale", 2, 1), pm.Normal("level", 0, 1)
        mean = pm.gp.mean.Constant(level)
        f = pm.gp.Latent(mean_func=mean, cov_func=scale * pm.gp.cov.ExpQuad(2, ls=1.0)).prior(
            "f", X=X, reparameterize=False
        )
        g = pm.gp.Latent(cov_func=0.3 * pm.gp.cov.ExpQuad(2, ls=3.0)).prior("g", X=X, reparameterize=False)
        pm.Poisson("y", pm.math.exp(f + g), observed=y + np.arange(len(y)) % 4)
    return model


def three_classes(X, y) -> pm.Model:
    return pmgp.models.multiclass_classifier(X, y + (X[:, 0] > 0.0), ["a", "b", "c"])


def five_classes(X, y) -> pm.Model:
    return pmgp.models.multiclass_classifier(X, (np.arange(len(y)) + y) % 5, list("abcde"))


@pytest.mark.parametrize(
    ("build", "name", "shapes"),
    [
        (three_classes, "ep", {"f": (3, 20)}),
        (five_classes, "laplace", {"f": (5, 20)}),
        (separate_processes, "laplace", {"f": (20,), "g": (20,)}),
    ],
)
def test_several_latent_vectors_have_a_maximum(build, name, shapes, binary_data):
    """Nowhere near is more; priors are of theta alone; f and g are the parts of the mean of q."""
    model = build(*binary_data)
    found = pmgp.find_map(model, approximation=name, compile_kwargs=FAST)
    assert found.converged
    assert {variable: found.point[variable].shape for variable in shapes} == shapes
    assert_allclose(np.concatenate([found.point[variable].ravel() for variable in shapes]), found.approximation.mean)
    objective = Objective(model, parts_of(model), TIGHT[name](), True)
    theta = objective.parts.ravel(value_point(model, {v.name: found.point[v.name] for v in objective_variables(model)}))
    best = objective(theta)[0]
    assert best == pytest.approx(found.log_evidence + found.log_prior, abs=1e-6)
    for shift in 0.1 * np.concatenate([np.eye(len(theta)), -np.eye(len(theta))]):
        assert objective(theta + shift)[0] < best


def objective_variables(model: pm.Model) -> list:
    """The hyper-parameters."""
    return [variable for variable in model.free_RVs if variable.name not in ("f", "g")]


def logistic(X, y) -> pm.Model:
    with pm.Model() as model:
        lengthscale, scale = pm.HalfNormal("lengthscale", 3.0), pm.HalfNormal("scale", 5.0)
        gp = pm.gp.Latent(cov_func=scale**2 * pm.gp.cov.ExpQuad(2, ls=lengthscale))
        pmgp.BernoulliLogit("y", gp.prior("f", X=X, reparameterize=False), observed=y)
    return model


def test_predictions_at_the_maximum_know_how_uncertain_f_is(binary_data):
    """They are scikit-learn's, which has Laplace's approximation too."""
    X, y = binary_data
    model = logistic(X, y)
    found = pmgp.find_map(model, approximation="laplace", prior=False)
    new = np.array([[0.0, 4.0], [3.0, 3.0], [-3.0, -3.0], [0.5, 0.5], [-0.2, 0.0]])
    kernel = ConstantKernel(found.point["scale"] ** 2, "fixed") * RBF(found.point["lengthscale"], "fixed")
    expected = GaussianProcessClassifier(kernel, optimizer=None).fit(X, y).predict_proba(new)[:, 1]
    predicted = pmgp.predict(found.trace, new, model=model, progressbar=False)
    assert_allclose(predicted["probability"], expected, atol=0.04)
    # A twin that takes f to be its mean.
    certain = pmgp.predict(found.trace.map_over_datasets(at_its_mean), new, model=model, progressbar=False)
    assert np.abs(certain["probability"] - expected).max() > 0.15


def at_its_mean(draws):
    return draws.assign(f=draws["f"].mean("draw").broadcast_like(draws["f"])) if "f" in draws else draws


def test_draws_at_the_maximum_have_the_moments_of_q(probit_model, found_by):
    found = found_by("ep")
    f = found.trace["posterior"]["f"].to_numpy()[0]
    assert_allclose(f.mean(axis=0), found.approximation.mean, atol=1e-8)
    assert_allclose(f.var(axis=0), found.approximation.variance, rtol=0.25)


def test_the_trace_of_many_latent_values_has_fewer_draws(binary_data, monkeypatch):
    """And no copies of what the model computes from them, such as a covariance matrix."""
    monkeypatch.setattr("pmgp.interface.maximum.ELEMENTS", 60 * 20)
    model = logistic(*binary_data)
    with model:
        pm.Deterministic("outer", model["f"][:, None] * model["f"])
    found = pmgp.find_map(model, approximation="laplace")
    assert found.point["outer"].shape == (20, 20)
    posterior = found.trace["posterior"]
    assert (posterior.sizes["draw"], set(posterior.data_vars)) == (60, {"lengthscale", "scale", "f"})


def test_a_start_without_evidence_is_refused(probit_model):
    with pytest.raises(ValueError, match="prior density of the hyper-parameters is not finite"):
        pmgp.find_map(probit_model, start={"variance_log__": 800.0}, compile_kwargs=FAST)
    with pytest.raises(ValueError, match="no free variables scale; those are: f, lengthscale"):
        pmgp.find_map(probit_model, start={"scale": 1.0}, compile_kwargs=FAST)


def test_a_start_whose_evidence_has_lost_its_digits_is_refused(probit_model, monkeypatch):
    monkeypatch.setattr(SiteApproximation, "resolved", False)
    with pytest.raises(ValueError, match="too small for double precision"):
        pmgp.find_map(probit_model, compile_kwargs=FAST)


def test_a_point_may_mix_scales(probit_model):
    values = value_point(probit_model, {"lengthscale": 2.0, "variance_log__": 0.3})
    assert values["lengthscale_log__"] == pytest.approx(np.log(2.0))
    assert values["variance_log__"] == 0.3
    assert values["f"].shape == (20,)
