"""Predictions equal the Gaussian process formulas draw by draw, and PyMC's own within Monte Carlo error."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from scipy.special import expit, ndtr

import pmgp
from pmgp.core.numerics.ledger import counted
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.model.latent_gaussian import ModelError

N, D = 14, 3
RNG = np.random.default_rng(12)
X = RNG.normal(size=(N, D))
XNEW = np.concatenate([RNG.normal(size=(4, D)), [[9.0, -9.0, 9.0]]])
LABELS = RNG.integers(0, 2, size=N)
JITTER = 1e-6  # what pm.gp adds to the diagonal
QUICKLY = {"compile_kwargs": {"mode": INTERPRETED}}


@pytest.fixture
def quick_compilation():
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield


quickly = pytest.mark.usefixtures("quick_compilation")


def probit(f, name="y", **kwargs):
    return pmgp.BernoulliProbit(name, f, **kwargs)


def logit(f, name="y", **kwargs):
    return pm.Bernoulli(name, logit_p=f, **kwargs)


def poisson(f, name="y", **kwargs):
    return pm.Poisson(name, pt.exp(f), **kwargs)


def isotropic(variance, lengthscale):
    return variance * pm.gp.cov.ExpQuad(D, ls=lengthscale)


def build(observe=probit, cov_func=isotropic, mean_func=None, inputs=X, labels=LABELS):
    """A process at the inputs with two hyper-parameters: the model and the `pm.gp.Latent`."""
    with pm.Model() as model:
        lengthscale = pm.Gamma("lengthscale", 4, 3)
        variance = pm.Gamma("variance", 3, 1)
        mean_func = mean_func or pm.gp.mean.Zero
        gp = pm.gp.Latent(mean_func=mean_func(), cov_func=cov_func(variance, lengthscale))
        f = gp.prior("f", X=inputs() if callable(inputs) else inputs, reparameterize=False)
        observe(f, observed=labels)
    return model, gp


def draws_of(model: pm.Model, number: int, seed: int = 3) -> xr.DataTree:
    """Draws of theta and f, from the prior: predictions do not ask where they come from."""
    with model:
        prior = pm.sample_prior_predictive(draws=number, random_seed=seed, **QUICKLY)["prior"]
    return xr.DataTree.from_dict({"posterior": prior.to_dataset()})


def predict(idata, Xnew=XNEW, **kwargs) -> xr.Dataset:
    return pmgp.predict(idata, Xnew, progressbar=False, **kwargs)


def squared_exponential(a, b, lengthscale, columns=(0, 1, 2)):
    columns = list(columns)
    difference = (a[:, None, columns] - b[None, :, columns]) / lengthscale
    return np.exp(-0.5 * np.square(difference).sum(axis=-1))


def conditional_moments(idata, kernel, mean=lambda x: np.zeros(len(x)), old=X):
    """Mean and variance of f at XNEW for each draw, with kernel(a, b, variance, lengthscale)."""
    posterior = idata["posterior"]
    means, variances = [], []
    for index in range(posterior.sizes["draw"]):
        draw = posterior.isel(chain=0, draw=index)
        theta = float(draw["variance"]), float(draw["lengthscale"])
        K = kernel(old, old, *theta) + JITTER * np.eye(len(old))
        cross = kernel(old, XNEW, *theta)
        weights = np.linalg.solve(K, cross)
        means.append(mean(XNEW) + weights.T @ (draw["f"].to_numpy() - mean(old)))
        own = np.diag(kernel(XNEW, XNEW, *theta)) + JITTER
        variances.append(own - (cross * weights).sum(axis=0))
    return np.array(means), np.array(variances)


def check(prediction, means, variances):
    """The law of total variance, and the mean over draws."""
    assert_allclose(prediction["latent_mean"], means.mean(axis=0), atol=1e-6)
    expected = variances.mean(axis=0) + means.var(axis=0)
    assert_allclose(prediction["latent_variance"], expected, rtol=1e-5, atol=1e-6)


def plain_kernel(a, b, variance, lengthscale):
    return variance * squared_exponential(a, b, lengthscale)


@quickly
def test_probit_probabilities_in_closed_form():
    model, _ = build()
    idata = draws_of(model, 30)
    means, variances = conditional_moments(idata, plain_kernel)
    prediction = predict(idata, model=model, draws=None)
    check(prediction, means, variances)
    expected = ndtr(means / np.sqrt(1.0 + variances)).mean(axis=0)
    assert_allclose(prediction["probability"], expected, atol=1e-7)
    assert_allclose(prediction["complement"], 1.0 - expected, atol=1e-7)
    assert set(prediction.data_vars) == {"probability", "complement", "latent_mean", "latent_variance"}
    assert prediction.sizes == {"point": len(XNEW)}
    assert prediction.attrs["draws"] == 30


Z = np.linspace(-8.0, 8.0, 2001)
WEIGHTS = np.exp(-0.5 * Z**2) / np.exp(-0.5 * Z**2).sum()


def expected_over_latent(function, means, variances):
    f = means[..., None] + np.sqrt(variances)[..., None] * Z
    return (function(f) @ WEIGHTS).mean(axis=0)


OBSERVATIONS = {
    "logit of pmgp": (
        lambda f, **kw: pmgp.BernoulliLogit("y", f, **kw),
        "probability",
        expit,
    ),
    "logit of pymc": (logit, "probability", expit),
    "shifted probit": (lambda f, **kw: probit(2 * f + 1, **kw), "probability", lambda f: ndtr(2 * f + 1)),
    "poisson": (poisson, "mean", np.exp),
    "normal": (lambda f, **kw: pm.Normal("y", 3 * f - 1, 0.5, **kw), "mean", lambda f: 3 * f - 1),
}


@quickly
@pytest.mark.parametrize("name", OBSERVATIONS)
def test_expected_observations_by_quadrature(name):
    observe, column, inverse_link = OBSERVATIONS[name]
    model, _ = build(observe)
    idata = draws_of(model, 10)
    means, variances = conditional_moments(idata, plain_kernel)
    prediction = predict(idata, model=model)
    check(prediction, means, variances)
    expected = expected_over_latent(inverse_link, means, variances)
    assert_allclose(prediction[column], expected, rtol=3e-3)
    both = {"complement"} if name in ("logit of pmgp", "shifted probit") else set()
    assert set(prediction.data_vars) == {column, "latent_mean", "latent_variance"} | both
    for other in both:
        assert_allclose(prediction[other], 1.0 - prediction[column], rtol=1e-12)


@quickly
def test_parameters_of_the_likelihood_are_those_of_each_draw():
    """The expectation is f^2 + sigma; with sigma from the prior instead of the draw it would differ."""

    def observe(f, **kwargs):
        sigma = pm.Gamma("sigma", 2, 1)
        pm.Gamma("y", mu=f**2 + sigma, sigma=1.0, observed=np.ones(N))

    model, _ = build(observe)
    idata = draws_of(model, 6)
    means, variances = conditional_moments(idata, plain_kernel)
    sigma = idata["posterior"]["sigma"].to_numpy()[0]
    expected = (means**2 + variances + sigma[:, None]).mean(axis=0)
    assert_allclose(predict(idata, model=model)["mean"], expected, rtol=1e-5)


SCALES = np.array([0.6, 1.0, 2.5])
SLOPES = np.array([1.0, -0.5, 2.0])
KERNELS = {
    "relevance": (
        lambda v, ls: v * pm.gp.cov.ExpQuad(D, ls=ls * SCALES),
        lambda a, b, v, ls: v * squared_exponential(a, b, ls * SCALES),
    ),
    "active columns": (
        lambda v, ls: v * pm.gp.cov.ExpQuad(D, ls=ls * SCALES[:2], active_dims=[0, 2]),
        lambda a, b, v, ls: v * squared_exponential(a, b, ls * SCALES[:2], (0, 2)),
    ),
    "sum": (
        lambda v, ls: pm.gp.cov.ExpQuad(D, ls=ls) + v * pm.gp.cov.Linear(D, c=0.0),
        lambda a, b, v, ls: squared_exponential(a, b, ls) + v * a @ b.T,
    ),
    "additive over columns": (
        lambda v, ls: pm.gp.cov.ExpQuad(D, ls=ls, active_dims=[0]) + v * pm.gp.cov.ExpQuad(D, ls=0.5, active_dims=[1]),
        lambda a, b, v, ls: squared_exponential(a, b, ls, (0,)) + v * squared_exponential(a, b, 0.5, (1,)),
    ),
}


SLICED = [name for name in KERNELS if "columns" in name]


def as_data():
    return pm.Data("X", X)


@quickly
@pytest.mark.parametrize(
    ("name", "inputs"),
    [*[(name, X) for name in KERNELS if name not in SLICED], *[(name, as_data) for name in KERNELS]],
)
def test_kernels(name, inputs):
    cov_func, kernel = KERNELS[name]
    model, _ = build(cov_func=cov_func, inputs=inputs)
    idata = draws_of(model, 5)
    check(predict(idata, model=model), *conditional_moments(idata, kernel))


@quickly
@pytest.mark.parametrize("name", SLICED)
def test_columns_of_an_array_say_what_to_do(name):
    """`pm.gp` slices plain arrays before they are in the graph."""
    model, _ = build(cov_func=KERNELS[name][0])
    with pytest.raises(ValueError, match=r"active_dims.*gp=gp"):
        predict(draws_of(model, 2), model=model)


def noisy_kernel(a, b, variance, lengthscale):
    """White noise correlates no two points but is there at each."""
    K = plain_kernel(a, b, variance, lengthscale)
    return K + 0.3 * np.eye(len(a)) if a is b else K


def with_white_noise(variance, lengthscale):
    return isotropic(variance, lengthscale) + pm.gp.cov.WhiteNoise(np.sqrt(0.3))


@quickly
@pytest.mark.parametrize("inputs", [X, as_data], ids=["array", "data"])
def test_white_noise(inputs):
    model, _ = build(cov_func=with_white_noise, inputs=inputs)
    idata = draws_of(model, 5)
    check(predict(idata, model=model), *conditional_moments(idata, noisy_kernel))


@quickly
def test_noise_with_a_variance_for_each_input_is_refused():
    with pm.Model() as model:
        variance = pm.HalfNormal("variance", 1)
        K = variance * pm.gp.cov.ExpQuad(D, ls=1.0)(X) + pt.diag(pt.as_tensor(np.linspace(0.1, 1.0, N)))
        probit(pm.MvNormal("f", pt.zeros(N), cov=K), observed=LABELS)
    with pytest.raises(ModelError, match=r"covariance of 'f' .* array of shape \(14,\) .* each of the 14 old inputs"):
        predict(draws_of(model, 2), model=model)


MEANS = {
    "constant": (lambda: pm.gp.mean.Constant(2.5), lambda x: np.full(len(x), 2.5)),
    "linear": (
        lambda: pm.gp.mean.Linear(coeffs=SLOPES, intercept=1.0),
        lambda x: 1.0 + x @ SLOPES,
    ),
}


@quickly
@pytest.mark.parametrize("inputs", [X, as_data], ids=["array", "data"])
@pytest.mark.parametrize("name", MEANS)
def test_mean_functions(name, inputs):
    mean_func, mean = MEANS[name]
    model, _ = build(mean_func=mean_func, inputs=inputs)
    idata = draws_of(model, 5)
    check(predict(idata, model=model), *conditional_moments(idata, plain_kernel, mean))


@quickly
def test_inputs_replaced_since_the_model_was_built():
    model, _ = build(inputs=as_data, observe=lambda f, observed: probit_data(f))
    with model:
        pm.set_data({"X": X[:9], "labels": LABELS[:9]})
    idata = draws_of(model, 5)
    assert idata["posterior"]["f"].shape == (1, 5, 9)
    check(predict(idata, model=model), *conditional_moments(idata, plain_kernel, old=X[:9]))


@quickly
def test_inputs_replaced_since_the_draws_are_refused():
    model, _ = build(inputs=as_data)
    idata = draws_of(model, 2)
    idata["constant_data"] = xr.Dataset({"X": (("row", "column"), X)})
    with model:
        found = predict(idata)
        pm.set_data({"X": X[::-1]})
        with pytest.raises(ValueError, match="the model's 'X' has other values than when these draws were made"):
            predict(idata)
        pm.set_data({"X": X})
        xr.testing.assert_equal(predict(idata), found)


def probit_data(f):
    probit(f, observed=pm.Data("labels", LABELS))


@quickly
def test_at_the_old_inputs_the_prediction_is_f():
    model, _ = build(cov_func=lambda v, ls: v * pm.gp.cov.Matern32(D, ls=0.3 * ls))
    idata = draws_of(model, 20)
    f = idata["posterior"]["f"].to_numpy()[0]
    prediction = predict(idata, X, model=model)
    assert_allclose(prediction["latent_mean"], f.mean(axis=0), atol=1e-3)
    assert_allclose(prediction["latent_variance"], f.var(axis=0), atol=1e-3)


@pytest.mark.parametrize("as_data", [False, True])
def test_whole_numbers_as_inputs_allow_others_between_them(as_data):
    places = np.arange(8)[:, None]

    def predicted(X):
        with pm.Model() as model:
            lengthscale = pm.Gamma("lengthscale", 2, 1)
            gp = pm.gp.Latent(cov_func=pm.gp.cov.Matern32(1, ls=lengthscale))
            inputs = pm.Data("X", X) if as_data else X
            pm.Bernoulli("y", logit_p=gp.prior("f", X=inputs, reparameterize=False), observed=np.arange(8) % 2)
        return predict(draws_of(model, 4), [[0.5], [3.25]], model=model)["latent_mean"]

    assert_allclose(predicted(places), predicted(places.astype(float)), rtol=1e-9)


def test_whole_numbers_that_the_likelihood_uses_allow_no_others():
    with pm.Model() as model:
        places = pm.Data("X", np.arange(8)[:, None])
        lengthscale = pm.Gamma("lengthscale", 2, 1)
        gp = pm.gp.Latent(cov_func=pm.gp.cov.Matern32(1, ls=lengthscale))
        f = gp.prior("f", X=places, reparameterize=False)
        pm.Bernoulli("y", logit_p=f + places[:, 0], observed=np.arange(8) % 2)
    idata = draws_of(model, 4)
    assert predict(idata, [[3.0], [9.0]], model=model)["probability"].shape == (2,)
    with pytest.raises(ValueError, match=r"Xnew, used for 'X' in the likelihood, has the value 0\.5, but .* type int"):
        predict(idata, [[3.0], [0.5]], model=model)


@quickly
def test_far_away_the_prediction_is_the_prior():
    model, _ = build()
    idata = draws_of(model, 20)
    prediction = predict(idata, np.full((1, D), 1e3), model=model)
    assert_allclose(prediction["probability"], 0.5, atol=1e-9)
    variance = float(idata["posterior"]["variance"].mean())
    assert_allclose(prediction["latent_variance"], variance, rtol=1e-5)


@pytest.mark.parametrize(("observe", "conditional"), [(probit, probit), (logit, logit)])
def test_agrees_with_pymc_within_monte_carlo_error(observe, conditional):
    number = 500
    model, _ = build(observe)
    idata = draws_of(model, number)
    prediction = predict(idata, model=model, draws=None)
    other, gp = build(observe)
    with other:
        fnew = gp.conditional("fnew", XNEW)
        conditional(fnew, "ynew")
        settings = {"random_seed": 6, "progressbar": False} | QUICKLY
        simulated = pm.sample_posterior_predictive(idata, var_names=["fnew", "ynew"], **settings)[
            "posterior_predictive"
        ]
    f, y = (simulated[name].to_numpy()[0] for name in ("fnew", "ynew"))
    probability = prediction["probability"].to_numpy()
    error = np.sqrt(probability * (1.0 - probability) / number)
    assert np.all(np.abs(y.mean(axis=0) - probability) < 4.5 * error)
    error = f.std(axis=0) / np.sqrt(number)
    assert np.all(np.abs(f.mean(axis=0) - prediction["latent_mean"]) < 4.5 * error)
    squares = np.square(f - f.mean(axis=0))
    error = squares.std(axis=0) / np.sqrt(number)
    assert np.all(np.abs(squares.mean(axis=0) - prediction["latent_variance"]) < 4.5 * error)


@quickly
def test_a_conditional_in_the_same_model_is_no_obstacle():
    model, gp = build()
    idata = draws_of(model, 3)
    expected = predict(idata, model=model)
    with model:
        gp.conditional("fnew", XNEW)
    xr.testing.assert_allclose(predict(idata, model=model, latent="f"), expected)


def mirrored(a, b, variance, lengthscale):
    return plain_kernel(a, b, variance, lengthscale) + plain_kernel(a, -b, variance, lengthscale)


class Mirrored(pm.gp.cov.Covariance):
    """A kernel of the user's own, with an operation that is not one on each input by itself."""

    def __init__(self, variance, lengthscale):
        super().__init__(D)
        self.plain = isotropic(variance, lengthscale)

    def full(self, X, Xs=None):
        back = pt.set_subtensor(pt.zeros_like(X)[...], -X)
        return self.plain(X) + self.plain(X, back)


