"""What the variance that inducing inputs leave does to the target, and how many would be enough."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy.stats import norm
from xarray import Dataset, DataTree

import pmgp
from pmgp.interface.sparse.diagnosis import diagnosis_of
from tests.sparse.problems import TARGETS, X, sparse_gaussian_process

DRAWS = 20


@pytest.fixture
def theta(rng):
    moments = {"noise": (-1.0, 0.3), "variance": (0.0, 0.3), "lengthscale": (0.0, 0.3)}
    return {name: np.exp(rng.normal(*those, DRAWS)) for name, those in moments.items()}


def kernel(A, B, lengthscale, variance):
    r = np.sqrt(5.0) * np.abs(A - B.T) / lengthscale
    return variance * (1.0 + r + np.square(r) / 3.0) * np.exp(-r)


def projection(Z, *theta):
    return np.linalg.solve(np.linalg.cholesky(kernel(Z, Z, *theta) + 1e-10 * np.eye(len(Z))), kernel(Z, X, *theta))


def diagnosis(theta, v, Z, draws=None):
    model, process = sparse_gaussian_process(Z)
    variables = {name: (("chain", "draw"), column[None]) for name, column in theta.items()}
    posterior = Dataset(variables | {"f_rotated_": (("chain", "draw", "m"), v[None])})
    return process.diagnose(DataTree.from_dict({"posterior": posterior}), model=model, draws=draws)


def test_with_gaussian_noise_everything_has_a_formula(theta, rng):
    Z = X[::3]
    v = rng.standard_normal((DRAWS, len(Z)))
    unexplained, penalties = [], []
    for noise, variance, lengthscale, values in zip(*theta.values(), v, strict=True):
        A = projection(Z, lengthscale, variance)
        gamma, mean = variance - np.square(A).sum(axis=0), values @ A
        unexplained.append(gamma.mean() / variance)
        expected_log = norm.logpdf(TARGETS, mean, noise) - 0.5 * gamma / noise**2
        penalties.append((norm.logpdf(TARGETS, mean, np.sqrt(noise**2 + gamma)) - expected_log).sum())
    found = diagnosis(theta, v, Z)
    np.testing.assert_allclose(found.unexplained, np.mean(unexplained), rtol=1e-6)
    np.testing.assert_allclose(found.penalty, np.mean(penalties), rtol=1e-6)
    np.testing.assert_allclose(found.penalty_deviation, np.std(penalties), rtol=1e-6)
    for name, values in theta.items():
        shift = np.corrcoef(values, penalties)[0, 1] * np.std(penalties)
        np.testing.assert_allclose(found.shifts[name], shift, rtol=1e-6)
    # Short length-scales and large variances leave much, and would have more weight without the penalty.
    assert found.shifts["lengthscale"] < 0.0 < found.shifts["variance"]
    assert found.inducing == 4 < found.enough <= 10
    assert found.points == len(X)
    with pytest.raises(ValueError, match="the diagnosis compares draws, and there is only one"):
        diagnosis(theta, v, Z, draws=1)
    assert f"With about {found.enough} inducing inputs for 10 points, nothing would be saved" in str(found)


def test_with_all_points_nothing_is_left(theta, rng):
    found = diagnosis(theta, rng.standard_normal((DRAWS, len(X))), X)
    assert found.good
    assert found.unexplained < 1e-6
    assert found.enough == found.inducing == 10
    assert found.advised is None
    assert "negligible" in str(found)


@pytest.mark.parametrize("places", [[0, 1, 2, 3], [0, 3, 5, 9]], ids=["at one end", "apart"])
def test_what_the_present_inducing_inputs_leave_is_theirs(theta, places):
    """However they were chosen; others, chosen in turn, leave less."""
    mean = {name: values.mean() for name, values in theta.items()}
    total, hyperparameters = len(X) * mean["variance"], (mean["lengthscale"], mean["variance"])

    def left_by(Z):
        return total - np.square(projection(Z, *hyperparameters)).sum()

    model, process = sparse_gaussian_process(X[places])
    present, others = process._traces(model, theta)
    with model:
        kernel = model["variance"] * pm.gp.cov.Matern52(1, ls=model["lengthscale"])
        Z = pmgp.gp.select_inducing(X, len(X), "conditional_variance", cov_func=kernel, start=mean)
    np.testing.assert_allclose(present, left_by(X[places]), rtol=1e-5)
    np.testing.assert_allclose(others, [left_by(Z[:m]) for m in range(1, len(Z) + 1)], atol=1e-5 * total)
    assert present > 1.01 * others[3]


def test_the_order_of_covariances_does_not_matter(rng):
    """The variance that all covariances leave counts, and the advice names a model that there is."""
    Y, draws = np.stack([TARGETS, -TARGETS]), rng.standard_normal((1, DRAWS, 2, 4))
    scales, found = (3.0, 0.3), []
    for order in ([0, 1], [1, 0]):
        with pm.Model() as model:
            process = pmgp.gp.Sparse(cov_func=[pm.gp.cov.Matern52(1, ls=scales[k]) for k in order])
            f = process.prior("f", X=X, Xu=X[::3], n_outputs=2)
            process.observe("y", f, dist=lambda f: pm.Normal.dist(f, 0.1), observed=Y[order])
        posterior = Dataset({"f_rotated_": (("chain", "draw", "k", "m"), draws[:, :, order])})
        found.append(process.diagnose(DataTree.from_dict({"posterior": posterior}), model=model))
    assert found[0].enough == found[1].enough
    np.testing.assert_allclose(found[0][:3], found[1][:3])
    assert "pmgp.PseudoMarginal on a model with pm.gp.Latent" in str(found[0])


def test_advice_follows_the_trace():
    """A penalty that varies by two nats must become forty times as small, and with it the trace."""
    penalties = np.array([0.0, 4.0])
    traces = 100.0 * 0.5 ** np.arange(12)
    settings = {"unexplained": np.array([0.1, 0.1]), "hyperparameters": {"a": np.array([1.0, 3.0])}, "points": 100}
    found = diagnosis_of(penalties=penalties, trace=25.0, traces=traces, inducing=3, **settings)
    assert found.enough == 9
    assert "Use about 9 inducing inputs" in str(found)
    assert traces[found.enough - 1] <= 0.025 * 25.0 < traces[found.enough - 2]
    assert found.shifts == {"a": 2.0}
    poor = diagnosis_of(penalties=penalties, trace=2500.0, traces=traces, inducing=3, **settings)
    assert poor.enough == 2
    assert "about 2 inducing inputs, better placed, for example by pmgp.gp.select_inducing, and check" in str(poor)
    none = diagnosis_of(penalties=penalties, trace=25.0, traces=traces[:4], inducing=3, **settings)
    assert none.enough is none.advised is None
    assert "more than 12 inducing inputs" in str(none)
    assert "the mean of a would move by +2 standard deviations or more" in str(none)


@pytest.mark.parametrize(("points", "exact"), [(17, True), (18, False), (100, False)])
def test_where_half_of_the_points_are_needed_the_exact_chain_is_advised(points, exact):
    penalties, traces = np.array([0.0, 4.0]), 100.0 * 0.5 ** np.arange(12)
    found = diagnosis_of(np.full(2, 0.1), penalties, {"a": np.array([1.0, 3.0])}, 25.0, traces, 3, points)
    assert found.exact_instead is exact
    assert found.advised == (0 if exact else 9)
    assert ("use the exact chain" in str(found)) is exact
    # Not where it would take days.
    assert not found._replace(points=30_000, enough=20_000).exact_instead
