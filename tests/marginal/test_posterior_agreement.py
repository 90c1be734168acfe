"""Two routes, one posterior: the pseudo-marginal chain and a grid, on crabs."""

from __future__ import annotations

import warnings

import arviz as az
import numpy as np
import pymc as pm
import pytest

import pmgp
from pmgp import datasets
from pmgp.core.approximations import ExpectationPropagation, Laplace
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.marginal.evaluation import Evaluator
from pmgp.interface.model.taking_apart import take_apart

NAMES = ("lengthscale", "variance")


@pytest.fixture(scope="module")
def crabs() -> tuple[np.ndarray, np.ndarray]:
    """Every second one."""
    data = datasets.load("crabs")
    return datasets.Standardizer.fit(data.X).transform(data.X)[::2], data.y[::2]


def classifier(X: np.ndarray, y: np.ndarray) -> pm.Model:
    d = X.shape[1]
    with pm.Model() as model:
        lengthscale = pm.Gamma("lengthscale", 1.0, 1.0 / np.sqrt(d))
        variance = pm.Gamma("variance", 1.1, 0.1)
        gp = pm.gp.Latent(cov_func=variance * pm.gp.cov.ExpQuad(d, ls=lengthscale))
        f = gp.prior("f", X=X, reparameterize=False)
        pmgp.BernoulliProbit("y", f, observed=y)
    return model


def moments(idata) -> dict[str, tuple[float, float, float, float]]:
    """Mean and standard deviation of log theta, each with its Monte Carlo standard error."""
    log_theta = np.log(idata["posterior"].dataset[list(NAMES)])
    return {
        name: (
            float(log_theta[name].mean()),
            float(az.mcse(log_theta, method="mean")[name]),
            float(log_theta[name].std()),
            float(az.mcse(log_theta, method="sd")[name]),
        )
        for name in NAMES
    }


@pytest.fixture(scope="module")
def pseudo_marginal(crabs):
    with warnings.catch_warnings(), classifier(*crabs):
        warnings.simplefilter("ignore", UserWarning)
        return pm.sample(
            1250, tune=500, chains=4, cores=2, step=pmgp.PseudoMarginal(), random_seed=1, progressbar=False
        )


def grid_moments(X: np.ndarray, y: np.ndarray, points: int = 25, draws: int = 250) -> dict[str, tuple[float, ...]]:
    """Moments of log theta on a grid, p(y|theta) estimated without bias at each of its points.

    The integration error of the grid is negligible; the noise of the estimates is measured by repeating the sum with
    halves of the draws.
    """
    rng = np.random.default_rng(3)
    evaluate = Evaluator(take_apart(classifier(X, y)), ExpectationPropagation())
    axes = np.linspace(-0.2, 2.4, points), np.linspace(1.4, 6.8, points)
    theta = np.array([[a, b] for a in axes[0] for b in axes[1]])
    logs = np.full((8, len(theta)), -np.inf)
    for index, point in enumerate(theta):
        evaluation = evaluate(point, None)
        if evaluation.log_screen < -80.0:
            continue
        evaluation = evaluate.prepare(evaluation)
        for part in range(8):
            estimate = ImportanceSampling(draws).estimate(rng, evaluation.approximation, evaluation.likelihood)
            logs[part, index] = evaluation.log_prior + estimate.log_evidence
    summaries = np.array([_weighted_moments(theta, part) for part in np.exp(logs - logs.max())])
    whole = _weighted_moments(theta, np.exp(logs - logs.max()).mean(axis=0))
    noise = summaries.std(axis=0, ddof=1) / np.sqrt(8)
    return {name: (whole[0, j], noise[0, j], whole[1, j], noise[1, j]) for j, name in enumerate(NAMES)}


def _weighted_moments(theta: np.ndarray, weights: np.ndarray) -> np.ndarray:
    weights = weights / weights.sum()
    mean = weights @ theta
    return np.array([mean, np.sqrt(weights @ (theta - mean) ** 2)])


def assert_agree(first, second) -> None:
    for name in NAMES:
        a, b = first[name], second[name]
        for value, error in ((0, 1), (2, 3)):
            assert abs(a[value] - b[value]) < 4.0 * np.hypot(a[error], b[error]), (name, a, b)


def test_chain_converges(pseudo_marginal):
    rhat = az.rhat(pseudo_marginal, var_names=list(NAMES))
    assert max(float(rhat[name]) for name in NAMES) < 1.02


def test_agrees_with_quadrature(pseudo_marginal, crabs):
    assert_agree(moments(pseudo_marginal), grid_moments(*crabs))


def test_laplace_alone_is_rejected(pseudo_marginal, crabs):
    """The posterior under Laplace's own evidence is far from the exact one: the test above would notice."""
    X, y = crabs
    evaluate = Evaluator(take_apart(classifier(X, y)), Laplace())
    axes = np.linspace(-0.2, 2.4, 25), np.linspace(1.4, 6.8, 25)
    theta = np.array([[a, b] for a in axes[0] for b in axes[1]])
    logs = np.array([evaluate(point, None).log_screen for point in theta])
    approximate = _weighted_moments(theta, np.exp(logs - logs.max()))
    exact = moments(pseudo_marginal)
    errors = [abs(approximate[0, j] - exact[name][0]) / exact[name][1] for j, name in enumerate(NAMES)]
    assert max(errors) > 8.0
