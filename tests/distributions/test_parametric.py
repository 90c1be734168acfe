"""Counts, volatilities and ordinal labels as PyMC distributions: density, derivatives, draws, conventions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal
from pymc.distributions.distribution import support_point
from pymc.distributions.moments import mean
from scipy.special import ndtr

import pmgp
from pmgp.core import likelihoods
from pmgp.interface import distributions
from tests.distributions.test_bernoulli import LINKS

POINTS = np.concatenate([np.linspace(-40.0, 40.0, 81), [-8.3, 8.3, 37.6]])
FAST = pytensor.compile.get_mode("FAST_COMPILE")
THRESHOLDS = np.array([-1.0, 0.3, 2.0])
EXPOSURE, NOISE = 2.5, 0.7
COUNTS = np.array([0, 2, 7, 40])
RETURNS = np.array([0.0, -0.4, 1.3, 25.0])
CATEGORIES = np.arange(4)


@dataclass(frozen=True)
class Case:
    """A distribution with parameters, the same one of PyMC, and E[y|f]."""

    parameters: tuple[Any, ...]
    observations: np.ndarray
    twin: Callable[[Any], Any]
    mean: Callable[[np.ndarray], np.ndarray]
    outside: tuple[float, ...]


CASES = {
    "LogGaussianCox": Case(
        (EXPOSURE,),
        COUNTS,
        lambda f: pm.Poisson.dist(EXPOSURE * pt.exp(f)),
        lambda f: EXPOSURE * np.exp(f),
        (-1, 0.5),
    ),
    "StochasticVolatility": Case(
        (), RETURNS, lambda f: pm.Normal.dist(0, pt.exp(f)), lambda f: np.zeros_like(f), (np.inf, -np.inf)
    ),
    "OrdinalProbit": Case(
        (THRESHOLDS, NOISE),
        CATEGORIES,
        lambda f: pm.OrderedProbit.dist(f, THRESHOLDS, NOISE),
        lambda f: ndtr((np.asarray(f)[..., None] - THRESHOLDS) / NOISE).sum(axis=-1),
        (-1, 4, 0.5),
    ),
}
every_distribution = pytest.mark.parametrize("name", CASES)


def dist(name: str, f: Any, **kwargs: Any):
    return getattr(pmgp.likelihoods, name).dist(f, *CASES[name].parameters, **kwargs)


def core(name: str, y: np.ndarray):
    return getattr(likelihoods, name)(y, *CASES[name].parameters)


# tests/blocks/test_multinomial_logit.py and tests/sparse/.
ELSEWHERE = {"MultinomialLogit", "RobustMax"}


def test_every_exported_distribution_is_tested():
    assert set(LINKS) | set(CASES) | ELSEWHERE == set(distributions.__all__)


@pytest.fixture(scope="module", params=CASES)
def compiled(request):
    """Log-density, gradient and curvature in f of each observation, by PyTensor's default linker."""
    f, y = pt.vector("f"), pt.vector("y", dtype=CASES[request.param].observations.dtype)
    logp = pm.logp(dist(request.param, f), y)
    gradient = pt.grad(logp.sum(), f)
    curvature = -pt.grad(gradient.sum(), f)
    return request.param, pytensor.function([f, y], [logp, gradient, curvature])


def test_logp_and_derivatives_equal_the_core_likelihood(compiled):
    name, function = compiled
    for y in CASES[name].observations:
        observations = np.full(POINTS.size, y)
        logp, gradient, curvature = function(POINTS, observations)
        likelihood = core(name, observations)
        assert_allclose(logp, likelihood.log_density(POINTS), rtol=1e-12, atol=1e-300)
        assert_allclose(gradient, likelihood.gradient(POINTS), rtol=1e-10, atol=1e-300)
        assert_allclose(curvature, likelihood.curvature(POINTS), rtol=1e-6, atol=1e-14)


def test_nothing_is_nan_far_beyond_the_tails(compiled):
    name, function = compiled
    f = np.array([-1e6, -1e3, 1e3, 1e6])
    for y in CASES[name].observations:
        for values in function(f, np.full(4, y)):
            assert np.isfinite(values).all()


