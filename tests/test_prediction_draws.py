"""Draws at new inputs have the moments that the formulas give, and ArviZ understands them."""

from __future__ import annotations

import arviz as az
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal

import pmgp

N, M = 5, 4
RNG = np.random.default_rng(9)
X = np.linspace(0, 1, N)[:, None]
XNEW = np.array([[0.1], [0.12], [0.6], [3.0]])
F = np.array([0.2, 0.5, 1.0, 0.4, -0.3])
EXPOSURE = np.array([1.0, 2.0, 5.0, 3.0])
LENGTHSCALES = np.array([0.3, 0.6])


@pytest.fixture(scope="module", autouse=True)
def quick_compilation():
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield


def build(observe=None) -> pm.Model:
    with pm.Model() as model:
        lengthscale = pm.HalfNormal("lengthscale", 1)
        gp = pm.gp.Latent(cov_func=pm.gp.cov.Matern32(1, ls=lengthscale))
        (observe or counts)(gp.prior("f", X=X, reparameterize=False))
    return model


def counts(f):
    pm.Poisson("y", pm.Data("E", np.ones(N)) * pm.math.exp(f), observed=np.ones(N, int))


def posterior(chains=2, draws=1500, lengthscales=LENGTHSCALES) -> xr.DataTree:
    """Two values of theta in turn, and one f."""
    theta = np.resize(lengthscales, (chains, draws))
    dataset = xr.Dataset(
        {"lengthscale": (("chain", "draw"), theta), "f": (("chain", "draw", "i"), np.tile(F, (chains, draws, 1)))},
        coords={"chain": np.arange(chains) + 3, "draw": 10 * np.arange(draws)},
    )
    return xr.DataTree.from_dict({"posterior": dataset})


def sample(idata, Xnew=XNEW, model=None, at=None, **kwargs):
    at = {"E": EXPOSURE} if at is None else at
    model = build() if model is None else model
    return pmgp.sample_predictions(idata, Xnew, model=model, at=at, progressbar=False, **kwargs)


def matern(a, b, lengthscale):
    r = np.sqrt(3) * np.abs(a - b.T) / lengthscale
    return (1 + r) * np.exp(-r)


def conditional(lengthscale):
    """Mean and covariance of f at the new inputs."""
    K = matern(X, X, lengthscale) + 1e-6 * np.eye(N)
    weights = np.linalg.solve(K, matern(X, XNEW, lengthscale))
    return weights.T @ F, matern(XNEW, XNEW, lengthscale) + 1e-6 * np.eye(M) - matern(XNEW, X, lengthscale) @ weights


def within_error(draws, expected, errors=4.5):
    """The mean over the first axis."""
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - expected) < errors * error)


@pytest.fixture(scope="module")
def drawn() -> xr.DataTree:
    return sample(posterior(), draws=None, random_seed=1)


@pytest.fixture(scope="module")
def pointwise() -> xr.DataTree:
    return sample(posterior(), draws=None, joint=False, random_seed=2)


@pytest.mark.parametrize("which", range(2))
def test_moments_of_joint_draws(drawn, which):
    f = drawn["predictions"]["f"].to_numpy()[:, which::2].reshape(-1, M)
    mean, covariance = conditional(LENGTHSCALES[which])
    within_error(f, mean)
    deviations = f - mean
    within_error(deviations[:, :, None] * deviations[:, None, :], covariance)


@pytest.mark.parametrize("which", range(2))
def test_moments_of_pointwise_draws(pointwise, which):
    f = pointwise["predictions"]["f"].to_numpy()[:, which::2].reshape(-1, M)
    mean, covariance = conditional(LENGTHSCALES[which])
    within_error(f, mean)
    deviations = f - mean
    within_error(deviations[:, :, None] * deviations[:, None, :], np.diag(covariance.diagonal()))


def test_observations_are_drawn_given_the_latent_draw(drawn):
    f, y = (drawn["predictions"][name].to_numpy().reshape(-1, M) for name in ("f", "y"))
    rate = EXPOSURE * np.exp(f)
    within_error((y - rate) / np.sqrt(rate), 0.0)
    within_error(np.square(y - rate) / rate, 1.0)
    standardized = (y - rate) / np.sqrt(rate)
    within_error(standardized[:, 0] * standardized[:, 1], 0.0)


