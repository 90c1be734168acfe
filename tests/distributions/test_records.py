"""A likelihood from outside of the package is as good as one of its own: a core class, a distribution and a record."""

from __future__ import annotations

from types import SimpleNamespace

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from pymc.distributions.distribution import Continuous
from pytensor.tensor.random.basic import exponential
from scipy.stats import expon, halfnorm

import pmgp
from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods.base import FactorizingLikelihood
from pmgp.interface.distributions import BernoulliProbit
from pmgp.interface.distributions.base import LatentVariable, as_parameter, resized
from pmgp.interface.distributions.bernoulli import BernoulliProbitRV
from pmgp.interface.distributions.records import Expected, LikelihoodRecord, record_of, register
from pmgp.interface.model.graph_likelihood import PyTensorLikelihood
from pmgp.interface.model.taking_apart import take_apart
from tests.steps.test_contract import FAST
from tests.truths import posterior_by_summation


class Waiting(FactorizingLikelihood):
    """Exponential times with mean exp(f)."""

    def __init__(self, y):
        self.y = np.asarray(y, dtype=float)

    def log_density(self, f):
        return -f - self.y * np.exp(-f)

    def gradient(self, f):
        return self.y * np.exp(-f) - 1.0

    def curvature(self, f):
        return self.y * np.exp(-f)

    third_derivative = curvature

    def fisher_information(self, f):
        return np.ones_like(f)


class WaitingTimeRV(LatentVariable):
    name = "waiting_time"
    extended_signature = "[rng],[size],()->[rng],()"

    @classmethod
    def draw(cls, rng, size, *parameters):
        return exponential(pt.exp(parameters[0]), size=size, rng=rng, return_next_rng=True)


class WaitingTime(Continuous):
    rv_type, rv_op = WaitingTimeRV, WaitingTimeRV.rv_op

    @classmethod
    def dist(cls, f, **kwargs):
        return super().dist([as_parameter(f)], **kwargs)

    def support_point(rv, size, f):  # noqa: N805
        return resized(pt.exp(f), size)

    def logp(value, f):  # noqa: N805
        return -f - value * pt.exp(-f)


register(LikelihoodRecord(WaitingTimeRV, Waiting, {"mean": Expected(under_normal=lambda m, v: np.exp(m + 0.5 * v))}))

X = np.array([0.0, 0.7, 1.5])[:, None]
TIMES = np.array([3.0, 0.2, 6.0])
COVARIANCE = np.exp(-0.5 * np.square(X - X.T))


def model(observe) -> pm.Model:
    with pm.Model() as result:
        scale = pm.HalfNormal("scale", 1.5)
        gp = pm.gp.Latent(cov_func=scale**2 * pm.gp.cov.ExpQuad(1, ls=1.0))
        observe(gp.prior("f", X=X, reparameterize=False))
    return result


@pytest.fixture(scope="module")
def recorded() -> pm.Model:
    return model(lambda f: WaitingTime("y", f, observed=TIMES))


@pytest.fixture(scope="module")
def draws(recorded):
    with recorded:
        step = pmgp.PseudoMarginal(compile_kwargs=FAST)
        assert isinstance(step.latent_model.likelihood(np.zeros(1)), Waiting)
        quiet = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
        return pm.sample(2500, tune=800, chains=2, cores=1, step=step, random_seed=4, **quiet)


def by_quadrature(log_likelihood) -> tuple[np.ndarray, np.ndarray]:
    """Means and mean squares of log(scale) and f: a grid of scales, a grid of f at each."""
    scales = np.exp(np.linspace(-8.0, 2.0, 81))
    logs, moments = [], []
    for scale in scales:
        prior = DensePrior(np.zeros(3), np.asfortranarray(scale**2 * COVARIANCE + 1e-9 * np.eye(3)))
        evidence, mean, variance = posterior_by_summation(prior, SimpleNamespace(log_likelihood=log_likelihood), 31)
        logs.append(halfnorm(scale=1.5).logpdf(scale) + np.log(scale) + evidence)
        moments.append([[np.log(scale), *mean], [np.log(scale) ** 2, *(variance + mean**2)]])
    weights = np.exp(logs - np.max(logs))
    return np.tensordot(weights / weights.sum(), moments, axes=1)


def distances(draws, truth) -> np.ndarray:
    """Return the distances of the chain's means and mean squares from the truth, in Monte Carlo standard errors."""
    posterior = draws["posterior"]
    values = np.concatenate([np.log(posterior["scale"].to_numpy())[..., None], posterior["f"].to_numpy()], axis=-1)
    errors = [[az.mcse(each[..., i], method="mean") for i in range(4)] for each in (values, values**2)]
    return np.abs([values.mean(axis=(0, 1)), np.square(values).mean(axis=(0, 1))] - truth) / np.array(errors)


def test_the_chain_has_the_posterior_of_quadrature(draws):
    exact = by_quadrature(lambda f: expon(scale=np.exp(f)).logpdf(TIMES).sum(axis=-1))
    assert distances(draws, exact).max() < 4.0


def test_another_posterior_is_rejected(draws):
    """The broken twin: the density without its normalizer, as an error in the core class would make it."""
    wrong = by_quadrature(lambda f: -(0.5 * f + TIMES * np.exp(-f)).sum(axis=-1))
    assert distances(draws, wrong).max() > 8.0


def test_its_prediction_is_that_of_the_graph(draws):
    """In closed form, as the record says, and by quadrature of PyMC's own distribution, which has no record."""
    plain = model(lambda f: pm.Exponential("y", lam=pt.exp(-f), observed=TIMES))
    own = model(lambda f: WaitingTime("y", f, observed=TIMES))
    each = [pmgp.predict(draws, X + 0.3, model=m, draws=40, progressbar=False)["mean"] for m in (own, plain)]
    assert_allclose(each[0], each[1], rtol=1e-6)


def test_what_has_no_record_is_computed_by_its_graph():
    plain = model(lambda f: pm.Exponential("y", lam=pt.exp(-f), observed=TIMES))
    record = record_of(plain["y"])
    assert record.constructor is None
    assert set(record.expected) == {"mean"}
    assert isinstance(take_apart(plain, compile_kwargs=FAST).likelihood(np.zeros(1)), PyTensorLikelihood)


def test_the_last_record_of_a_type_holds(recorded):
    before = record_of(recorded["y"])
    register(LikelihoodRecord(WaitingTimeRV))
    assert record_of(recorded["y"]).constructor is None
    register(before)
    assert record_of(recorded["y"]) is before


@pytest.mark.parametrize("what", [BernoulliProbit, BernoulliProbitRV.rv_op, Waiting, pm.Poisson.rv_op])
def test_a_record_is_of_a_type_of_random_variables(what):
    with pytest.raises(TypeError, match="rv_type"):
        LikelihoodRecord(what)
