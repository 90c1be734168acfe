"""When a variance is drawn from its full conditional, and when it must not be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats

import pmgp
from pmgp.core.theta_updates.densities import JointState, LatentPart
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.model.conjugacy import find_conjugate_variance
from pmgp.interface.model.taking_apart import take_apart

FAST = {"mode": INTERPRETED}
N = 9
RNG = np.random.default_rng(2)
X = RNG.uniform(size=(N, 2))
LABELS = RNG.integers(0, 2, size=N)
REALS = RNG.normal(size=N)
INVERSE_GAMMA = stats.invgamma(3.0, scale=2.0)


def inverse_gamma(**settings):
    return pm.InverseGamma("variance", 3.0, 2.0, **settings)


def smooth():
    lengthscale = pm.Gamma("lengthscale", 2.0, 4.0, shape=2)
    return pm.gp.cov.ExpQuad(2, ls=lengthscale) + pm.gp.cov.WhiteNoise(1e-2)


def labels(f, variance):
    pmgp.BernoulliLogit("y", f, observed=LABELS)


def build(
    variance: Callable = inverse_gamma,
    kernel: Callable = smooth,
    scaled: Callable = lambda variance: variance,
    mean: Callable = lambda variance: pm.gp.mean.Zero(),
    observe: Callable = labels,
    jitter: float = 0.0,
    inputs: np.ndarray = X,
) -> pm.Model:
    """A process with K = scaled(variance) (kernel) and one departure from what is conjugate."""
    with pm.Model() as model:
        sigma = variance()
        gp = pm.gp.Latent(mean_func=mean(sigma), cov_func=scaled(sigma) * kernel())
        observe(gp.prior("f", X=inputs, reparameterize=False, jitter=jitter), sigma)
    return model


def find(model: pm.Model) -> Any:
    return find_conjugate_variance(model, take_apart(model, compile_kwargs=FAST, given_theta=True))


def test_an_inverse_gamma_variance_is_found():
    found = find(build())
    assert (found.shape, found.scale) == (3.0, 2.0)


def test_its_place_in_theta_is_found():
    model = build()
    parts = take_apart(model, compile_kwargs=FAST)
    index = find_conjugate_variance(model, parts).index
    theta = np.zeros(parts.dimension)
    theta[index] = 1.5
    assert parts.unravel(theta)["variance_log__"] == 1.5
    assert len(theta) == 3


def test_a_fixed_mean_and_another_hyperparameter_do_no_harm():
    def mean(variance):
        return pm.gp.mean.Constant(pm.Normal("level"))

    def observe(f, variance):
        pm.Normal("y", f, pm.HalfNormal("sigma", 1.0), observed=REALS)

    assert find(build(mean=mean, observe=observe)) is not None


def test_the_full_conditional_is_that_of_pymcs_own_density():
    """Its draws against the joint log-density of the model as PyMC writes it, on a grid of log variances."""
    model = build(mean=lambda variance: pm.gp.mean.Constant(0.7))
    parts = take_apart(model, compile_kwargs=FAST)
    variance = find_conjugate_variance(model, parts)
    rng = np.random.default_rng(0)
    theta = 0.3 * rng.standard_normal(parts.dimension)
    prior = parts.prior(theta)
    f = prior.sample(rng, 1)[0]
    grid = np.linspace(-4.0, 5.0, 901)
    log_density = model.compile_logp(**FAST)

    def joint(value):
        moved = theta.copy()
        moved[variance.index] = value
        return float(log_density({**parts.unravel(moved), "f": f}))

    logs = np.array([joint(value) for value in grid])
    weights = np.exp(logs - logs.max())
    cumulative = np.concatenate([[0.0], np.cumsum(weights[1:] + weights[:-1])])
    draws = [variance.draw(rng, JointState(theta, LatentPart(prior, f))).theta[variance.index] for _ in range(2000)]
    assert stats.kstest(draws, lambda v: np.interp(v, grid, cumulative / cumulative[-1])).pvalue > 1e-3
    shifted = np.array(draws) + 0.1
    assert stats.kstest(shifted, lambda v: np.interp(v, grid, cumulative / cumulative[-1])).pvalue < 1e-3


# Departures


def gamma():
    return pm.Gamma("variance", 3.0, 2.0)


def with_a_hyperprior():
    return pm.InverseGamma("variance", 3.0, pm.Gamma("hyper", 2.0, 1.0))


def several():
    return pm.InverseGamma("variance", 3.0, 2.0, shape=2)[0]


def untransformed():
    return inverse_gamma(default_transform=None)


def with_data():
    return pm.InverseGamma("variance", 3.0, pm.Data("scale", 2.0))


def in_a_potential(f, variance):
    labels(f, variance)
    pm.Potential("pull", -pt.square(variance - 1.0))


def in_the_likelihood(f, variance):
    pm.Normal("y", f, pt.sqrt(variance), observed=REALS)


def in_a_hyperprior():
    def kernel():
        variance = pm.modelcontext(None)["variance"]
        return pm.gp.cov.ExpQuad(2, ls=pm.HalfNormal("lengthscale", variance))

    return kernel


DEPARTURES: dict[str, dict[str, Any]] = {
    "gamma prior": {"variance": gamma},
    "inverse gamma with a hyper-prior": {"variance": with_a_hyperprior},
    "inverse gamma with replaceable parameters": {"variance": with_data},
    "several variances": {"variance": several},
    "another scale": {"variance": untransformed},
    "default jitter": {"jitter": 1e-6},
    "tiny jitter": {"jitter": 1e-10},
    "tiny jitter beside a huge covariance": {
        "jitter": 1e-6,
        "kernel": lambda: pm.gp.cov.Linear(2, c=0.0),
        "inputs": 1e4 * X,
    },
    "a part of K that does not scale": {"kernel": smooth, "scaled": lambda v: v + 1.0},
    "a standard deviation": {"scaled": lambda v: v**2},
    "a bounded function": {"scaled": lambda v: v / (1.0 + 1e-9 * v)},
    "a function that is linear up to one": {"scaled": lambda v: pt.minimum(v, 1.0)},
    "mean": {"mean": lambda v: pm.gp.mean.Constant(v)},
    "mean, a little": {"mean": lambda v: pm.gp.mean.Constant(1e-3 * v)},
    "likelihood": {"observe": in_the_likelihood},
    "potential": {"observe": in_a_potential},
    "prior of another": {"kernel": in_a_hyperprior()},
    "length-scale": {"kernel": lambda: pm.gp.cov.ExpQuad(2, ls=pm.modelcontext(None)["variance"])},
}


@pytest.mark.parametrize("departure", DEPARTURES)
def test_departures_are_not_conjugate(departure):
    assert find(build(**DEPARTURES[departure])) is None


def test_no_variance_at_all():
    with pm.Model() as model:
        gp = pm.gp.Latent(cov_func=smooth())
        labels(gp.prior("f", X=X, reparameterize=False, jitter=0.0), None)
    assert find(model) is None


def test_the_second_of_two_is_found():
    """The first one is a noise of the likelihood."""

    def observe(f, variance):
        pm.Normal("y", f, pt.sqrt(noise), observed=REALS)

    with pm.Model() as model:
        noise = pm.InverseGamma("noise", 5.0, 1.0)
        gp = pm.gp.Latent(cov_func=inverse_gamma() * smooth())
        observe(gp.prior("f", X=X, reparameterize=False, jitter=0.0), None)
    found = find(model)
    assert (found.shape, found.scale) == (3.0, 2.0)


# In the step methods


@pytest.mark.parametrize("step", [pmgp.steps.Sufficient, pmgp.steps.Interweaving])
def test_it_is_on_by_default_and_can_be_turned_off(step):
    model = build()
    assert step(model=model, compile_kwargs=FAST).scheme.variance is not None
    assert step(model=model, compile_kwargs=FAST, conjugate_variance=False).scheme.variance is None
    assert step(model=build(variance=gamma), compile_kwargs=FAST).scheme.variance is None