@every_distribution
def test_logp_is_that_of_pymc(name):
    """To single precision: the square root of two in `pm.OrderedProbit` has no more."""
    f, y = np.linspace(-2.0, 2.0, 9)[:, None], CASES[name].observations
    expected = pm.logp(CASES[name].twin(f[:, 0]), y[:, None]).eval(mode=FAST)
    assert_allclose(pm.logp(dist(name, f[:, 0]), y[:, None]).eval(mode=FAST), expected, rtol=1e-6)


@every_distribution
def test_values_outside_the_support_have_no_density(name):
    for value in CASES[name].outside:
        y = pt.dscalar("y")
        assert pm.logp(dist(name, 0.3), y).eval({y: value}, mode=FAST) == -np.inf


def test_gradients_in_thresholds_and_noise(rng):
    """Against finite differences near the thresholds, and finite far in both tails."""
    f, y, thresholds, noise = pt.vector("f"), pt.lvector("y"), pt.vector("thresholds"), pt.scalar("noise")
    logp = pm.logp(pmgp.OrdinalProbit.dist(f, thresholds, noise), y).sum()
    outputs = [logp, pt.grad(logp, thresholds), pt.grad(logp, noise)]
    function = pytensor.function([f, y, thresholds, noise], outputs, mode=FAST)
    near, labels, h = rng.normal(size=8), np.repeat(CATEGORIES, 2), 1e-5

    def value(shift: np.ndarray, stretch: float = 0.0) -> float:
        return float(function(near, labels, THRESHOLDS + shift, NOISE + stretch)[0])

    _, slopes, slope = function(near, labels, THRESHOLDS, NOISE)
    expected = [(value(h * e) - value(-h * e)) / (2 * h) for e in np.eye(3)]
    assert_allclose(slopes, expected, rtol=1e-6)
    assert_allclose(slope, (value(np.zeros(3), h) - value(np.zeros(3), -h)) / (2 * h), rtol=1e-6)
    for distance in (40.0, 1e4):
        far = distance * np.tile([-1.0, 1.0], 4)
        assert all(np.isfinite(v).all() for v in function(far, labels, THRESHOLDS, NOISE))


def test_a_gradient_in_the_exposure():
    exposure = pt.vector("exposure")
    logp = pm.logp(pmgp.likelihoods.LogGaussianCox.dist(np.array([0.2, -1.0]), exposure), np.array([3, 0]))
    slope = pt.grad(logp.sum(), exposure).eval({exposure: [0.5, 2.0]}, mode=FAST)
    assert_allclose(slope, np.array([3, 0]) / [0.5, 2.0] - np.exp([0.2, -1.0]))


def test_masked_parameters_are_refused():
    masked = np.ma.masked_array([1.0, 2.0, 3.0], [False, True, False])
    with pytest.raises(ValueError, match="exposure has masked values, 1 of 3, the first in row 1"):
        pmgp.likelihoods.LogGaussianCox.dist(np.zeros(3), masked)
    with pytest.raises(ValueError, match="thresholds has masked values"):
        pmgp.OrdinalProbit.dist(np.zeros(3), masked)


@pytest.mark.parametrize(
    "variable",
    [
        lambda: pm.logp(pmgp.OrdinalProbit.dist(0.0, pt.as_tensor([1.0, 0.0]) + pt.scalar("x")), 1),
        lambda: pm.logp(pmgp.OrdinalProbit.dist(0.0, [0.0, 1.0], pt.scalar("x") - 1.0), 1),
        lambda: pm.logp(pmgp.likelihoods.LogGaussianCox.dist(0.0, pt.scalar("x") - 1.0), 1),
    ],
)
def test_parameters_outside_their_domain_are_refused_as_by_pymc(variable):
    logp = variable()
    (x,) = [v for v in pytensor.graph.traversal.explicit_graph_inputs([logp]) if v.name == "x"]
    with pytest.raises(pm.logprob.utils.ParameterValueError, match=r"noise > 0|exposure > 0"):
        logp.eval({x: 0.5}, mode=FAST)


# Draws

SIZE = 20_000
LATENT = np.array([-1.5, 0.0, 1.0])


def draws(name: str, f: np.ndarray = LATENT, seed: int = 4) -> np.ndarray:
    return pm.draw(dist(name, f, shape=(SIZE, *np.shape(f))), random_seed=seed, mode=FAST)


