"""What is expected of observations at new points: what belongs to an observation is read from the graph."""

from __future__ import annotations

import warnings

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from scipy.special import expit, ndtr, softmax

import pmgp
from pmgp.core.numerics.quadrature import normal_expectation

N, M, D = 6, 4, 2
RNG = np.random.default_rng(5)
X, XNEW = RNG.normal(size=(N, D)), RNG.normal(size=(M, D))
COUNTS = np.arange(N)
LABELS = np.arange(N) % 3
EXPOSURE, NEW_EXPOSURE = 1.0 + np.arange(N), np.array([0.5, 1.0, 2.0, 7.0])
PLACES = np.array([0, 1, 1, 2, 5, 4, 3, 3, 0])
BETA = np.array([0.3, -0.7])


@pytest.fixture(scope="module", autouse=True)
def quick_compilation():
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield


def build(observe, X=X):
    """A model with the process f at X, of which `observe` makes observed variables."""
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        gp = pm.gp.Latent(cov_func=scale**2 * pm.gp.cov.ExpQuad(X.shape[1], ls=1.0))
        observe(gp.prior("f", X=pm.Data("X", X), reparameterize=False))
    return model


def one_draw(n=N, **theta) -> xr.DataTree:
    """A posterior of one point."""
    values = {"scale": 0.8, "f": np.linspace(-0.4, 0.9, n), **theta}
    variables = {
        name: (("chain", "draw", *(f"{name}_{i}" for i in range(np.ndim(value)))), np.asarray(value)[None, None])
        for name, value in values.items()
    }
    return xr.DataTree.from_dict({"posterior": xr.Dataset(variables)})