@quickly
def test_a_kernel_of_unknown_operations():
    model, gp = build(cov_func=Mirrored, inputs=as_data)
    idata = draws_of(model, 4)
    with pytest.raises(ModelError, match=r"does not know whether the operation .* gp=gp"):
        predict(idata, model=model)
    check(predict(idata, model=model, gp=gp), *conditional_moments(idata, mirrored))


@quickly
@pytest.mark.parametrize("name", MEANS)
def test_as_many_inputs_as_columns(name):
    mean_func, mean = MEANS[name]
    model, _ = build(cov_func=KERNELS["relevance"][0], mean_func=mean_func, inputs=X[:D], labels=LABELS[:D])
    idata = draws_of(model, 4)
    check(predict(idata, model=model), *conditional_moments(idata, KERNELS["relevance"][1], mean, old=X[:D]))


@quickly
def test_a_single_input():
    model, _ = build(mean_func=MEANS["constant"][0], inputs=X[:1], labels=LABELS[:1])
    idata = draws_of(model, 4)
    check(predict(idata, model=model), *conditional_moments(idata, plain_kernel, MEANS["constant"][1], old=X[:1]))


@quickly
def test_a_mean_that_cannot_be_told_from_a_number_is_refused():
    """`pymc.gp` drops all axes of length one, with a single input that of the inputs too."""
    model, _ = build(mean_func=MEANS["linear"][0], inputs=X[:1], labels=LABELS[:1])
    with pytest.raises(ModelError, match="axis of length one was dropped"):
        predict(draws_of(model, 2), model=model)