def distance(name: str, sample: np.ndarray, f: np.ndarray = LATENT) -> float:
    """Largest standardized difference of the frequencies of all values, or of moments, from those expected."""
    if name == "StochasticVolatility":
        z = sample / np.exp(f)
        statistics = {0.0: z, 1.0: z**2, 3.0: z**4, np.sqrt(2.0 / np.pi): np.abs(z)}
        errors = [(s.mean(axis=0) - m) / s.std(axis=0) * np.sqrt(SIZE) for m, s in statistics.items()]
        return float(np.abs(errors).max())
    assert sample.dtype == np.int64
    values = np.arange(60 if name == "LogGaussianCox" else 4)
    probability = np.exp([core(name, np.full(f.size, y)).log_density(f) for y in values])
    assert_allclose(probability.sum(axis=0), 1.0, rtol=1e-12)
    expected = SIZE * probability
    found = (sample == values[:, None, None]).sum(axis=1)
    # Rare values have too few draws for a normal approximation.
    common = expected > 20
    return float((np.abs(found - expected) / np.sqrt(expected * (1 - probability)))[common].max())


@every_distribution
def test_draws_follow_the_density(name):
    sample = draws(name)
    assert distance(name, sample) < 4.5
    # A latent value that is off by 0.1 would be seen.
    assert distance(name, sample, LATENT + 0.1) > 4.5


@every_distribution
def test_draws_are_independent_given_f(name):
    sample = draws(name, np.zeros(2), seed=5)
    assert abs(np.corrcoef(sample.T)[0, 1]) < 4.5 / np.sqrt(SIZE)


def test_counts_at_rates_beyond_the_integers_are_not_negative():
    sample = pm.draw(
        pmgp.likelihoods.LogGaussianCox.dist(np.array([43.0, 60.0, 1000.0]), shape=(5, 3)), random_seed=1, mode=FAST
    )
    assert np.all(sample > 1e18)


def test_ordinal_draws_with_batches_of_thresholds():
    thresholds = np.array([[-1.0, 1.0], [0.0, 0.5]])
    sample = pm.draw(pmgp.OrdinalProbit.dist(0.2, thresholds, [0.5, 1.0], shape=(SIZE, 2)), random_seed=2, mode=FAST)
    for j, noise in enumerate([0.5, 1.0]):
        below = np.append(ndtr((thresholds[j] - 0.2) / noise), 1.0)
        expected = np.diff(below, prepend=0.0)
        found = np.bincount(sample[:, j], minlength=3) / SIZE
        assert np.all(np.abs(found - expected) < 4.5 * np.sqrt(expected * (1 - expected) / SIZE))
        logp = pm.logp(pmgp.OrdinalProbit.dist(0.2, thresholds, [0.5, 1.0]), np.array([1, 1])).eval(mode=FAST)
        assert_allclose(np.exp(logp[j]), expected[1], rtol=1e-12)


# Conventions


@every_distribution
def test_mean_support_point_and_shape_of_a_variable(name):
    f = np.array([-1.0, 0.4, 50.0])
    assert_allclose(mean(dist(name, f)).eval(mode=FAST), CASES[name].mean(f), rtol=1e-12)
    for variable, shape in (
        (dist(name, f), (3,)),
        (dist(name, 0.1, shape=(2, 4)), (2, 4)),
        (dist(name, f, size=(5, 3)), (5, 3)),
    ):
        assert variable.eval(mode=FAST).shape == shape
        assert mean(variable).eval(mode=FAST).shape == shape
        point = support_point(variable)
        assert point.eval(mode=FAST).shape == shape
        assert point.dtype == variable.dtype
        assert np.isfinite(pm.logp(variable, point).eval(mode=FAST)).all()


def test_shapes_follow_the_parameters():
    assert pmgp.likelihoods.LogGaussianCox.dist(0.0, np.ones(3)).eval(mode=FAST).shape == (3,)
    assert pmgp.OrdinalProbit.dist(np.zeros(2), [0.0, 1.0, 2.0]).eval(mode=FAST).shape == (2,)
    assert pmgp.OrdinalProbit.dist(0.0, [0.0], np.ones(4)).eval(mode=FAST).shape == (4,)


def observed(name: str, f: Any, y: Any = None, **kwargs: Any):
    y = CASES[name].observations if y is None else y
    return getattr(pmgp.likelihoods, name)("y", f, *CASES[name].parameters, observed=y, **kwargs)