def predict(observe, at=None, Xnew=XNEW, inputs=X, **theta) -> xr.Dataset:
    """Predictions, which come without a warning."""
    model = build(observe, inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return pmgp.predict(one_draw(len(inputs), **theta), Xnew, model=model, at=at, progressbar=False)


def moments(prediction):
    return prediction["latent_mean"].to_numpy(), prediction["latent_variance"].to_numpy()


def expected(prediction, function):
    return normal_expectation(function, *moments(prediction))


def lognormal(prediction, factor=1.0):
    mean, variance = moments(prediction)
    return factor * np.exp(mean + variance / 2)


# What belongs to an observation


@pytest.mark.parametrize(("n", "m"), [(64, 2), (32, 1), (2, 2), (1, 1), (1, 3), (4, 4), (3, 32)])
def test_an_exposure_that_happens_to_fit_is_not_taken_for_a_number(n, m):
    """With 64 exposures and 2 points there are 32 nodes each: the lengths agree."""
    inputs, exposure = RNG.normal(size=(n, D)), np.resize([1.0, 100.0], n)
    model = build(lambda f: pm.Poisson("y", exposure * pm.math.exp(f), observed=np.zeros(n, int)), inputs)
    with pytest.warns(UserWarning, match=rf"array of shape \({n},\).* each observation.*wrap it in pm\.Data"):
        prediction = pmgp.predict(one_draw(n), np.ones((m, D)), model=model, progressbar=False)
    assert set(prediction.data_vars) == {"latent_mean", "latent_variance"}


@pytest.mark.parametrize(("n", "m"), [(64, 2), (32, 1), (2, 2), (1, 1), (1, 3), (4, 4), (3, 32)])
def test_exposures_are_those_of_the_new_points(n, m):
    inputs, new = RNG.normal(size=(n, D)), np.arange(m) + 0.5

    def observe(f):
        exposure = pm.Data("E", np.resize([1.0, 100.0], n))
        pm.Poisson("y", exposure * pm.math.exp(f), observed=np.zeros(n, int))

    prediction = predict(observe, {"E": new}, np.ones((m, D)), inputs)
    assert_allclose(prediction["mean"], lognormal(prediction, new), rtol=1e-10)


@pytest.mark.parametrize(("n", "m"), [(64, 2), (1, 1)])
def test_a_permutation_of_the_latent_values_does_not_permute_the_new_points(n, m):
    inputs = RNG.normal(size=(n, D))
    permutation = np.roll(np.arange(n), 1)
    new = RNG.normal(size=(m, D))
    prediction = predict(
        lambda f: pm.Poisson("y", pm.math.exp(f[permutation]), observed=np.zeros(n, int)), None, new, inputs
    )
    assert_allclose(prediction["mean"], lognormal(prediction), rtol=1e-10)


SELECTIONS = {
    "repeated": lambda f: f[PLACES],
    "index as data": lambda f: f[pm.Data("places", PLACES)],
    "part": lambda f: f[:4],
    "every second, backward": lambda f: f[::-2],
    "mask": lambda f: f[np.array([True, False, True, True, False, True])],
    "twice": lambda f: f[PLACES][1:],
    "taken": lambda f: pt.take(f, PLACES),
}


@pytest.mark.parametrize("name", SELECTIONS)
def test_a_new_point_is_one_more_place(name):
    def observe(f):
        eta = SELECTIONS[name](f)
        pm.Poisson("y", pm.math.exp(0.5 * eta), observed=np.zeros(eta.eval().shape[0], int))

    prediction = predict(observe)
    assert_allclose(prediction["mean"], expected(prediction, lambda f: np.exp(0.5 * f)), rtol=1e-10)


def test_data_of_the_places_and_of_the_observations():
    """The first belong to the latent values before they are repeated, the second to the observations."""

    def observe(f):
        altitude = pm.Data("altitude", np.linspace(0, 1, N))
        minutes = pm.Data("minutes", np.linspace(1, 2, len(PLACES)))
        mu = minutes * pm.math.exp((f + altitude)[PLACES])
        pm.Poisson("y", mu, observed=np.zeros(len(PLACES), int))

    altitude, minutes = np.array([0.1, 0.2, 0.3, 0.4]), np.array([3.0, 2.0, 1.0, 4.0])
    prediction = predict(observe, {"altitude": altitude, "minutes": minutes})
    assert_allclose(prediction["mean"], lognormal(prediction, minutes * np.exp(altitude)), rtol=1e-10)


def test_covariates_of_the_places_repeated_like_f():
    def observe(f):
        beta = pm.Normal("beta", shape=2)
        Z = pm.Data("Z", RNG.normal(size=(N, 2)))
        pm.Normal("y", f[PLACES] + (Z @ beta)[PLACES], 1.0, observed=np.zeros(len(PLACES)))

    new = RNG.normal(size=(M, 2))
    prediction = predict(observe, {"Z": new}, beta=BETA)
    assert_allclose(prediction["mean"], prediction["latent_mean"] + new @ BETA, rtol=1e-10)


def test_the_inputs_of_the_kernel_as_covariates():
    def observe(f):
        beta = pm.Normal("beta", shape=2)
        X = pm.modelcontext(None)["X"]
        pm.Normal("y", f + X @ beta + pm.math.dot(X, beta), 1.0, observed=np.zeros(N))

    prediction = predict(observe, beta=BETA)
    assert_allclose(prediction["mean"], prediction["latent_mean"] + 2 * XNEW @ BETA, rtol=1e-10)


def test_an_effect_of_the_group_that_an_observation_belongs_to():
    def observe(f):
        group = pm.Data("group", LABELS)
        effect = pm.Normal("effect", shape=3)
        pm.Normal("y", f + effect[group], 1.0, observed=np.zeros(N))

    effect = np.array([1.0, 2.0, 4.0])
    prediction = predict(observe, {"group": [2, 0, 0, 1]}, effect=effect)
    assert_allclose(prediction["mean"], prediction["latent_mean"] + effect[[2, 0, 0, 1]], rtol=1e-10)


def test_the_number_of_trials_may_be_one_number_for_all():
    def observe(f):
        pm.Binomial("y", n=pm.Data("trials", COUNTS + 1), p=pm.math.sigmoid(f), observed=COUNTS)

    prediction = predict(observe, {"trials": 20})
    assert_allclose(prediction["mean"], 20 * expected(prediction, expit), rtol=1e-10)


def test_a_number_among_the_data_may_be_replaced():
    def observe(f):
        pm.Poisson("y", pm.Data("hours", 2.0) * pm.math.exp(f), observed=COUNTS)

    prediction = predict(observe)
    assert_allclose(prediction["mean"], lognormal(prediction, 2.0), rtol=1e-10)
    prediction = predict(observe, {"hours": 5.0})
    assert_allclose(prediction["mean"], lognormal(prediction, 5.0), rtol=1e-10)


def test_columns_and_deterministics_on_the_way():
    def observe(f):
        rate = pm.Deterministic("rate", pm.math.exp(f))
        columns = pm.math.stack([rate, 2 * rate], axis=1)
        pm.Poisson("y", columns.sum(axis=1) + columns[:, 0], observed=COUNTS)

    prediction = predict(observe)
    assert_allclose(prediction["mean"], lognormal(prediction, 4.0), rtol=1e-10)


def test_observations_in_a_column():
    prediction = predict(lambda f: pm.Poisson("y", pm.math.exp(f)[:, None], observed=COUNTS[:, None]))
    assert_allclose(prediction["mean"], lognormal(prediction), rtol=1e-10)


def test_a_mean_that_does_not_depend_on_f():
    assert_allclose(predict(lambda f: pm.Normal("y", 3.0, pm.math.exp(f), observed=np.zeros(N)))["mean"], 3.0)


def test_averages_over_the_old_observations_stay():
    """Centering a covariate and weighting by other observations take what the model was built with."""

    def observe(f):
        E = pm.Data("E", EXPOSURE)
        first = pm.Normal("first", 0.0, 1.0, observed=np.arange(N))
        pm.Normal("y", f + E - E.mean() + pm.math.sum(first), 1.0, observed=np.zeros(N))

    prediction = predict(observe, {"E": NEW_EXPOSURE})
    expected = prediction["latent_mean"] + NEW_EXPOSURE - EXPOSURE.mean() + np.arange(N).sum()
    assert_allclose(prediction["mean"], expected, rtol=1e-10)


def test_missing_observations_are_no_obstacle():
    with pytest.warns(pm.exceptions.ImputationWarning):
        model = build(lambda f: pm.Normal("y", 2 * f, 1.0, observed=np.array([1.0, np.nan, 0, 0, 0, 0])))
    prediction = pmgp.predict(one_draw(), XNEW, model=model, progressbar=False)
    assert_allclose(prediction["mean"], 2 * prediction["latent_mean"], rtol=1e-10)


# Categories


def test_ordered_categories():
    cuts = np.array([-0.5, 0.7])

    def logistic(f):
        pm.OrderedLogistic("y", eta=f, cutpoints=pm.Normal("cuts", shape=2), observed=LABELS)

    def probit(f):
        pm.OrderedProbit("y", eta=f, cutpoints=pm.Normal("cuts", shape=2), observed=LABELS)

    for observe, below in ((logistic, expit), (probit, ndtr)):
        prediction = predict(observe, cuts=cuts)
        limits = [np.zeros(M), *(expected(prediction, lambda f, c=c, g=below: g(c - f)) for c in cuts), np.ones(M)]
        assert prediction["probabilities"].dims == ("point", "category")
        assert list(prediction["category"].to_numpy()) == [0, 1, 2]
        assert_allclose(prediction["probabilities"], np.diff(limits, axis=0).T, atol=1e-10)
        assert "mean" not in prediction


@pytest.mark.parametrize("shift", [0.0, 1.5])
def test_ordinal_labels_with_noise_for_each_point(shift):
    """In closed form with f itself, by quadrature for a function of it."""
    thresholds, noise = np.array([-0.5, 0.7]), np.array([0.5, 1.0, 2.0, 3.0])

    def observe(f):
        eta = f + shift if shift else f
        pmgp.OrdinalProbit("y", eta, thresholds, pm.Data("noise", np.full(N, 2.0)), observed=LABELS)

    prediction = predict(observe, {"noise": noise})
    mean, variance = moments(prediction)
    below = ndtr((thresholds - shift - mean[:, None]) / np.sqrt(noise**2 + variance)[:, None])
    probabilities = np.diff(np.column_stack([np.zeros(M), below, np.ones(M)]), axis=1)
    assert_allclose(prediction["probabilities"], probabilities, atol=1e-8)
    assert_allclose(prediction["mean"], probabilities @ [0, 1, 2], atol=1e-8)
    assert list(prediction["category"].to_numpy()) == [0, 1, 2]


def test_categories_with_scores_of_their_own():
    weights, intercepts = np.array([1.0, -2.0, 0.5]), np.array([0.1, 0.0, -0.4])

    def observe(f):
        pm.Categorical("y", logit_p=f[:, None] * weights + intercepts, observed=LABELS)

    prediction = predict(observe)
    probabilities = [
        expected(prediction, lambda f, k=k: softmax(f[..., None] * weights + intercepts, axis=-1)[..., k])
        for k in range(3)
    ]
    assert_allclose(prediction["probabilities"], np.transpose(probabilities), atol=1e-10)


def test_categories_that_were_stacked():
    def observe(f):
        pm.Categorical("y", p=pt.stack([pm.math.sigmoid(f), 1 - pm.math.sigmoid(f)], axis=-1), observed=LABELS % 2)

    prediction = predict(observe)
    assert_allclose(prediction["probabilities"][:, 0], expected(prediction, expit), atol=1e-10)


# Mixtures

MIXTURES = {
    "zero-inflated Poisson": (
        lambda f: pm.ZeroInflatedPoisson("y", psi=0.3, mu=pm.math.exp(f), observed=COUNTS),
        lambda f: 0.3 * np.exp(f),
    ),
    "zero-inflated with a latent probability": (
        lambda f: pm.ZeroInflatedPoisson("y", psi=pm.math.sigmoid(f), mu=4.0, observed=COUNTS),
        lambda f: 4.0 * expit(f),
    ),
    "normals": (
        lambda f: pm.NormalMixture(
            "y",
            w=[0.25, 0.75],
            mu=pt.stack([f, 3 * f + 1], axis=-1),
            sigma=1.0,
            observed=np.zeros(N),
        ),
        lambda f: 0.25 * f + 0.75 * (3 * f + 1),
    ),
    "several distributions": (
        lambda f: pm.Mixture(
            "y",
            w=[0.5, 0.5],
            comp_dists=[pm.Poisson.dist(pm.math.exp(f)), pm.Geometric.dist(pm.math.sigmoid(f))],
            observed=COUNTS + 1,
        ),
        lambda f: 0.5 * np.exp(f) + 0.5 / expit(f),
    ),
}


@pytest.mark.parametrize("name", MIXTURES)
def test_mixtures(name):
    observe, function = MIXTURES[name]
    prediction = predict(observe)
    assert_allclose(prediction["mean"], expected(prediction, function), rtol=1e-6)


# Several observed variables


def test_several_observed_variables_are_told_apart():
    def observe(f):
        pm.Poisson("counts", pm.math.exp(f), observed=COUNTS)
        pmgp.BernoulliLogit("sign", f, observed=COUNTS % 2)
        pm.OrderedLogistic("grade", eta=f, cutpoints=[0.0, 1.0], observed=LABELS)

    prediction = predict(observe)
    names = {"counts_mean", "sign_probability", "sign_complement", "grade_probabilities"}
    assert set(prediction.data_vars) == names | {"latent_mean", "latent_variance"}
    assert prediction["grade_probabilities"].dims == ("point", "grade_category")
    assert_allclose(prediction["counts_mean"], lognormal(prediction), rtol=1e-10)
    assert_allclose(prediction["sign_probability"], expected(prediction, expit), rtol=1e-10)


@pytest.mark.parametrize(
    "wild",
    [
        lambda f: pm.Cauchy("wild", f, 1.0, observed=np.zeros(N)),
        lambda f: pm.StudentT("wild", 1, f, observed=np.zeros(N)),
    ],
    ids=["Cauchy", "Student"],
)
def test_what_cannot_be_said_of_one_does_not_hide_the_other(wild):
    def observe(f):
        pm.Poisson("counts", pm.math.exp(f), observed=COUNTS)
        wild(f)

    model = build(observe)
    with pytest.warns(UserWarning, match=r"for some variables: of 'wild', its distribution has no mean") as caught:
        prediction = pmgp.predict(one_draw(), XNEW, model=model, progressbar=False)
    assert len(caught) == 1
    assert set(prediction.data_vars) == {"counts_mean", "latent_mean", "latent_variance"}


def mixed(f, nu):
    components = [pm.StudentT.dist(nu, f), pm.Normal.dist(f)]
    pm.Mixture("wild", np.array([0.3, 0.7]), components, observed=np.zeros(N))


@pytest.mark.parametrize(
    ("wild", "values"),
    [
        (lambda f: pm.StudentT("wild", pm.HalfNormal("nu"), f, observed=np.zeros(N)), {"nu": 0.9}),
        (lambda f: pm.InverseGamma("wild", pm.HalfNormal("a"), pm.math.exp(f), observed=np.ones(N)), {"a": 0.9}),
        (lambda f: mixed(f, pm.HalfNormal("nu")), {"nu": 0.9}),
        (lambda f: pm.SkewStudentT("wild", pm.HalfNormal("a"), 2.0, mu=f, observed=np.ones(N)), {"a": 0.4}),
    ],
    ids=["Student", "inverse gamma", "mixture", "skew Student"],
)
def test_a_mean_that_some_draws_do_not_have_is_left_out(wild, values):
    """One draw of two without a mean made all predictions NaN, or a Student's what its mode is."""
    model = build(wild)
    draws = [one_draw(**given)["posterior"].to_dataset() for given in (dict.fromkeys(values, 3.0), values)]
    two = xr.DataTree.from_dict({"posterior": xr.concat(draws, dim="draw")})
    with pytest.warns(UserWarning, match="'mean' cannot be given: at some draws of the posterior"):
        prediction = pmgp.predict(two, XNEW, model=model, progressbar=False)
    assert set(prediction.data_vars) == {"latent_mean", "latent_variance"}
    assert np.isfinite(prediction["latent_mean"]).all()
    finite = pmgp.predict(one_draw(**dict.fromkeys(values, 3.0)), XNEW, model=model, progressbar=False)
    assert np.isfinite(finite["mean"]).all()


# The latent part is always given


def whole(f):
    pm.Normal("y", f.sum(), 1.0, observed=0.0)


def neighbors(f):
    pm.Normal("y", f[1:] - f[:-1], 1.0, observed=np.zeros(N - 1))


def permuted_sum(f):
    pm.Normal("y", f + f[::-1], 1.0, observed=np.zeros(N))


def centered(f):
    pm.Normal("y", f - f.mean(), 1.0, observed=np.zeros(N))


def standardized(f):
    pm.Normal("y", pm.math.cumsum(f), 1.0, observed=np.zeros(N))


def own_parameter(f):
    pm.Normal("y", f + pm.Normal("shift", shape=N), 1.0, observed=np.zeros(N))


def between(f):
    pm.Poisson("y", pm.math.exp(pm.Normal("z", f, 1.0)), observed=COUNTS)


def replicated(f):
    pm.Poisson("y", pm.math.exp(f)[:, None], observed=np.ones((N, 3), int))


def inputs_elsewhere(f):
    X = pm.modelcontext(None)["X"]
    pm.Normal("y", f[::-1] + X[:, 0], 1.0, observed=np.zeros(N))


def unnamed(f):
    pm.Binomial("y", n=COUNTS + 1, p=pm.math.sigmoid(f), observed=COUNTS)


def named(f):
    pm.Binomial("y", n=pm.Data("trials", COUNTS + 1), p=pm.math.sigmoid(f), observed=COUNTS)


def unknown_mean(f):
    pm.Truncated("y", pm.Poisson.dist(pm.math.exp(f)), upper=99, observed=COUNTS)


def truncated_integers(f):
    """Some are negative before, so that the mean is not E[Y] / P(Y > 0)."""
    upper = pm.math.switch(f > 0.0, 3, 4)
    pm.Truncated("y", pm.DiscreteUniform.dist(-3, upper), lower=1, observed=np.ones(N, int))


def weighted(f):
    pm.Normal("y", pm.math.dot(np.ones((3, N)), f), 1.0, observed=np.zeros(3))


def weighted_by_data(f):
    pm.Normal("y", pm.Data("A", np.ones((3, N))) @ f, 1.0, observed=np.zeros(3))


def differences(f):
    pm.Normal("y", f[:, None] - f[None, :], 1.0, observed=np.zeros((N, N)))


def first(f):
    pm.Normal("y", f[0] + np.zeros(3), 1.0, observed=np.zeros(3))


def another_process(f):
    g = pm.MvNormal("g", np.zeros(N), np.eye(N))
    pm.Normal("y", f + g, 1.0, observed=np.zeros(N))


def two_lags(f):
    E = pm.Data("E", EXPOSURE)
    pm.Normal("y", f[1:] + E[1:] - E[:-1], 1.0, observed=np.zeros(N - 1))


def vectors(f):
    p = pt.stack([pm.math.sigmoid(f), 1 - pm.math.sigmoid(f)], axis=-1)
    pm.Multinomial("y", n=4, p=p, observed=np.full((N, 2), 2))


def only_a_potential(f):
    pm.Potential("p", -f.sum())


REASONS = {
    whole: "single observation",
    neighbors: "several elements of 'f'",
    permuted_sum: "several elements of 'f'",
    centered: "several elements of 'f'",
    standardized: r"does not know whether the operation .*acts on each observation by itself",
    own_parameter: "variable 'shift' has a value of its own for each observation",
    between: "variable 'z' has a value of its own for each observation",
    replicated: "several observations for each element of 'f', in an array: give each column an observed variable",
    inputs_elsewhere: "inputs 'X' are used for observations in another order",
    unnamed: r"array of shape \(6,\).*wrap it in pm\.Data\('NAME', \.\.\.\)",
    named: r"'trials' has a value for each observation: pass its values at the new points, at=\{'trials': \.\.\.\}",
    truncated_integers: "PyMC does not know its mean",
    unknown_mean: "PyMC does not know its mean",
    weighted: "several elements of 'f'",
    weighted_by_data: "several elements of 'f'",
    differences: "several elements of 'f'",
    first: "several elements of 'f', or on a particular one",
    another_process: "variable 'g' has a value of its own for each observation",
    two_lags: "'E' is used in several ways",
    vectors: "each of its observations is a vector",
    only_a_potential: "no observed variable depends on 'f'",
}
VALUES = {"own_parameter": {"shift": np.ones(N)}, "between": {"z": np.zeros(N)}, "another_process": {"g": np.zeros(N)}}


@pytest.mark.parametrize("observe", REASONS, ids=lambda observe: observe.__name__)
def test_why_nothing_can_be_said_of_observations(observe):
    model = build(observe)
    idata = one_draw(**VALUES.get(observe.__name__, {}))
    with pytest.warns(UserWarning, match=REASONS[observe]) as caught:
        prediction = pmgp.predict(idata, XNEW, model=model, latent="f", progressbar=False)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    plain = predict(lambda f: pm.Normal("y", f, 1.0, observed=np.zeros(N)))
    xr.testing.assert_allclose(prediction, plain[["latent_mean", "latent_variance"]])


# Refusals of what is given


def with_data(f):
    group = pm.Data("group", LABELS)
    unused = pm.Data("unused", np.zeros(N))
    pm.Deterministic("elsewhere", unused.sum())
    pm.Poisson("y", pm.Data("E", EXPOSURE) * pm.math.exp(f + 0.0 * group), observed=COUNTS)


RIGHT = {"E": NEW_EXPOSURE, "group": np.zeros(M, int)}
WRONG = {
    "unknown name": ({"F": 1.0}, r"at has 'F', which is not a pm\.Data of the model; those are: X, group, unused, E"),
    "the inputs": ({"X": XNEW}, "at has 'X', the inputs of 'f': Xnew gives them"),
    "not used": ({"unused": np.zeros(M)}, "at has 'unused', which no observed variable that depends on 'f' uses"),
    "too short": ({"E": np.ones(3)}, r"at\['E'\] has shape \(3,\), but \(4,\) or a single number is needed"),
    "old length": ({"E": EXPOSURE}, r"at\['E'\] has shape \(6,\), but \(4,\)"),
    "a matrix": ({"E": np.ones((M, 1))}, r"at\['E'\] has shape \(4, 1\), but \(4,\)"),
    "nan": ({"E": [1.0, np.nan, 1.0, 1.0]}, r"at\['E'\] has a value that is not finite: nan"),
    "masked": ({"E": np.ma.masked_array(np.ones(M), [0, 1, 0, 0])}, r"at\['E'\] has masked values, 1 of 4"),
    "dates": ({"E": np.arange(M).astype("datetime64[D]")}, r"at\['E'\] has dates"),
    "text": ({"E": "many"}, r"at\['E'\] has values that are not numbers"),
    "fractions": ({"group": [0, 1, 0.5, 0]}, r"at\['group'\] has the value 0.5, but the model's data are .* int"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_values_at_the_new_points_are_named(name):
    wrong, message = WRONG[name]
    model = build(with_data)
    with pytest.raises(ValueError, match=message):
        pmgp.predict(one_draw(), XNEW, model=model, at=RIGHT | wrong, progressbar=False)


def test_a_limit_at_infinity_is_data_like_others():
    """Observations without a limit are not censored."""

    def censored(f):
        limits = pm.Data("limits", np.where(np.arange(N) % 2, np.inf, 1.0))
        pm.Censored("y", pm.Normal.dist(f, 1.0), lower=None, upper=limits, observed=np.zeros(N))

    settings = {"model": build(censored), "random_seed": 1, "progressbar": False}
    largest, far, near = (
        float(pmgp.sample_predictions(one_draw(), XNEW, at={"limits": limit}, **settings)["predictions"]["y"].max())
        for limit in (np.inf, 1e300, 0.5)
    )
    assert largest == far > near == 0.5


def test_at_must_be_a_dictionary():
    with pytest.raises(ValueError, match=r"at must be a dictionary that maps names of pm\.Data to values, not list"):
        pmgp.predict(one_draw(), XNEW, model=build(with_data), at=[1.0], progressbar=False)


def test_a_group_that_the_model_has_not():
    def observe(f):
        effect = pm.Normal("effect", shape=3)
        pm.Normal("y", f + effect[pm.Data("group", LABELS)], 1.0, observed=np.zeros(N))

    with pytest.raises(ValueError, match="at has an index that is out of range"):
        predict(observe, {"group": [0, 1, 2, 3]}, effect=np.zeros(3))


def test_another_number_of_latent_values_than_inputs():
    model = build(with_data)
    with pytest.raises(ValueError, match="posterior has 5 values of 'f', but the model has 6 inputs"):
        pmgp.predict(one_draw(5), XNEW, model=model, at=RIGHT, progressbar=False)


@pytest.mark.parametrize("index", [[0, -1, 2, 1], -1])
def test_groups_that_would_count_from_the_end_are_refused(index):
    """pandas gives -1 for a category that it does not know."""

    def grouped(f):
        pm.Normal("y", f + pm.Normal("level", shape=3)[pm.Data("group", LABELS)], 1.0, observed=np.zeros(N))

    model = build(grouped)
    with pytest.raises(ValueError, match=r"at\['group'\] has the negative index -1, which would count from the end"):
        pmgp.predict(one_draw(level=np.ones(3)), XNEW, model=model, at={"group": index}, progressbar=False)
    with pytest.raises(ValueError, match=r"at\['group'\] has the value 1.5, which is no index: give numbers of groups"):
        pmgp.predict(one_draw(level=np.ones(3)), XNEW, model=model, at={"group": [0, 1.5, 2, 1]}, progressbar=False)
