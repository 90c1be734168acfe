"""The likelihood of the first exercise: its derivatives by PyTensor, its graph, and a posterior by summation."""

from __future__ import annotations

from functools import cache

import arviz as az
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from scipy.stats import nbinom

import pmgp
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.model.taking_apart import take_apart
from tests.exercises.loading import exercise
from tests.finite_differences import central_differences

counts = exercise("negative_binomial")

Y = np.array([0, 3, 1, 17])
ALPHA = 1.7
F = np.array([-9.0, -1.2, 0.4, 3.0, 9.0])
ORDERS = {"log_density": 0, "gradient": 1, "curvature": 2, "third_derivative": 3}


@pytest.fixture(scope="module")
def derivatives():
    """PyMC's log-density and its derivatives by PyTensor, at every pair of an f and a count."""
    f = pt.dmatrix("f")
    graph = pm.logp(pm.NegativeBinomial.dist(mu=pt.exp(f), alpha=ALPHA), Y)
    graphs = [graph]
    for _ in range(3):
        graphs.append(pt.grad(graphs[-1].sum(), f))
    return pytensor.function([f], graphs, mode="FAST_COMPILE")(np.repeat(F[:, None], len(Y), axis=1))


def by_hand(method: str, kind=counts.NegativeBinomialLikelihood) -> np.ndarray:
    likelihood = kind(Y, ALPHA)
    return np.array([getattr(likelihood, method)(np.full(len(Y), f)) for f in F])


@pytest.mark.parametrize("method", ORDERS)
def test_derivatives_are_those_of_the_graph(derivatives, method):
    sign = -1.0 if method == "curvature" else 1.0
    assert_allclose(sign * by_hand(method), derivatives[ORDERS[method]], rtol=1e-8, atol=1e-8)


def test_a_wrong_derivative_is_seen(derivatives):
    """The broken twin: a sign."""

    class Broken(counts.NegativeBinomialLikelihood):
        def third_derivative(self, f):
            return -super().third_derivative(f)

    assert np.abs(by_hand("third_derivative", Broken) - derivatives[3]).max() > 0.1


def test_derivatives_far_out():
    likelihood = counts.NegativeBinomialLikelihood(np.full(4, 5.0), ALPHA)
    f = np.array([-800.0, -60.0, 60.0, 800.0])
    assert_allclose(likelihood.gradient(f), [5.0, 5.0, -ALPHA, -ALPHA], rtol=1e-12)
    for method in (*ORDERS, "fisher_information"):
        assert np.isfinite(getattr(likelihood, method)(f)).all()
    slopes = np.diag(central_differences(likelihood.log_density, f, 1e-3))
    assert_allclose(slopes, likelihood.gradient(f), rtol=1e-8)


@pytest.mark.parametrize("f", [-1.0, 0.5, 2.0])
def test_the_fisher_information_is_the_expected_curvature(f):
    y = np.arange(4000)
    likelihood = counts.NegativeBinomialLikelihood(y, ALPHA)
    at = np.full(y.size, f)
    probabilities = np.exp(likelihood.log_density(at))
    assert_allclose(probabilities.sum(), 1.0, rtol=1e-10)
    assert_allclose(likelihood.fisher_information(at), probabilities @ likelihood.curvature(at), rtol=1e-9)


@pytest.mark.parametrize(
    ("y", "alpha", "message"),
    [([0, -3], 1.0, r"found -3\.0"), ([0.5, 1], 1.0, r"0\.5"), ([0, 1], -2.0, "alpha must be")],
)
def test_what_is_outside_the_domain_is_named(y, alpha, message):
    with pytest.raises(ValueError, match=message):
        counts.NegativeBinomialLikelihood(y, alpha)


X = np.array([[-0.8], [0.1], [0.9]])
OBSERVED = np.array([0, 2, 6])
K = 1.5 * np.exp(-0.5 * np.square(X - X.T))
MEAN = 0.6


def model(by_graph: bool) -> pm.Model:
    with pm.Model() as result:
        alpha = pm.LogNormal("alpha", 0.5, 1.0)
        gp = pm.gp.Latent(mean_func=pm.gp.mean.Constant(MEAN), cov_func=1.5 * pm.gp.cov.ExpQuad(1, ls=1.0))
        f = gp.prior("f", X=X, reparameterize=False, jitter=0.0)
        if by_graph:
            pm.NegativeBinomial("y", mu=pm.math.exp(f), alpha=alpha, observed=OBSERVED)
        else:
            counts.NegativeBinomialOfLogMean("y", f, alpha, observed=OBSERVED)
    return result