@quickly
def test_a_covariance_is_factorized_once_for_each_theta():
    model, _ = build()
    posterior = draws_of(model, 6)["posterior"].to_dataset()
    held = posterior.isel(draw=[0, 0, 1, 2, 2, 0])
    held["f"] = held["f"] + xr.DataArray(np.arange(6.0), dims="draw")
    idata = xr.DataTree.from_dict({"posterior": held.drop_vars("draw")})
    with counted() as counts:
        prediction = predict(idata, model=model, block_size=2)
    assert counts.total.cholesky == 3
    check(prediction, *conditional_moments(idata, plain_kernel))


# Settings


@quickly
@pytest.mark.parametrize("block_size", [1, 2, 5, 1000])
def test_blocks_do_not_change_the_result(block_size):
    model, _ = build()
    idata = draws_of(model, 4)
    xr.testing.assert_allclose(
        predict(idata, model=model, block_size=block_size), predict(idata, model=model), rtol=1e-9
    )


@quickly
def test_some_draws_are_evenly_spaced_over_all():
    model, _ = build()
    idata = draws_of(model, 9)
    posterior = idata["posterior"].to_dataset().drop_vars(["chain", "draw"])
    two_chains = xr.concat([posterior, posterior.isel(draw=slice(None, None, -1))], "chain")
    # Of the 18 draws the first, the middle one and the last: draws 0 and 8 of one chain, 0 again.
    some = posterior.isel(draw=[0, 8, 0])
    tree = xr.DataTree.from_dict({"posterior": two_chains})
    few = xr.DataTree.from_dict({"posterior": some})
    prediction = predict(tree, model=model, draws=3)
    assert prediction.attrs["draws"] == 3
    assert_allclose(prediction["probability"], predict(few, model=model)["probability"], rtol=1e-9)
    assert predict(tree, model=model, draws=1000).attrs["draws"] == 18