@every_distribution
def test_dims_and_coordinates_and_prior_predictive_draws(name):
    with pm.Model(coords={"cell": list("abcd")}) as model:
        f = pm.Normal("f", 0, 0.7, dims="cell")
        observed(name, f, dims="cell")
        prior = pm.sample_prior_predictive(draws=4000, random_seed=2, compile_kwargs={"mode": FAST})
    assert model.named_vars_to_dims["y"] == ("cell",)
    predictive = prior["prior_predictive"]["y"]
    assert predictive.dims == ("chain", "draw", "cell")
    f = prior["prior"]["f"].to_numpy()[0]
    residual = predictive.to_numpy()[0] - CASES[name].mean(f)
    for score in (residual, residual * f):
        assert np.all(np.abs(score.mean(axis=0)) < 4.5 * score.std(axis=0) / np.sqrt(4000))


@every_distribution
def test_posterior_predictive_draws(name):
    f = np.tile([-1.0, 0.0, 0.5, 1.0], (1, SIZE, 1))
    posterior = xr.Dataset({"f": (("chain", "draw", "f_dim_0"), f)})
    with pm.Model():
        observed(name, pm.Normal("f", shape=4))
        sample = pm.sample_posterior_predictive(
            xr.DataTree.from_dict({"posterior": posterior}),
            random_seed=3,
            progressbar=False,
            compile_kwargs={"mode": FAST},
        )
    assert distance(name, sample["posterior_predictive"]["y"].to_numpy()[0], f[0, 0]) < 4.5


@every_distribution
def test_observed_data_can_be_replaced(name):
    f, y = np.linspace(-0.5, 1.0, 4), CASES[name].observations
    with pm.Model() as model:
        observed(name, f, pm.Data("data", y))
    logp = model.compile_logp(mode=FAST)
    for data in (y, np.roll(y, 1)):
        with model:
            pm.set_data({"data": data})
        assert_allclose(logp({}), core(name, data).log_likelihood(f))


def test_a_model_prints():
    with pm.Model() as model:
        f = pm.Normal("f", shape=4)
        for name in CASES:
            getattr(pmgp.likelihoods, name)(f"y_{name}", f, *CASES[name].parameters, observed=CASES[name].observations)
    for name in CASES:
        assert f"{name}(" in model.str_repr()


LABELS = "ordinal labels must be whole numbers from 0 to 3"
REFUSED = (
    ("LogGaussianCox", (), [1, -2], r"counts must be whole numbers, 0 or more, found -2\.0"),
    ("LogGaussianCox", (), [1.0, 0.5], r"counts must be whole numbers.*found 0\.5"),
    ("LogGaussianCox", (0.0,), [1, 2], r"exposure must be positive and finite, found 0\.0"),
    ("LogGaussianCox", ([1.0, np.inf],), [1, 2], "exposure must be positive and finite, found inf"),
    ("LogGaussianCox", ([1.0, 2.0, 3.0],), [1, 2], r"exposure has shape \(3,\), but there are 2 observations"),
    ("StochasticVolatility", (), [0.1, np.inf], "observations must be finite, found inf"),
    ("OrdinalProbit", (THRESHOLDS,), [0, 4], f"{LABELS}.*found 4"),
    ("OrdinalProbit", (THRESHOLDS,), [-1, 0], f"{LABELS}.*found -1"),
    ("OrdinalProbit", (THRESHOLDS,), [0.5, 0], rf"{LABELS}.*found 0\.5"),
    ("OrdinalProbit", ([1.0, 1.0],), [0, 1], r"thresholds must be finite and increase strictly, found 1\.0, 1\.0"),
    ("OrdinalProbit", ([],), [0, 0], "thresholds must be a vector of at least one number"),
    ("OrdinalProbit", ([0.0, np.inf],), [0, 0], r"thresholds must be finite .*found 0\.0, inf"),
    ("OrdinalProbit", (THRESHOLDS, -1.0), [0, 0], r"noise must be positive and finite, found -1\.0"),
    ("OrdinalProbit", (THRESHOLDS, np.ones(3)), [0, 0], r"noise has shape \(3,\), but there are 2"),
)