def test_they_agree_with_the_expectations(drawn):
    expected = pmgp.predict(posterior(), XNEW, model=build(), at={"E": EXPOSURE}, draws=None, progressbar=False)
    predictions = drawn["predictions"]
    within_error(predictions["f"].to_numpy().reshape(-1, M), expected["latent_mean"].to_numpy())
    within_error(predictions["y"].to_numpy().reshape(-1, M), expected["mean"].to_numpy())


def test_the_form_of_arviz(drawn):
    predictions, constant = drawn["predictions"], drawn["predictions_constant_data"]
    for name in ("f", "y"):
        assert predictions[name].dims == ("chain", "draw", "point")
    assert predictions["y"].dtype.kind == "i"
    assert list(predictions["chain"].to_numpy()) == [3, 4]
    assert_array_equal(predictions["draw"], 10 * np.arange(1500))
    assert_array_equal(constant["Xnew"], XNEW)
    assert_array_equal(constant["E"], EXPOSURE)
    assert constant["E"].dims == ("point",)
    summary = az.summary(drawn, group="predictions", var_names=["f"], round_to="none")
    assert len(summary) == M


def test_plots_of_arviz(drawn, tmp_path):
    az.plot_dist(drawn, group="predictions", var_names=["f"], backend="matplotlib").savefig(tmp_path / "f.png")
    assert (tmp_path / "f.png").stat().st_size > 0


def test_the_same_seed_gives_the_same_draws():
    idata = posterior(draws=6)
    first, again, other = (sample(idata, random_seed=seed) for seed in (4, 4, 5))
    xr.testing.assert_identical(first["predictions"].to_dataset(), again["predictions"].to_dataset())
    for name in ("f", "y"):
        assert not np.array_equal(first["predictions"][name], other["predictions"][name])


def test_a_generator_goes_on():
    idata, rng = posterior(draws=6), np.random.default_rng(3)
    first, second = sample(idata, random_seed=rng), sample(idata, random_seed=rng)
    assert not np.array_equal(first["predictions"]["f"], second["predictions"]["f"])


def test_no_two_draws_are_alike():
    predictions = sample(posterior(draws=20), random_seed=4)["predictions"]
    assert len(np.unique(predictions["f"])) == 2 * 20 * M


@pytest.mark.parametrize(
    ("draws", "shape", "last"), [(8, (2, 4), 90), (9, (2, 4), 90), (1, (1, 1), 0), (99, (2, 10), 90)]
)
def test_draws_are_evenly_spaced_in_each_chain(draws, shape, last):
    predictions = sample(posterior(draws=10), draws=draws, random_seed=4)["predictions"]
    assert predictions["f"].shape == (*shape, M)
    assert predictions["draw"].to_numpy()[[0, -1]].tolist() == [0, last]


@pytest.mark.parametrize("joint", [True, False])
def test_at_the_old_inputs_draws_are_f(joint):
    predictions = sample(posterior(draws=5), X, at={"E": 1.0}, joint=joint, random_seed=1)["predictions"]
    assert_allclose(predictions["f"], np.broadcast_to(F, (2, 5, N)), atol=0.01)


def test_equal_inputs_get_nearly_equal_values():
    predictions = sample(posterior(draws=5), np.full((3, 1), 0.33), at={"E": 1.0}, random_seed=1)["predictions"]
    f = predictions["f"].to_numpy()
    assert_allclose(f - f[..., :1], 0.0, atol=0.01)
    assert f[..., 0].std() > 0.05


# Distributions that are made of others


def zero_inflated(f):
    pm.ZeroInflatedPoisson("y", psi=pm.math.sigmoid(f), mu=4.0, observed=np.ones(N, int))


def ordered(f):
    pm.OrderedLogistic("y", eta=f, cutpoints=[0.0, 1.0], observed=np.ones(N, int))