@quickly
def test_the_model_is_taken_from_the_context():
    model, _ = build()
    idata = draws_of(model, 2)
    with model:
        prediction = predict(idata)
    xr.testing.assert_equal(prediction, predict(idata, model=model))


@quickly
def test_what_a_sampler_returns_is_understood(probit_model):
    quiet = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
    with probit_model:
        step = pmgp.PseudoMarginal()
        idata = pm.sample(20, tune=20, chains=2, cores=1, random_seed=1, step=step, **quiet)
        prediction = pmgp.predict(idata, np.array([[-2.0, 0.0], [2.0, 0.0]]), progressbar=False)
    probability = prediction["probability"].to_numpy()
    assert probability[0] < 0.4
    assert probability[1] > 0.6


# Refusals

WRONG_INPUTS = {
    "wrong width": (np.zeros((4, 2)), "Xnew has 2 columns, but the covariance uses 3"),
    "no rows": (np.zeros((0, D)), "Xnew has no rows"),
    "a vector": (np.zeros(D), r"Xnew must be a matrix of shape \(m, 3\), not of shape \(3,\)"),
    "a cube": (np.zeros((2, 2, D)), r"must be a matrix .* not of shape \(2, 2, 3\)"),
    "nan": (np.array([[0, 0, 0], [0, np.nan, 0]]), "not finite: nan in row 1, column 1"),
    "infinite": (np.array([[0, 0, -np.inf]]), "not finite: -inf in row 0, column 2"),
}


