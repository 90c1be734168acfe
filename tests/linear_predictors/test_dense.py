"""Linear predictors of processes with covariance matrices, and of effects beside them: exact evidence, and a run."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from numpy.polynomial.hermite_e import hermegauss
from scipy.linalg import block_diag
from scipy.special import expit
from scipy.stats import multivariate_normal, norm

import pmgp
from pmgp.core.approximations import ExpectationPropagation, Laplace
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.importance.block_left_out import block_evidence_left_out
from pmgp.core.marginal.evidence_gradient import evidence_gradient
from pmgp.interface.importance.loo import _terms
from pmgp.interface.model.latent_gaussian import LatentGaussianModel, ModelError
from pmgp.interface.model.taking_apart import take_apart

X, OTHER = np.linspace(-1.5, 1.5, 6)[:, None], np.array([[0.0], [0.7], [2.0]])
FIRST, SECOND = np.array([0, 1, 2, 5, 4, 3, 0, 2]), np.array([1, 3, 0, 4, 5, 2, 2, 4])
GROUP = np.array([0, 2, 1, 1, 0, 2, 2, 0])
A = np.cos(np.multiply.outer(np.arange(8.0), 1.0 + np.arange(6.0)))
Z = np.array([0.3, -1.1, 0.8, 1.9, 0.4, 2.5, 1.2, -0.6])
NOISE = 0.6
QUIET = {"progressbar": False, "random_seed": 1}


def process(name: str, inputs: np.ndarray, mean: float = 0.4, **settings: int) -> Any:
    lengthscale, scale = pm.LogNormal(f"lengthscale_{name}", 0.0, 0.3), pm.HalfNormal(f"scale_{name}", 1.0)
    covariance = scale**2 * pm.gp.cov.Matern52(1, ls=lengthscale)
    gp = pm.gp.Latent(mean_func=pm.gp.mean.Constant(mean), cov_func=covariance)
    return gp.prior(name, X=inputs, reparameterize=False, **settings)


def differences() -> Any:
    f = process("f", X)
    return f[FIRST] - f[SECOND]


def averages() -> Any:
    return pm.Normal("level") + pt.dot(A, process("f", X))


def with_effects() -> Any:
    u = pm.Normal("u", 0.0, pm.HalfNormal("tau", 1.0), shape=3)
    return process("f", X)[FIRST] + 0.5 * u[GROUP]


def of_other_lengths() -> Any:
    return process("f", X)[FIRST] - process("g", OTHER)[GROUP]


def with_a_scale() -> Any:
    f = pm.Normal("weight", 1.2, 0.3) * process("f", X)
    return f[FIRST] + 0.3 * f[SECOND]


def with_coefficients() -> Any:
    beta = pm.MvNormal("beta", np.ones(2), np.array([[0.5, 0.2], [0.2, 0.4]]))
    return process("f", X)[FIRST] + A[:, :2] @ beta


def of_outputs() -> Any:
    """Two rows of one process, mixed with weights."""
    f = process("f", X, n_outputs=2)
    return A[:, 0] * f[0, FIRST] + A[:, 1] * f[1, SECOND]


def with_a_walk() -> Any:
    walk = pm.GaussianRandomWalk("walk", sigma=pm.HalfNormal("tau", 1.0), init_dist=pm.Normal.dist(0.0, 0.7), steps=2)
    return process("f", X)[FIRST] + walk[GROUP]


def with_a_map() -> Any:
    neighbors = np.eye(3, k=1) + np.eye(3, k=-1)
    s = pm.ICAR("s", W=neighbors, zero_sum_stdev=0.1)
    return process("f", X)[FIRST] + pm.HalfNormal("sigma", 1.0) * s[GROUP]


def with_correlated_effects() -> Any:
    z = pm.Normal("z", 0.0, 1.0, shape=(2, 3))
    effects = (pm.HalfNormal("tau", 1.0, shape=2)[:, None] * np.linalg.cholesky([[1.0, 0.5], [0.5, 1.0]])) @ z
    return process("f", X)[FIRST] + effects[0, GROUP] + Z * effects[1, GROUP]


LATENT = {
    with_effects: ["f", "u"],
    with_coefficients: ["f", "beta"],
    with_a_walk: ["f", "walk"],
    with_a_map: ["f", "s"],
    with_correlated_effects: ["f", "z"],
}
STRUCTURES = [differences, averages, of_other_lengths, with_a_scale, of_outputs, *LATENT]


class Measured(NamedTuple):
    """`graphs` are the predictor and the parameters of the latent variables' distributions as functions of a point."""

    parts: LatentGaussianModel
    theta: np.ndarray
    shapes: dict[str, tuple[int, ...]]
    graphs: Callable[[dict[str, np.ndarray]], list[np.ndarray]]