def test_the_model_finds_the_closed_form_and_it_is_that_of_the_graph():
    closed, graph = (take_apart(model(by_graph), None) for by_graph in (False, True))
    for log_alpha in (-1.0, 0.3, 2.5):
        theta, f = np.array([log_alpha]), np.array([-0.4, 0.9, 2.2])
        by_hand, by_graph = closed.likelihood(theta), graph.likelihood(theta)
        assert isinstance(by_hand, counts.NegativeBinomialLikelihood)
        assert_allclose(by_hand.log_likelihood(f), by_graph.log_likelihood(f), rtol=1e-10)
        assert_allclose(by_hand.derivatives(f), by_graph.derivatives(f), rtol=1e-8)
        at = f + 0.2, np.array([0.5, 1.0, 0.1])
        assert_allclose(by_hand.tilted_moments(*at), by_graph.tilted_moments(*at), rtol=1e-9)


@cache
def exact_moments() -> np.ndarray:
    """Mean and deviation of log alpha, means of f and of exp(f), by summation over log alpha and the whitened f."""
    axis = np.linspace(-5.5, 5.5, 35)
    nu = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
    f = MEAN + nu @ np.linalg.cholesky(K).T
    log_prior = -0.5 * np.square(nu).sum(axis=1)
    grid = np.linspace(-4.5, 6.5, 45)
    logs = np.array([log_prior + log_likelihood(f, np.exp(a)) - 0.5 * (a - 0.5) ** 2 for a in grid])
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    by_alpha = weights.sum(axis=1)
    mean = by_alpha @ grid
    by_f = weights.sum(axis=0)
    return np.array([mean, np.sqrt(by_alpha @ np.square(grid - mean)), *(by_f @ f), *(by_f @ np.exp(f))])


def log_likelihood(f: np.ndarray, alpha: float) -> np.ndarray:
    """As scipy has it, without the functions of the exercise."""
    return nbinom.logpmf(OBSERVED, alpha, alpha / (alpha + np.exp(f))).sum(axis=1)


def distances(idata) -> np.ndarray:
    """Errors in Monte Carlo standard errors."""
    draws = np.log(idata.posterior["alpha"].to_numpy())
    f = idata.posterior["f"].to_numpy()
    found = [draws.mean(), draws.std(), *f.mean(axis=(0, 1))]
    errors = [az.mcse(draws, method="mean"), az.mcse(draws, method="sd")]
    errors += [az.mcse(f[..., site], method="mean") for site in range(3)]
    return np.abs(np.array(found) - exact_moments()[:5]) / np.array(errors, dtype=float)


def sampled():
    with model(by_graph=False):
        return pm.sample(
            4000, tune=500, chains=2, cores=1, step=pmgp.PseudoMarginal(), random_seed=2, progressbar=False
        )


def test_it_is_sampled_exactly_and_its_mean_is_predicted():
    idata = sampled()
    assert distances(idata).max() < 4.0
    every = pmgp.predict(idata, X, model=model(by_graph=False), draws=None, progressbar=False)
    predicted = every["mean"].to_numpy()
    assert_allclose(predicted, exact_moments()[5:], rtol=0.05)


def test_a_density_with_a_factor_too_many_is_not(monkeypatch):
    """The broken twin: a constant in f that is none in theta."""
    correct = counts.NegativeBinomialLikelihood.log_density

    def broken(self, f):
        return correct(self, f) + 0.4 * np.log(self.alpha)

    monkeypatch.setattr(counts.NegativeBinomialLikelihood, "log_density", broken)
    assert distances(sampled()).max() > 8.0


def test_draws_have_the_mean_and_the_variance_of_the_distribution():
    f = np.array([0.0, 1.0, 2.0])
    variable = counts.NegativeBinomialOfLogMean.dist(f, ALPHA, shape=(20_000, 3))
    draws = pm.draw(variable, random_seed=3, mode=INTERPRETED)
    mean = np.exp(f)
    variance = mean + mean**2 / ALPHA
    assert (np.abs(draws.mean(axis=0) - mean) < 4.0 * np.sqrt(variance / len(draws))).all()
    assert_allclose(draws.var(axis=0), variance, rtol=0.1)