@quickly
@pytest.mark.parametrize("name", WRONG_INPUTS)
def test_wrong_inputs_are_named(name):
    model, _ = build()
    inputs, message = WRONG_INPUTS[name]
    with pytest.raises(ValueError, match=message):
        predict(draws_of(model, 1), inputs, model=model)


@quickly
def test_missing_draws_are_named():
    model, _ = build()
    posterior = draws_of(model, 2)["posterior"].to_dataset().drop_vars(["f", "variance"])
    with pytest.raises(ValueError, match="no draws of f, variance"):
        predict(xr.DataTree.from_dict({"posterior": posterior}), model=model)


@quickly
@pytest.mark.parametrize("predicted", [pmgp.predict, pmgp.sample_predictions])
def test_features_in_another_order_are_refused(predicted):
    """Columns of a DataFrame have names, which would be lost."""
    X = pd.DataFrame(np.arange(12.0).reshape(4, 3), columns=["a", "b", "c"])
    model = pmgp.models.classifier(X, [0, 1, 0, 1], kernel="ard")
    with pytest.raises(
        ValueError, match=r"columns c, b, a, but .* in the order a, b, c: give Xnew\[\['a', 'b', 'c'\]\]"
    ):
        predicted(None, X[["c", "b", "a"]], model=model)