def ordinal(f):
    pmgp.OrdinalProbit("y", f, [0.0, 1.0], observed=np.ones(N, int))


def binary(f):
    pmgp.BernoulliProbit("y", f, observed=np.ones(N, int))


def normals(f):
    mu = pt.stack([f, f + 8.0], axis=-1)
    pm.NormalMixture("y", w=[0.25, 0.75], mu=mu, sigma=0.1, observed=np.ones(N))


def hurdle(f):
    pm.HurdlePoisson("y", psi=0.5, mu=pm.math.exp(f), observed=np.ones(N, int))


def without_zero(f):
    counts = pm.NegativeBinomial.dist(mu=pm.math.exp(f), alpha=2.0)
    pm.Truncated("y", counts, lower=1, observed=np.ones(N, int))


def only_a_density(f):
    pm.CustomDist("y", f, logp=lambda value, mu: -((value - mu) ** 2), observed=np.ones(N))


def of_its_own(f):
    pm.CustomDist("y", f, dist=lambda mu, size: pm.Normal.dist(mu, 1.0, size=size) + 1, observed=np.ones(N))


def repeated(f):
    pm.Normal("y", 2 * f[np.array([0, 0, 1])], 0.5, observed=np.ones(3))


@pytest.mark.parametrize("observe", [zero_inflated, ordered, ordinal, binary, normals, repeated, hurdle, without_zero])
def test_observations_of_many_kinds(observe):
    model, idata = build(observe), posterior(1, 1500)
    predictions = sample(idata, model=model, at={}, draws=None, random_seed=6)["predictions"]
    expected = pmgp.predict(idata, XNEW, model=model, draws=None, progressbar=False)
    y = predictions["y"].to_numpy()[0]
    if "probabilities" in expected:
        within_error((y[..., None] == np.arange(3)).astype(float), expected["probabilities"].to_numpy())
    else:
        name = "probability" if observe is binary else "mean"
        within_error(y.astype(float), expected[name].to_numpy())
    # Each point has a component, a category or noise of its own.
    assert np.all(np.abs(np.corrcoef(np.diff(y - y.mean(axis=0), axis=1).T)[0, 2:]) < 0.2)


def test_several_observed_variables():
    def observe(f):
        binary(f)
        pm.Normal("z", f, 0.1, observed=np.zeros(N))

    predictions = sample(posterior(draws=5), model=build(observe), at={}, random_seed=1)["predictions"]
    assert set(predictions.data_vars) == {"f", "y", "z"}


@pytest.mark.parametrize(
    ("observe", "reason"),
    [
        (lambda f: pm.Normal("y", f + np.ones(N), 1.0, observed=np.ones(N)), r"wrap it in pm\.Data"),
        (counts, r"pass its values at the new points, at=\{'E': \.\.\.\}"),
        (lambda f: pm.Normal("y", f[:, None], 1.0, observed=np.ones((N, 2))), "an observation of it has 2 dimensions"),
        (only_a_density, "its distribution cannot be drawn from"),
        (of_its_own, "does not know whether the operation CustomDist_y"),
    ],
)
def test_the_latent_variable_is_drawn_whatever_the_observations(observe, reason):
    with pytest.warns(UserWarning, match=reason) as caught:
        tree = sample(posterior(draws=4), model=build(observe), at={}, random_seed=1)
    assert len(caught) == 1
    assert caught[0].filename.endswith("test_prediction_draws.py")
    assert set(tree["predictions"].data_vars) == {"f"}
    assert set(tree["predictions_constant_data"].data_vars) == {"Xnew"}


WRONG = {
    "joint": ({"joint": "yes"}, "joint must be True or False, not 'yes'"),
    "draws": ({"draws": 0}, "draws must be an integer of at least 1, or None for all, not 0"),
    "at": ({"at": {"F": 1.0}}, r"at has 'F', which is not a pm\.Data"),
    "inputs": ({"Xnew": np.full((2, 1), np.nan)}, "Xnew has a value that is not finite"),
    "seed": ({"random_seed": "now"}, "random_seed must be"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_named(name):
    arguments, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        sample(posterior(draws=4), **arguments)
