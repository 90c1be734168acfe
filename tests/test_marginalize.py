"""Models with f integrated out by an approximation, and the correction of their draws."""

from __future__ import annotations

import pickle
import warnings

import arviz as az
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal
from pymc.blocking import DictToArrayBijection, RaveledVars
from pytensor.graph.traversal import ancestors

import pmgp
from pmgp.core.estimators import ApproximateEvidence
from pmgp.interface.integrated.operation import LogEvidence
from pmgp.interface.model.latent_gaussian import ModelError
from tests.steps.test_contract import FAST
from tests.truths import ScaledLowRank

QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
SETTINGS = {"progressbar": False, "compile_kwargs": FAST}


def noisy_model() -> pm.Model:
    """Several length-scales, a mean, a parameter of the likelihood, initial values, data, and what depends on f."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(12, 2))
    with pm.Model(coords={"place": range(12)}) as model:
        noise = pm.HalfNormal("noise", 1, initval=0.7)
        lengthscale = pm.Gamma("lengthscale", 2, 1, shape=2, initval=[1.0, 2.0])
        variance = pm.Gamma("variance", 2, 0.5)
        gp = pm.gp.Latent(
            mean_func=pm.gp.mean.Constant(pm.Normal("level", 0, 1)),
            cov_func=variance * pm.gp.cov.ExpQuad(2, ls=lengthscale),
        )
        f = gp.prior("f", X=pm.Data("X", X), reparameterize=False, dims="place")
        pm.Deterministic("doubled", 2.0 * f)
        pm.Deterministic("deviation", pm.math.sqrt(variance))
        pm.StudentT("y", nu=6, mu=f, sigma=noise, observed=X[:, 0] + 0.3 * np.sin(7.0 * X[:, 1]), dims="place")
        pm.Normal("other", pm.math.log(variance), 0.5, observed=pm.Data("measured", [0.3, 0.5]))
    return model


@pytest.fixture(scope="module", params=["ep", "laplace"])
def marginal(request) -> pm.Model:
    return pmgp.marginal.approximate(noisy_model(), approximation=request.param, compile_kwargs=FAST)


def test_the_gradient_is_that_of_the_density(marginal):
    point = marginal.initial_point()
    start = DictToArrayBijection.map(point)
    density, gradient = marginal.compile_logp(mode="FAST_COMPILE"), marginal.compile_dlogp(mode="FAST_COMPILE")

    def at(theta):
        return DictToArrayBijection.rmap(RaveledVars(theta, start.point_map_info))

    theta = start.data + np.linspace(-0.2, 0.3, start.data.size)
    differences = [(density(at(theta + s)) - density(at(theta - s))) / 2e-4 for s in 1e-4 * np.eye(theta.size)]
    assert_allclose(gradient(at(theta)), differences, rtol=2e-4, atol=2e-4)


def test_what_does_not_depend_on_f_stays(marginal):
    names = {"noise", "lengthscale", "variance", "level"}
    assert {rv.name for rv in marginal.free_RVs} == names
    assert [rv.name for rv in marginal.observed_RVs] == ["other"]
    assert [v.name for v in marginal.deterministics] == ["deviation", "log_marginal_likelihood"]
    assert [v.name for v in marginal.data_vars] == ["measured"]
    assert_allclose(np.exp(marginal.initial_point()["lengthscale_log__"]), [1.0, 2.0])
    assert np.exp(marginal.initial_point()["noise_log__"]) == pytest.approx(0.7)


def test_its_density_is_the_prior_times_the_evidence(marginal):
    """Each hyper-parameter in its own place, whatever the order of the model's variables."""
    model = noisy_model()
    theta = {"noise": 0.4, "lengthscale": [0.8, 2.5], "variance": 1.7, "level": -0.3}
    point = {model.rvs_to_values[model[k]].name: np.asarray(v, float) for k, v in theta.items()}
    point = {k: np.log(v) if k.endswith("_log__") else v for k, v in point.items()}
    approximation = operation_of(marginal).evidence._objective.approximation
    tight = {"estimator": "none", "approximation": approximation, "compile_kwargs": FAST}
    evidence = pmgp.marginal.log_likelihood(model, theta, **tight).value
    rest = [*model.free_RVs, model["other"]]
    prior = model.compile_logp(vars=[rv for rv in rest if rv.name != "f"], mode="FAST_COMPILE")
    total = marginal.compile_logp(mode="FAST_COMPILE")
    expected = prior({**point, "f": np.zeros(12)}) + evidence
    assert total(point) == pytest.approx(expected, abs=1e-6)


def operation_of(marginal: pm.Model) -> LogEvidence:
    owners = [v.owner for v in ancestors([marginal.potentials[0]]) if v.owner is not None]
    [operation] = {owner.op for owner in owners if isinstance(owner.op, LogEvidence)}
    return operation