def test_no_draws_are_refused():
    model, _ = build()
    with pytest.raises(ValueError, match="draws must be an integer of at least 1, or None for all, not 0"):
        predict(draws_of(model, 2), model=model, draws=0)


@quickly
def test_blocks_of_no_inputs_are_refused():
    model, _ = build()
    with pytest.raises(ValueError, match="block_size must be at least 1, not 0"):
        predict(draws_of(model, 2), model=model, block_size=0)


@quickly
def test_a_latent_vector_without_inputs_is_refused():
    with pm.Model() as model:
        variance = pm.HalfNormal("variance", 1)
        probit(pm.MvNormal("f", pt.zeros(N), cov=variance * pt.eye(N)), observed=LABELS)
    with pytest.raises(ModelError, match=r"inputs .* of 'f' .* were not found"):
        predict(draws_of(model, 2), model=model)


@quickly
def test_several_input_matrices_are_refused():
    with pm.Model() as model:
        variance = pm.HalfNormal("variance", 1)
        kernel = pm.gp.cov.ExpQuad(D, ls=1.0)
        K = variance * kernel(X) + kernel(2.0 * X[::-1]) + JITTER * pt.eye(N)
        probit(pm.MvNormal("f", pt.zeros(N), cov=K), observed=LABELS)
    with pytest.raises(ModelError, match="several different input matrices"):
        predict(draws_of(model, 2), model=model)
