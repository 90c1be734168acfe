"""Time series that cannot be integrated out are refused in words, and so is what needs a covariance matrix."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pmgp
from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.model.taking_apart import take_apart
from pmgp.interface.steps.starts import unusable_start
from tests.time_series.models import counts


def poisson(x, n: int = 6):
    pm.Poisson("y", pm.math.exp(x), observed=np.ones(n, dtype=int))


def heavy_start():
    poisson(pm.AR("x", rho=[0.5], init_dist=pm.StudentT.dist(nu=3), shape=6))


def known_start():
    poisson(pm.AR("x", rho=[0.5], init_dist=pm.DiracDelta.dist(0.0), shape=6))


def heavy_steps():
    first, step = pm.Normal.dist(0, 1), pm.Laplace.dist(0, 1)
    poisson(pm.RandomWalk("x", init_dist=first, innovation_dist=step, shape=6))


def several_rows():
    x = pm.GaussianRandomWalk("x", sigma=1.0, init_dist=pm.Normal.dist(0, 1), shape=(2, 6))
    poisson(x.sum(axis=0))


def without_steps():
    x = pm.GaussianRandomWalk("x", sigma=pm.HalfNormal("sigma"), init_dist=pm.Normal.dist(0, 1), shape=1)
    poisson(x[np.zeros(6, dtype=int)])


def transformed():
    zero_sum = pm.distributions.transforms.ZeroSumTransform([0])
    poisson(pm.GaussianRandomWalk("x", init_dist=pm.Normal.dist(0, 1), shape=6, transform=zero_sum))


def two_series():
    rho = pm.Uniform("rho", -1, 1)
    trend = pm.GaussianRandomWalk("trend", init_dist=pm.Normal.dist(0, 1), shape=6)
    poisson(trend + pm.AR("x", rho=rho, init_dist=pm.Normal.dist(0, 1), shape=6))


def running_sums():
    x = pm.AR("x", rho=pm.Uniform("rho", -1, 1), init_dist=pm.Normal.dist(0, 1), shape=6)
    poisson(pt.log(pt.exp(x).cumsum()), 6)


def no_hyperparameters():
    poisson(pm.AR("x", rho=[0.5], init_dist=pm.Normal.dist(0, 1), shape=6))


REFUSED = {
    heavy_start: r"'x' cannot be f: its first values are StudentT, .*init_dist=pm\.Normal\.dist",
    known_start: r"first values are DiracDelta, .*small sigma",
    heavy_steps: r"its innovations are Laplace, and only normal ones",
    several_rows: r"it has 2 dimensions: give it shape=n",
    without_steps: r"with shape=1 PyMC has no density for a walk: give dims=\.\.\., or",
    transformed: r"it has a transform",
    running_sums: r"does not factorize over 'x'",
    no_hyperparameters: r"no hyper-parameters besides 'x'",
}


@pytest.mark.parametrize(("build", "words"), REFUSED.items(), ids=lambda one: getattr(one, "__name__", ""))
def test_models_are_refused_in_words(build, words):
    with pm.Model() as model:
        build()
    with model, pytest.raises(ModelError, match=words):
        pmgp.PseudoMarginal()


def test_a_walk_of_one_value_with_a_dimension_is_accepted():
    with pm.Model(coords={"time": [0]}) as model:
        sigma, first = pm.HalfNormal("sigma"), pm.Normal.dist(0, 1)
        poisson(pm.GaussianRandomWalk("x", sigma=sigma, init_dist=first, dims="time")[np.zeros(6, dtype=int)])
    assert pmgp.describe(model).refused is None


def test_descriptions_say_why():
    with pm.Model() as model:
        known_start()
    description = pmgp.describe(model)
    assert "small sigma" in description.refused
    assert "normal ones can be integrated out" in str(description)


def test_a_second_series_among_the_hyperparameters_is_refused():
    with pm.Model() as model:
        two_series()
    with model, pytest.raises(ModelError, match="second latent process besides 'x': 'trend' is a time series"):
        pmgp.PseudoMarginal(latent="x")


@pytest.fixture(scope="module")
def model():
    return counts(6)


@pytest.mark.parametrize(
    "step",
    [
        pmgp.steps.Sufficient,
        pmgp.steps.Ancillary,
        pmgp.steps.Surrogate,
        pmgp.steps.JointUpdate,
        pmgp.steps.LatentHMC,
        pmgp.steps.LatentSMMALA,
        pmgp.steps.LatentMetropolis,
        pmgp.steps.LatentRMHMC,
    ],
)
def test_steps_that_need_a_covariance_matrix_say_so(step, model):
    with model, pytest.raises(ModelError, match="'x' is a time series, whose covariance matrix is never formed"):
        step()


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        ("orthant", "OrthantSampling needs the covariance matrix of 'x'"),
        (pmgp.estimators.SequentialSampling(), 'use estimator="sequential"'),
    ],
)
def test_estimators_that_need_a_covariance_matrix_say_so(estimator, words, model):
    with model, pytest.raises(ValueError, match=words):
        pmgp.PseudoMarginal(estimator=estimator)


def test_paths_need_a_time_series():
    with pm.Model():
        scale = pm.HalfNormal("scale")
        poisson(pm.MvNormal("f", np.zeros(6), scale * np.eye(6)))
        with pytest.raises(ValueError, match="PathSampling draws the values of a time series"):
            pmgp.PseudoMarginal(estimator=pmgp.estimators.PathSampling())


def test_an_impossible_start_is_named():
    with pm.Model() as model:
        sigma = pm.Normal("sigma", 1.0, 1.0)
        poisson(pm.AR("x", rho=[0.5], sigma=sigma, init_dist=pm.Normal.dist(0, 1), shape=6))
    parts = take_apart(model)
    words = unusable_start(parts, np.array([-1.0]))
    assert "the time series 'x' has no density there" in words
    assert "sigma=-1.0" in words
    # The square of such a deviation overflows.
    assert parts.prior(np.array([1e200])).factorized() is None
