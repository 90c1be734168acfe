"""Draws, conditionals and pointwise densities of a process on inducing inputs, against their formulas."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytest
from scipy.special import expit, logsumexp
from scipy.stats import binom, expon, norm, poisson
from scipy.stats import t as student
from xarray import Dataset, DataTree

import pmgp
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.model.latent_gaussian import ModelError
from tests.sparse.problems import LABELS, TARGETS, X, gaussian, probit

Z = X[::3]
NEW = np.array([[0.2], [2.3], [9.0]])
INTERPRETING = {"mode": INTERPRETED}
LENGTHSCALE, VARIANCE, NOISE = 0.9, 1.4, 0.3


def kernel(A, B):
    return VARIANCE * np.exp(-0.5 * np.square((A - B.T) / LENGTHSCALE))


def projection(inputs):
    return np.linalg.solve(np.linalg.cholesky(kernel(Z, Z)), kernel(Z, inputs))


def known_process(dist, observed, *parameters, n_outputs=1):
    """All hyper-parameters are numbers."""
    with pm.Model() as model:
        process = pmgp.gp.Sparse(
            mean_func=pm.gp.mean.Constant(0.5), cov_func=VARIANCE * pm.gp.cov.ExpQuad(1, ls=LENGTHSCALE)
        )
        f = process.prior("f", X=X, Xu=Z, n_outputs=n_outputs, jitter=0.0)
        process.observe("y", f, *parameters, dist=dist, observed=observed)
    return model, process


@pytest.fixture(scope="module")
def regression():
    return known_process(gaussian, TARGETS, NOISE)


def at(model, outputs, v):
    function = pytensor.function([model["f_rotated_"]], outputs, mode=INTERPRETED, on_unused_input="ignore")
    return function(v)


def test_marginals_and_the_joint_distribution_at_new_inputs(regression, rng):
    model, process = regression
    v = rng.standard_normal(len(Z))
    marginals = process.marginals(NEW)
    with pm.Model() as other:
        conditional = process.conditional("new", NEW, jitter=0.0)
        moments = conditional.owner.op.dist_params(conditional.owner)
    assert other["new"] is conditional
    A = projection(NEW)
    covariance = kernel(NEW, NEW) - A.T @ A
    mean, variance, joint_mean, joint_covariance = at(model, [*marginals, *moments], v)
    for result in (mean, joint_mean):
        np.testing.assert_allclose(result, 0.5 + A.T @ v, atol=1e-12)
    np.testing.assert_allclose(variance, covariance.diagonal(), atol=1e-12)
    np.testing.assert_allclose(joint_covariance, covariance, atol=1e-12)


def test_prior_draws_are_those_of_the_whole_process(regression):
    """Also far from the inducing inputs, where all of the variance is that of f given u."""
    y = pm.draw(regression[0]["y"], 4000, random_seed=1, mode=INTERPRETED)
    variance = VARIANCE + NOISE**2
    assert (np.abs(y.mean(axis=0) - 0.5) < 4 * np.sqrt(variance / 4000)).all()
    assert (np.abs(y.var(axis=0) / variance - 1.0) < 4 * np.sqrt(2.0 / 4000)).all()


def test_labels_of_each_output_have_their_probabilities():
    model, _ = known_process(probit, np.stack([LABELS, 1 - LABELS]), n_outputs=2)
    labels = pm.draw(model["y"], 4000, random_seed=2, mode=INTERPRETED)
    assert labels.shape == (4000, 2, len(X))
    probability = norm.cdf(0.5 / np.sqrt(1.0 + VARIANCE))
    error = np.sqrt(probability * (1.0 - probability) / 4000)
    assert (np.abs(labels.mean(axis=0) - probability) < 4 * error).all()


def posterior(rng, draws=6):
    v = rng.standard_normal((1, draws, len(Z)))
    return DataTree.from_dict({"posterior": Dataset({"f_rotated_": (("chain", "draw", "m"), v)})}), v[0]


def test_pointwise_densities_are_logs_of_expectations(regression, rng):
    model, process = regression
    idata, draws = posterior(rng)
    result = process.compute_log_likelihood(idata, model=model, compile_kwargs=INTERPRETING)
    A = projection(X)
    gamma = VARIANCE - np.square(A).sum(axis=0)
    expected = norm.logpdf(TARGETS, 0.5 + draws @ A, np.sqrt(NOISE**2 + gamma))
    assert result is idata
    np.testing.assert_allclose(idata["log_likelihood"]["y"].values[0], expected, rtol=1e-8)
    # What the sampler uses is smaller: by Jensen's inequality.
    stored = model.compile_fn(model.logp(vars=[model["y"]], sum=False), mode=INTERPRETED)({"f_rotated_": draws[0]})
    assert (stored[0] < expected[0]).all()


def test_pointwise_densities_of_labels(rng):
    model, process = known_process(probit, LABELS)
    idata, draws = posterior(rng)
    process.compute_log_likelihood(idata, model=model, compile_kwargs=INTERPRETING)
    A = projection(X)
    gamma = VARIANCE - np.square(A).sum(axis=0)
    expected = norm.logcdf((2 * LABELS - 1) * (0.5 + draws @ A) / np.sqrt(1.0 + gamma))
    np.testing.assert_allclose(idata["log_likelihood"]["y"].values[0], expected, rtol=1e-7)


def test_other_data_can_be_set(rng):
    """Held-out points take the places of those the model was made with."""
    with pm.Model() as model:
        inputs, observed = pm.Data("X", X), pm.Data("observed", TARGETS)
        process = pmgp.gp.Sparse(cov_func=VARIANCE * pm.gp.cov.ExpQuad(1, ls=LENGTHSCALE))
        f = process.prior("f", X=inputs, Xu=Z, jitter=0.0)
        process.observe("y", f, NOISE, dist=gaussian, observed=observed)
        pm.set_data({"X": NEW, "observed": np.array([0.1, 0.2, 0.3])})
    idata, draws = posterior(rng)
    process.compute_log_likelihood(idata, model=model, compile_kwargs=INTERPRETING)
    A = projection(NEW)
    deviation = np.sqrt(NOISE**2 + VARIANCE - np.square(A).sum(axis=0))
    expected = norm.logpdf([0.1, 0.2, 0.3], draws @ A, deviation)
    np.testing.assert_allclose(idata["log_likelihood"]["y"].values[0], expected, rtol=1e-8)
    with model:
        drawn = pm.sample_posterior_predictive(idata, random_seed=1, progressbar=False, compile_kwargs=INTERPRETING)
    assert drawn["posterior_predictive"]["y"].shape == (1, 6, 3)


def test_predictions_are_averages_over_draws(regression, rng):
    model, process = regression
    idata, draws = posterior(rng)
    held_out = np.array([0.1, 0.7, -0.3])
    found = process.predict(idata, NEW, observed=held_out, model=model)
    A = projection(NEW)
    means, gamma = 0.5 + draws @ A, VARIANCE - np.square(A).sum(axis=0)
    np.testing.assert_allclose(found["latent_mean"], means.mean(axis=0), atol=1e-10)
    np.testing.assert_allclose(found["latent_variance"], gamma + means.var(axis=0), atol=1e-10)
    density = norm.pdf(held_out, means, np.sqrt(NOISE**2 + gamma)).mean(axis=0)
    np.testing.assert_allclose(found["log_density"], np.log(density), atol=1e-10)
    other = process.predict(idata, NEW, observed=held_out, parameters=(1.0,), model=model, draws=1)
    np.testing.assert_allclose(other["log_density"], norm.logpdf(held_out, means[0], np.sqrt(1.0 + gamma)), atol=1e-10)


def test_probabilities_of_labels_of_two_outputs(rng):
    model, process = known_process(probit, np.stack([LABELS, 1 - LABELS]), n_outputs=2)
    v = rng.standard_normal((1, 4, 2, len(Z)))
    idata = DataTree.from_dict({"posterior": Dataset({"f_rotated_": (("chain", "draw", "k", "m"), v)})})
    found = process.predict(idata, NEW, observed=np.ones((2, 3)), model=model)
    A = projection(NEW)
    gamma = VARIANCE - np.square(A).sum(axis=0)
    expected = norm.cdf((0.5 + v[0] @ A) / np.sqrt(1.0 + gamma)).mean(axis=0)
    np.testing.assert_allclose(np.exp(found["log_density"]), expected, rtol=1e-7)
    assert found["latent_mean"].dims == ("output", "point")


@pytest.mark.parametrize("number", [1, 3])
def test_new_values_of_several_outputs_are_drawn_together(number):
    model, process = known_process(probit, np.stack([LABELS, 1 - LABELS]), n_outputs=2)
    inputs = NEW[:number]
    with model:
        new = process.conditional("new", inputs, jitter=1e-3)
    assert pm.draw(new, 5, random_seed=1, mode=INTERPRETED).shape == (5, 2, number)
    A = projection(inputs)
    expected = kernel(inputs, inputs) - A.T @ A + 1e-3 * np.eye(number)
    covariances = new.owner.op.dist_params(new.owner)[1].eval(mode=INTERPRETED)
    np.testing.assert_allclose(covariances, [expected, expected], atol=1e-12)


def test_probabilities_of_classes_with_unlike_variances_add_up(rng):
    with pm.Model(coords={"color": ["blue", "green", "red"], "inducing": range(len(Z))}) as model:
        process = pmgp.gp.Sparse(cov_func=[pm.gp.cov.ExpQuad(1, ls=scale) for scale in (20.0, 0.3, 15.0)])
        f = process.prior("f", X=X, Xu=Z, n_outputs=3, dims=("color", "inducing"))
        process.observe("y", f, dist=pmgp.likelihoods.RobustMax.dist, observed=np.arange(len(X)) % 3)
    v = rng.standard_normal((1, 4, 3, len(Z)))
    idata = DataTree.from_dict({"posterior": Dataset({"f_rotated_": (("chain", "draw", "k", "m"), v)})})
    found = process.predict(idata, np.linspace(-1.0, 2.0, 20)[:, None], model=model)
    np.testing.assert_allclose(found["probabilities"].sum("category"), 1.0, atol=1e-6)
    assert list(found["category"].to_numpy()) == ["blue", "green", "red"]


def test_a_conditional_at_new_inputs_changes_no_other_result(rng):
    model, process = known_process(gaussian, TARGETS, NOISE)
    idata, _ = posterior(rng)

    def results():
        process.compute_log_likelihood(idata, model=model, compile_kwargs=INTERPRETING)
        densities = idata["log_likelihood"].to_dataset()
        return densities, pmgp.predict(idata, NEW, model=model), process.diagnose(idata, model=model)

    before = results()
    with model:
        process.conditional("new", NEW)
    for one, other in zip(before, results(), strict=True):
        assert one.equals(other) if isinstance(one, Dataset) else one == other


def test_what_predictions_refuse(regression, rng):
    model, process = regression
    idata, _ = posterior(rng)
    with pytest.raises(ValueError, match="the process has no observations 'z'; choose among y"):
        process.predict(idata, NEW, observed=np.zeros(3), name="z", model=model)
    with pytest.raises(ValueError, match=r"the posterior has no draws of .*f_rotated_"):
        process.predict(
            DataTree.from_dict({"posterior": Dataset({"x": (("chain", "draw"), [[0.0]])})}), NEW, model=model
        )
    with pytest.raises(ValueError, match="Xnew has 2 columns and the process was given X with 1"):
        process.predict(idata, np.zeros((3, 2)), model=model)


# Densities of new observations that are narrower than the density of f, or far from its mean

FAR = [[1000.0]]  # the process is there as it is a priori: normal with mean 0.5 and variance 1.4

NARROW = {
    "counts": (lambda f: pm.Poisson.dist(pm.math.exp(5 + f)), lambda f: poisson.logpmf(1000, np.exp(5 + f)), 1000),
    "few": (lambda f: pm.Poisson.dist(pm.math.exp(f)), lambda f: poisson.logpmf(30, np.exp(f)), 30),
    "shares": (lambda f: pm.Binomial.dist(1000, logit_p=f), lambda f: binom.logpmf(100, 1000, expit(f)), 100),
    "outlier": (lambda f: pm.StudentT.dist(4, mu=f, sigma=0.05), lambda f: student.logpdf(1.0, 4, f, 0.05), 1.0),
    "sharp": (lambda f: pm.StudentT.dist(4, mu=f, sigma=0.003), lambda f: student.logpdf(1.0, 4, f, 0.003), 1.0),
    "waiting": (lambda f: pm.Exponential.dist(scale=pm.math.exp(f)), lambda f: expon.logpdf(0.5, 0, np.exp(f)), 0.5),
}


@pytest.mark.parametrize("name", NARROW)
def test_narrow_densities_are_integrated(name):
    dist, log_density, y = NARROW[name]
    model, process = known_process(dist, np.ones(len(X), dtype=int))
    draws = Dataset({"f_rotated_": (("chain", "draw", "v"), np.zeros((1, 1, len(Z))))})
    found = process.predict(DataTree.from_dict({"posterior": draws}), FAR, observed=[y], model=model)
    f = np.linspace(0.5 - 12.0, 0.5 + 12.0, 400_001)
    expected = logsumexp(log_density(f) + norm.logpdf(f, 0.5, np.sqrt(VARIANCE))) + np.log(f[1] - f[0])
    np.testing.assert_allclose(found["log_density"], [expected], atol=2e-6)


# Draws and data that do not belong together


def test_other_inducing_inputs_than_those_of_the_draws_are_refused():
    with pm.Model():
        process = pmgp.gp.Sparse(cov_func=pm.gp.cov.ExpQuad(1, ls=LENGTHSCALE))
        f = process.prior("f", X=X, Xu=pm.Data("Z", Z))
        process.observe("y", f, dist=lambda f: pm.Poisson.dist(pm.math.exp(f)), observed=np.ones(len(X)))
        draws = Dataset({"f_rotated_": (("chain", "draw", "v"), np.ones((1, 2, len(Z))))})
        data = Dataset({"Z": (("row", "column"), Z)})
        idata = DataTree.from_dict({"posterior": draws, "constant_data": data})
        process.predict(idata, NEW)
        pm.set_data({"Z": Z + 0.1})
        for used in (lambda: process.predict(idata, NEW), lambda: process.diagnose(idata)):
            with pytest.raises(ValueError, match="the model's 'Z' has other values than when these draws were made"):
                used()
        with pytest.raises(ValueError, match="the model's 'Z' has other values"):
            process.compute_log_likelihood(idata)


@pytest.mark.parametrize("settings", [{}, {"dims": "inducing"}])
def test_another_number_of_inducing_inputs_is_refused(settings):
    with pm.Model(coords={"inducing": range(len(Z))}) as model:
        process = pmgp.gp.Sparse(cov_func=pm.gp.cov.ExpQuad(1, ls=LENGTHSCALE))
        f = process.prior("f", X=X, Xu=pm.Data("Z", Z), **settings)
        process.observe("y", f, dist=lambda f: pm.Poisson.dist(pm.math.exp(f)), observed=np.ones(len(X)))
        pm.set_data({"Z": Z[:3]})
        for used in (lambda: process.marginals(NEW), pmgp.recommend, pmgp.steps.SparseHMC):
            with pytest.raises(ValueError, match="there are now 3 inducing inputs, but 'f_rotated_' has 4 values"):
                used()
        if settings:
            model.set_dim("inducing", 3, coord_values=range(3))
            assert process.marginals(NEW).mean.eval(mode=INTERPRETED).shape == (3,)


@pytest.mark.parametrize("given", [True, False])
def test_exposures_of_the_observations_are_not_those_of_new_ones(given):
    exposure = np.linspace(1.0, 2.0, len(X))
    if given:
        model, process = known_process(lambda f, e: pm.Poisson.dist(e * pm.math.exp(f)), np.ones(len(X)), exposure)
    else:
        model, process = known_process(lambda f: pm.Poisson.dist(exposure * pm.math.exp(f)), np.ones(len(X)))
    draws = Dataset({"f_rotated_": (("chain", "draw", "v"), np.zeros((1, 1, len(Z))))})
    idata = DataTree.from_dict({"posterior": draws})
    with pytest.warns(UserWarning, match="cannot be given at the new inputs") as warned:
        found = process.predict(idata, X + 0.1, model=model)
    assert set(found.data_vars) == {"latent_mean", "latent_variance"}
    assert ("with a value for each observation" if given else "an array that it is not given") in str(warned[0].message)
    with pytest.raises(ValueError, match="its likelihood"):
        process.predict(idata, X + 0.1, observed=np.ones(len(X)), model=model)
    if given:
        assert "mean" in process.predict(idata, NEW, parameters=(np.ones(3),), model=model)
        for wrong in (np.ones(3), ()):
            with pytest.raises(ValueError, match="has 1 parameters other than f; give a tuple, not"):
                process.predict(idata, NEW, parameters=wrong, model=model)


@pytest.mark.parametrize(
    ("observed", "words"),
    [
        ([1.5, 2, 3], "not whole numbers"),
        ([1], "1 observations 'y' for 3 rows"),
        ([[1, 2, 3]], r"have the shape \(1, 3\): give an array of shape \(3,\)"),
        ([1, np.nan, 2], "1 observations of 'y' are missing"),
    ],
)
def test_wrong_new_observations_are_refused(observed, words):
    model, process = known_process(lambda f: pm.Poisson.dist(pm.math.exp(f)), np.ones(len(X)))
    draws = Dataset({"f_rotated_": (("chain", "draw", "v"), np.zeros((1, 1, len(Z))))})
    with pytest.raises(ValueError, match=words):
        process.predict(DataTree.from_dict({"posterior": draws}), NEW, observed=observed, model=model)


def test_draws_of_new_values_say_where_they_are_made(regression, rng):
    model, _ = regression
    with pytest.raises(ModelError, match=r"gp\.conditional.*pymc\.sample_posterior_predictive"):
        pmgp.sample_predictions(posterior(rng)[0], NEW, model=model)