@pytest.mark.parametrize(("name", "parameters", "y", "message"), REFUSED)
def test_bad_data_and_parameters_are_refused_when_the_model_is_built(name, parameters, y, message):
    with pm.Model(), pytest.raises(ValueError, match=message):
        getattr(pmgp.likelihoods, name)("y", np.zeros(2), *parameters, observed=np.array(y))


def test_labels_are_checked_against_the_number_of_inferred_thresholds():
    with pm.Model(), pytest.raises(ValueError, match=r"from 0 to 2.*found 3"):
        pmgp.OrdinalProbit("y", np.zeros(2), pm.Normal("thresholds", shape=2), observed=[0, 3])


def test_counts_may_be_missing():
    masked = np.ma.masked_array([3, -1], mask=[False, True])
    with pm.Model() as model, pytest.warns(pm.exceptions.ImputationWarning):
        pmgp.likelihoods.LogGaussianCox("y", np.zeros(2), [1.0, 2.0], observed=masked)
    assert "y_unobserved" in model.named_vars


# Prediction

X = np.random.default_rng(8).normal(size=(4, 2))


def predicted(name: str, parameters: tuple[Any, ...], **theta: Any) -> xr.Dataset:
    """Predictions at three inputs from one draw of (f, theta)."""
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        gp = pm.gp.Latent(cov_func=scale**2 * pm.gp.cov.ExpQuad(2, ls=1.0))
        f = gp.prior("f", X=X, reparameterize=False)
        variables = [pm.Normal(key, shape=np.shape(value)) for key, value in theta.items()]
        getattr(pmgp.likelihoods, name)("y", f, *(variables or parameters), observed=CASES[name].observations)
    values = {"scale": 0.8, "f": np.array([0.3, -0.2, 1.0, 0.4]), **theta}
    posterior = xr.Dataset(
        {
            k: (("chain", "draw", *(f"{k}_{i}" for i in range(np.ndim(v)))), np.asarray(v)[None, None])
            for k, v in values.items()
        }
    )
    idata = xr.DataTree.from_dict({"posterior": posterior})
    return pmgp.predict(idata, np.array([[0.0, 0.5], [3.0, 1.0], [1.0, -1.0]]), model=model, progressbar=False)


def expected_label(m: np.ndarray, v: np.ndarray, thresholds: np.ndarray, noise: float) -> np.ndarray:
    return ndtr((m[:, None] - thresholds) / np.sqrt(noise**2 + v[:, None])).sum(axis=-1)


EXPECTED = {
    "LogGaussianCox": lambda m, v: EXPOSURE * np.exp(m + v / 2),
    "StochasticVolatility": lambda m, v: np.zeros_like(m),
    "OrdinalProbit": lambda m, v: expected_label(m, v, THRESHOLDS, NOISE),
}


@every_distribution
def test_predictions_are_expected_observations(name):
    prediction = predicted(name, CASES[name].parameters)
    moments = prediction["latent_mean"].to_numpy(), prediction["latent_variance"].to_numpy()
    assert_allclose(prediction["mean"], EXPECTED[name](*moments), rtol=1e-5, atol=1e-12)


def test_predictions_use_the_thresholds_of_each_draw():
    prediction = predicted("OrdinalProbit", (), thresholds=np.array([-0.3, 0.2, 0.9]), noise=1.4)
    moments = prediction["latent_mean"].to_numpy(), prediction["latent_variance"].to_numpy()
    assert_allclose(prediction["mean"], expected_label(*moments, np.array([-0.3, 0.2, 0.9]), 1.4), rtol=1e-5)


def test_predictions_with_an_exposure_for_each_old_site_are_of_f_only():
    with pytest.warns(UserWarning, match=r"array of shape \(4,\) has a value of its own for each observation"):
        prediction = predicted("LogGaussianCox", (np.ones(4),))
    assert set(prediction.data_vars) == {"latent_mean", "latent_variance"}


def test_robust_max_starts_at_the_largest_value_for_every_shape():
    f = np.array([[0.3, -1.0, 0.0], [0.1, 2.0, -0.5]])
    point = support_point(pmgp.likelihoods.RobustMax.dist(f, 0.1, shape=(4, 3))).eval(mode=FAST)
    assert_array_equal(point, np.tile([0, 1, 0], (4, 1)))