def test_the_model_that_was_given_may_change_its_data():
    """The marginal model keeps the data as they were."""
    model = noisy_model()
    marginal = pmgp.marginal.approximate(model, compile_kwargs=FAST)
    density, point = marginal.compile_logp(mode="FAST_COMPILE"), marginal.initial_point()
    before = density(point)
    pm.set_data({"X": np.zeros((12, 2))}, model=model)
    moved = {name: value + 0.1 for name, value in point.items()}
    density(moved)
    assert density(point) == before
    assert "X" not in marginal.named_vars


def test_an_impossible_theta_has_density_zero(marginal):
    point = marginal.initial_point()
    density, gradient = marginal.compile_logp(mode="FAST_COMPILE"), marginal.compile_dlogp(mode="FAST_COMPILE")
    far = point | {"variance_log__": np.array(800.0)}
    assert not density(far) > -1e10
    operation = operation_of(marginal)
    assert operation.evidence.value(np.full(5, 900.0)) == -np.inf
    assert_array_equal(operation.evidence.gradient(np.full(5, np.nan)), np.zeros(5))
    assert np.isfinite(gradient(point)).all()


def test_the_operation_survives_pickling(marginal):
    operation = operation_of(marginal)
    theta = np.linspace(-0.1, 0.2, 5)
    copy = pickle.loads(pickle.dumps(operation.evidence))
    assert copy.value(theta) == operation.evidence.value(theta)
    assert_array_equal(copy.gradient(theta), operation.evidence.gradient(theta))