def measured(predictor: Callable[[], Any]) -> Measured:
    """Z with normal noise about the predictor."""
    with pm.Model() as model:
        y = pm.Normal("y", predictor(), NOISE, observed=Z)
    parts = take_apart(model, LATENT.get(predictor))
    names = parts.latent_vector.names
    plain = [model[name].owner for name in names if name not in MOMENTS]
    of_latents = [one for node in plain for one in node.op.dist_params(node)]
    graphs = model.replace_rvs_by_values([y.owner.op.dist_params(y.owner)[0], *of_latents])
    settings = {"inputs": model.value_vars, "on_unused_input": "ignore", "mode": "FAST_COMPILE"}
    shapes = {name: model.initial_point()[name].shape for name in names}
    return Measured(
        parts, parts.initial_theta + 0.1 * np.arange(parts.dimension), shapes, model.compile_fn(graphs, **settings)
    )


def moments(case: Measured, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the observations, from PyMC's own of the latent variables and the predictor's graph.

    Each latent element is moved alone, so that no code of the package finds the matrix of the predictor.
    """
    zeros = {name: np.zeros(shape) for name, shape in case.shapes.items()}
    point = case.parts.unravel(theta) | zeros
    at_zero, *parameters = case.graphs(point)
    mean, covariance, parameters = at_zero.copy(), NOISE**2 * np.eye(8), iter(parameters)
    for name, shape in case.shapes.items():
        own = MOMENTS.get(name)
        center, spread = of_all(name, shape, next(parameters), next(parameters)) if own is None else own(point)
        moved = (point | {name: one.reshape(shape)} for one in np.eye(center.size))
        rows = np.array([case.graphs(one)[0] - at_zero for one in moved])
        mean += center @ rows
        covariance += rows.T @ spread @ rows
    return mean, covariance


def log_evidence(case: Measured, theta: np.ndarray) -> float:
    return float(multivariate_normal(*moments(case, theta)).logpdf(Z))


def of_a_walk(point: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    deviations = np.array([0.7, *np.exp(point["tau_log__"]) * np.ones(2)])
    steps = np.tri(3) * deviations
    return np.zeros(3), steps @ steps.T


def of_a_map(point: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """PyMC gives the sum a deviation of a tenth times the number of areas, and squares of differences half a weight."""
    precision = np.array([[1.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 1.0]])
    return np.zeros(3), np.linalg.inv(precision + np.ones((3, 3)) / 0.3**2)


MOMENTS = {"walk": of_a_walk, "s": of_a_map}


def of_all(name: str, shape: tuple[int, ...], mean: np.ndarray, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of all elements, from the parameters of a variable's distribution."""
    mean = np.broadcast_to(mean, shape).ravel()
    if name in ("u", "z"):
        return mean, np.diag(np.broadcast_to(spread, shape).ravel() ** 2)
    return mean, block_diag(*np.broadcast_to(spread, (mean.size // spread.shape[-1], *spread.shape[-2:])))


@pytest.fixture(scope="module", params=STRUCTURES, ids=lambda structure: structure.__name__)
def case(request) -> Measured:
    return measured(request.param)


def test_the_evidence_of_normal_observations_is_exact(case):
    parts, theta = case.parts, case.theta
    prior, likelihood = parts.prior(theta), parts.likelihood(theta)
    q, truth = Laplace().fit(prior, likelihood), log_evidence(case, theta)
    assert q.log_evidence == pytest.approx(truth, abs=1e-7)
    weighed = ImportanceSampling(4).estimate(np.random.default_rng(1), q, likelihood).log_evidence
    assert weighed == pytest.approx(truth, abs=1e-6)
    assert ExpectationPropagation().fit(prior, likelihood).log_evidence == pytest.approx(truth, abs=1e-3)


def test_the_gradient_in_theta_is_that_of_the_exact_evidence(case):
    parts, theta = case.parts, case.theta
    likelihood = parts.likelihood(theta)
    gradient = evidence_gradient(parts, Laplace(), theta, Laplace().fit(parts.prior(theta), likelihood), likelihood)
    for element in range(len(theta)):
        step = 1e-4 * np.eye(len(theta))[element]
        difference = (log_evidence(case, theta + step) - log_evidence(case, theta - step)) / 2e-4
        assert gradient[element] == pytest.approx(difference, rel=1e-4, abs=1e-5)


WINNER, LOSER = np.array([0, 1, 0, 2, 0]), np.array([1, 2, 2, 1, 1])


@pytest.mark.parametrize("scale", [0.0, np.inf])
def test_a_scale_of_zero_leaves_no_density(scale):
    case = measured(with_a_scale)
    [weight] = case.parts.theta.places([value for value in case.parts.theta.values if value.name == "weight"])
    assert case.parts.prior(np.where(np.arange(len(case.theta)) == weight, scale, case.theta)).factorized() is None


def test_a_left_out_observation_has_its_conditional_density(case):
    """The density of each observation given the others, at a theta; with normal observations all draws of q say it."""
    parts, theta = case.parts, case.theta
    likelihood = parts.likelihood(theta)
    q = Laplace().fit(parts.prior(theta), likelihood)
    particles = q.sample(np.random.default_rng(2), 50)
    found = block_evidence_left_out(q, _terms(parts, likelihood, theta), particles)
    mean, covariance = moments(case, theta)
    precision = np.linalg.inv(covariance)
    residual, variance = precision @ (Z - mean) / precision.diagonal(), 1.0 / precision.diagonal()
    whole = log_evidence(case, theta)
    np.testing.assert_allclose(whole - found, norm.logpdf(residual, scale=np.sqrt(variance)), atol=1e-6)


def preferences(sign: float = -1.0) -> pm.Model:
    with pm.Model() as model:
        f = process("f", OTHER)
        pm.Bernoulli("y", logit_p=f[WINNER] + sign * f[LOSER], observed=np.ones(5))
    return model


def miss(model: pm.Model) -> float:
    """The error of the mean of 200 estimates p^ / p, against quadrature over the utilities."""
    parts = take_apart(model)
    theta = parts.initial_theta
    prior, likelihood = parts.prior(theta), parts.likelihood(theta)
    nodes, weights = hermegauss(40)
    grid = np.array(np.meshgrid(nodes, nodes, nodes, indexing="ij")).reshape(3, -1)
    mass = np.einsum("i,j,k->ijk", weights, weights, weights).ravel() / weights.sum() ** 3
    f = prior.factorized().factor @ grid
    truth = mass @ expit(f[WINNER] - f[LOSER]).prod(axis=0)
    q, rng = ExpectationPropagation().fit(prior, likelihood), np.random.default_rng(1)
    found = [ImportanceSampling(16).estimate(rng, q, likelihood).log_evidence for _ in range(200)]
    return float(abs(np.exp(found).mean() / truth - 1.0))


def test_estimates_are_unbiased():
    assert miss(preferences()) < 0.01


def test_a_twin_of_sums_in_place_of_differences_is_rejected():
    assert miss(preferences(1.0)) > 0.1


def test_a_density_with_kinks_is_one_of_differences():
    """Almost all second derivatives are zero. Estimates by Laplace's approximation have a deviation of 2."""
    with pm.Model() as model:
        pm.Laplace("y", differences(), NOISE, observed=Z)
    parts, rng = take_apart(model), np.random.default_rng(0)
    likelihood = parts.likelihood(parts.initial_theta)
    q = ExpectationPropagation().fit(parts.prior(parts.initial_theta), likelihood)
    assert np.std([ImportanceSampling(64).estimate(rng, q, likelihood).log_evidence for _ in range(20)]) < 0.2


def test_a_variable_without_data_is_integrated_out_too():
    with pm.Model() as model:
        pm.Normal("y", differences(), NOISE, observed=Z)
        pm.MvNormal("g", np.zeros(2), np.eye(2))
    assert take_apart(model).latent_vector.names == ["f", "g"]


def test_the_gradient_of_laplace_s_evidence_follows_the_mode():
    """Labels are log-concave; their curvature moves with the mode."""
    parts, fit = take_apart(preferences()), Laplace(tolerance=1e-10)
    theta, likelihood = parts.initial_theta, parts.likelihood(parts.initial_theta)
    gradient = evidence_gradient(parts, fit, theta, fit.fit(parts.prior(theta), likelihood), likelihood)
    for element, step in enumerate(1e-4 * np.eye(2)):
        above, below = (fit.fit(parts.prior(at), likelihood).log_evidence for at in (theta + step, theta - step))
        assert gradient[element] == pytest.approx((above - below) / 2e-4, rel=1e-3, abs=1e-5)


COUNTS = np.array([1, 0, 3, 2, 0, 6, 1, 1])
LATENT_OF_COUNTS = {"latent": ["f", "u"]}


def counted() -> pm.Model:
    with pm.Model(coords={"group": ["a", "b", "c"]}) as model:
        item, group = pm.Data("item", FIRST), pm.Data("group_of", GROUP)
        u = pm.Normal("u", 0.0, pm.HalfNormal("tau", 1.0), dims="group")
        f = process("f", pm.Data("X", X))
        pm.Poisson("y", pm.math.exp(f[item] + u[group]), observed=COUNTS, shape=item.shape)
    return model


@pytest.fixture(scope="module")
def model() -> pm.Model:
    return counted()


@pytest.fixture(scope="module")
def idata(model):
    with warnings.catch_warnings(), model:
        warnings.simplefilter("ignore", UserWarning)
        step = pmgp.PseudoMarginal(**LATENT_OF_COUNTS)
        return pm.sample(150, tune=150, chains=2, cores=1, step=step, **QUIET)


def test_the_posterior_is_that_of_weighted_draws(model, idata):
    """Importance sampling of theta has no chain."""
    weighed = pmgp.importance(model=model, draws=300, **LATENT_OF_COUNTS, **QUIET)
    for name in ("tau", "f", "u"):
        values = weighed["posterior"][name]
        mean = values.mean(("chain", "draw")).to_numpy()
        found = idata["posterior"][name].mean(("chain", "draw")).to_numpy()
        assert np.abs(found - mean).max() < 0.35 * values.std(("chain", "draw")).to_numpy().max()
    evidence = pmgp.evidence(idata, model=model, draws=100, **LATENT_OF_COUNTS, **QUIET)
    assert evidence.log_evidence == pytest.approx(weighed.attrs["log_evidence"], abs=0.3)


def test_a_step_method_that_is_pickled_computes_the_same(model):
    with model:
        step = pmgp.PseudoMarginal(**LATENT_OF_COUNTS)
    theta, copy = step.latent_model.initial_theta, pickle.loads(pickle.dumps(step))
    found, again = (one._evaluate(theta, None).log_screen for one in (step, copy))
    assert np.isfinite(found)
    assert again == found


def two_draws(model: pm.Model) -> xr.DataTree:
    """Two draws that no sampler has made."""
    rng = np.random.default_rng(3)
    drawn = {name: rng.normal(size=(1, 2, size)) for name, size in (("f", 6), ("u", 3))}
    drawn |= {name: rng.uniform(0.5, 1.5, size=(1, 2)) for name in ("lengthscale_f", "scale_f", "tau")}
    dims = {"f": ("chain", "draw", "f_dim_0"), "u": ("chain", "draw", "group")}
    variables = {name: (dims.get(name, ("chain", "draw")), values) for name, values in drawn.items()}
    posterior = xr.Dataset(variables, coords={"chain": [0], "draw": [0, 1], "group": list(model.coords["group"])})
    return xr.DataTree.from_dict({"posterior": posterior, "constant_data": xr.Dataset({"X": (("a", "b"), X)})})


def moments_at(draw: xr.Dataset, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of f at new inputs given the values at X."""
    kernel = float(draw["scale_f"]) ** 2 * pm.gp.cov.Matern52(1, ls=float(draw["lengthscale_f"]))
    # PyMC adds this to the diagonal of a prior's covariance.
    whole = kernel(np.vstack([X, at])).eval() + 1e-6 * np.eye(8)
    weights = np.linalg.solve(whole[:6, :6], whole[:6, 6:])
    return 0.4 + (draw["f"].to_numpy() - 0.4) @ weights, whole[6:, 6:] - whole[6:, :6] @ weights


def test_new_inputs_and_groups_are_predicted():
    """f goes on at two new inputs, and u has a new group: against the conditional distribution by dense algebra."""
    model, at = counted(), np.array([[0.05], [2.5]])
    drawn = two_draws(model)
    model.set_dim("group", 4, coord_values=["a", "b", "c", "d"])
    with model:
        pm.set_data({"X": np.vstack([X, at]), "item": np.array([6, 7, 0]), "group_of": np.array([1, 3, 3])})
    found = pmgp.predict(drawn, model=model, **LATENT_OF_COUNTS)
    means, variances = [], []
    for number in range(2):
        draw = drawn["posterior"].dataset.isel(chain=0, draw=number)
        mean, covariance = moments_at(draw, at)
        u, tau = draw["u"].to_numpy(), float(draw["tau"])
        means.append([mean[0] + u[1], mean[1], draw["f"].to_numpy()[0]])
        variances.append([covariance[0, 0], covariance[1, 1] + tau**2, tau**2])
    rates = np.exp(np.array(means) + 0.5 * np.array(variances)).mean(axis=0)
    np.testing.assert_allclose(found["latent_mean"], np.mean(means, axis=0), rtol=1e-5)
    expected = np.mean(variances, axis=0) + np.var(means, axis=0)
    np.testing.assert_allclose(found["latent_variance"], expected, rtol=1e-5)
    np.testing.assert_allclose(found["mean"], rates, rtol=1e-4)


@pytest.mark.parametrize("inputs", [X[::-1], X[:5]], ids=["in another order", "fewer"])
def test_inputs_that_were_exchanged_are_refused(inputs):
    model = counted()
    drawn = two_draws(model)
    model.set_data("X", inputs)
    with pytest.raises(ValueError, match=r"'X' does not begin with the values .* add new ones after them"):
        pmgp.predict(drawn, model=model, **LATENT_OF_COUNTS)


def test_rows_of_a_process_alone_are_predicted_without_new_inputs():
    model = preferences()
    rng = np.random.default_rng(3)
    f = rng.normal(size=(1, 4, 3))
    theta = {name: (("chain", "draw"), np.ones((1, 4))) for name in ("lengthscale_f", "scale_f")}
    posterior = xr.Dataset(theta | {"f": (("chain", "draw", "f_dim_0"), f)}, coords={"chain": [0], "draw": range(4)})
    found = pmgp.predict(xr.DataTree.from_dict({"posterior": posterior}), model=model)
    expected = expit(f[0][:, WINNER] - f[0][:, LOSER]).mean(axis=0)
    np.testing.assert_allclose(found["probability"], expected, rtol=1e-12)


def test_what_is_written_about_such_models(model):
    words = str(pmgp.recommend(model, latent=["f", "u"]))
    assert "integrated out together with a covariance matrix" in words
    assert "Pseudo-marginal chain with sums" in str(pmgp.recommend(preferences()))
    with pm.Model() as many:
        u = pm.Normal("u", 0.0, pm.HalfNormal("tau", 1.0), shape=9)
        pm.Normal("y", process("f", X)[FIRST] + u[FIRST], NOISE, observed=Z)
    assert "latent=['f', 'u'] integrates out u too" in str(pmgp.describe(many))


@pytest.mark.parametrize("predictor", [lambda u: pt.exp(u).sum(), lambda u: pt.exp(u).cumsum()[:8]])
def test_functions_of_many_values_are_refused(predictor):
    with pm.Model() as many:
        u = pm.Normal("u", 0.0, pm.HalfNormal("tau", 1.0), shape=40)
        pm.Normal("y", process("f", X)[FIRST] + predictor(u), NOISE, observed=Z)
    with pytest.raises(ModelError, match=r"some of its terms depend on several values of them"):
        take_apart(many, ["f", "u"])


def test_estimators_that_need_single_values_are_refused(model):
    with model, pytest.raises(ValueError, match=r"SequentialSampling needs observations that depend on one value"):
        pmgp.PseudoMarginal(estimator="sequential", **LATENT_OF_COUNTS)


def test_schemes_that_need_the_covariance_are_refused(model):
    with model, pytest.raises(ModelError, match=r"linear predictors of f, u, which pmgp\.PseudoMarginal integrates"):
        pmgp.steps.Ancillary(**LATENT_OF_COUNTS)