def test_the_maximum_is_that_of_find_map(probit_model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        marginal = pmgp.marginal.approximate(probit_model, compile_kwargs=FAST)
        found = pm.find_MAP(model=marginal, progressbar=False, compile_kwargs=FAST)
    expected = pmgp.find_map(probit_model, compile_kwargs=FAST).point
    for name in ("lengthscale", "variance"):
        assert_allclose(found[name], expected[name], rtol=5e-3)


def test_what_cannot_be_marginalized_is_refused(probit_model):
    with pytest.raises(ValueError, match="unknown approximation 'guess'"):
        pmgp.marginal.approximate(probit_model, approximation="guess")
    with pm.Model() as model:
        pm.Normal("x")
    with pytest.raises(ModelError, match="no latent multivariate normal variable"):
        pmgp.marginal.approximate(model)


# Correction, on a model whose posterior of theta is known by summation


@pytest.fixture(scope="module")
def problem() -> ScaledLowRank:
    """Few labels and a prior that lets the scale be large: Laplace's evidence is far off there."""
    return ScaledLowRank(12, noise=4.0, seed=2)


@pytest.fixture(scope="module")
def model(problem) -> pm.Model:
    with pm.Model(coords={"place": [f"place {i}" for i in range(12)]}) as model:
        scale = pm.LogNormal("scale", 0.0, 1.0)
        f = pm.MvNormal("f", np.zeros(12), cov=scale * problem.covariance, dims="place")
        pm.Deterministic("probability", pm.math.invprobit(f), dims="place")
        pmgp.BernoulliProbit("y", f, observed=problem.y)
    return model


@pytest.fixture(scope="module")
def approximate(model):
    with pmgp.marginal.approximate(model, approximation="laplace"), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return pm.sample(1000, tune=500, chains=2, cores=1, random_seed=1, **QUIET)


@pytest.fixture(scope="module")
def weighted(model, approximate):
    return pmgp.marginal.correct(approximate, model=model, resample=False, random_seed=1, **SETTINGS)


def log_scale(idata) -> np.ndarray:
    return np.log(idata["posterior"]["scale"].to_numpy())


def true_mean(problem) -> float:
    weights = np.exp(problem.log_likelihood - problem.log_likelihood.max() - 0.5 * problem.grid**2)
    return float(weights @ problem.grid / weights.sum())


def distance(values: np.ndarray, log_weights: np.ndarray, truth: float) -> float:
    """Return a weighted mean's distance from the truth, in standard errors that allow for dependent draws."""
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.mean()
    mean = (weights * values).mean()
    error = az.mcse(xr.Dataset({"x": (("chain", "draw"), weights * (values - mean))}), method="mean")["x"]
    return float(abs(mean - truth) / error)


def test_weights_make_the_draws_exact(problem, approximate, weighted):
    truth = true_mean(problem)
    log_weights = weighted["sample_stats"]["log_weight"].to_numpy()
    assert distance(log_scale(weighted), log_weights, truth) < 4.0
    # Without weights, and with weights that leave out the approximation's density, they are not.
    assert distance(log_scale(approximate), np.zeros_like(log_weights), truth) > 6.0
    broken = weighted["sample_stats"]["log_marginal_likelihood"].to_numpy()
    assert distance(log_scale(approximate), broken, truth) > 6.0


def test_the_weights_mean_is_the_ratio_of_the_evidences(problem, model, approximate, weighted):
    laplace = pmgp.evidence(
        approximate, model=model, estimator="none", approximation="laplace", random_seed=2, **SETTINGS
    )
    log_weights = weighted["sample_stats"]["log_weight"].to_numpy()
    relative = np.exp(log_weights - weighted.attrs["log_mean_weight"])
    error = float(az.mcse(xr.Dataset({"w": (("chain", "draw"), relative)}), method="mean")["w"])
    expected = problem.log_evidence - laplace.log_evidence
    assert abs(weighted.attrs["log_mean_weight"] - expected) < 4.0 * np.hypot(error, laplace.standard_error)
    assert abs(expected) > 0.05


def test_resampled_draws_agree_with_the_exact_chain(model, approximate):
    corrected = pmgp.marginal.correct(approximate, model=model, random_seed=1, **SETTINGS)
    assert corrected.attrs["words"].endswith("): reliable")
    assert corrected["posterior"]["f"].dims == ("chain", "draw", "place")
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        exact = pm.sample(3000, tune=500, chains=2, cores=1, step=pmgp.PseudoMarginal(), random_seed=2, **QUIET)
    for name in ("scale", "f"):
        one, other = (idata["posterior"][name] for idata in (corrected, exact))
        if name == "scale":
            one, other = np.log(one), np.log(other)
        errors = [az.mcse(x.to_dataset(name="x"), method="mean")["x"] for x in (one, other)]
        difference = np.abs(one.mean(("chain", "draw")) - other.mean(("chain", "draw")))
        assert float((difference / np.hypot(*errors)).max()) < 4.0
    probability = pm.compute_deterministics(corrected["posterior"].to_dataset(), model=model, progressbar=False)
    assert probability["probability"].shape == (2, 1000, 12)


def shortened(idata) -> xr.DataTree:
    """A copy with the first 200 draws of each chain."""
    return xr.DataTree.from_dict(
        {"posterior": idata["posterior"].to_dataset().isel(draw=slice(0, 200)).copy(deep=True)}
    )


def test_it_keeps_the_other_groups_and_repeats_by_seed(model, approximate, weighted):
    few = shortened(approximate)
    one, two = (pmgp.marginal.correct(few, model=model, random_seed=4, **SETTINGS) for _ in range(2))
    assert_array_equal(one["posterior"]["f"], two["posterior"]["f"])
    assert set(one["posterior"].data_vars) == {"scale", "f"}
    assert_array_equal(one["observed_data"]["y"], model.rvs_to_values[model["y"]].eval())
    assert set(weighted["sample_stats"].data_vars) == {"log_marginal_likelihood", "log_weight"}
    assert weighted.attrs["effective_size"] < 2000
    scales = approximate["posterior"]["scale"].to_numpy()
    for chain in range(2):
        assert np.isin(one["posterior"]["scale"][chain], scales[chain]).all()


def test_predictions_refuse_draws_that_have_weights(model, weighted):
    with pytest.raises(ValueError, match=r"the draws have weights.*unless resample=False"):
        pmgp.predict(weighted, [[0.0]], model=model)
    with pytest.raises(ValueError, match="the draws have weights"):
        pmgp.loo(weighted, model=model, progressbar=False)


def test_weights_that_cannot_be_trusted_are_told(model, approximate):
    """A chain of another density: its stored evidence falls with the scale as no posterior does."""
    wrong = shortened(approximate)
    wrong["posterior"]["log_marginal_likelihood"] -= 4.0 * np.log(wrong["posterior"]["scale"]) ** 2
    with pytest.warns(UserWarning, match="the correction: effective sample size .*: not reliable"):
        found = pmgp.marginal.correct(wrong, model=model, random_seed=1, **SETTINGS)
    assert found.attrs["pareto_k"] > 0.7


def test_draws_that_cannot_be_corrected_are_refused(model, approximate):
    posterior = approximate["posterior"].to_dataset().drop_vars("log_marginal_likelihood")
    plain = xr.DataTree.from_dict({"posterior": posterior})
    with pytest.raises(ValueError, match="no draws of log_marginal_likelihood: give draws of"):
        pmgp.marginal.correct(plain, model=model, **SETTINGS)
    for nothing in ("none", ApproximateEvidence()):
        with pytest.raises(ValueError, match='estimator="none" estimates nothing'):
            pmgp.marginal.correct(approximate, model=model, estimator=nothing, **SETTINGS)
    with pytest.raises(ValueError, match="the posterior has no draws of scale"):
        pmgp.marginal.correct(xr.DataTree.from_dict({"posterior": xr.Dataset()}), model=model, **SETTINGS)
