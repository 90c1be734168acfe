"""The covariance in blocks is PyTensor's own, for every kernel it accepts; others are left to PyTensor."""

from __future__ import annotations

import pickle
from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pmgp.interface.covariance import executor, pullback
from pmgp.interface.covariance.blocked import BlockedCovariance
from pmgp.interface.covariance.program import Instruction
from pmgp.interface.distributions import BernoulliLogit
from pmgp.interface.graphs.numpy_graph import NumpyGraph
from pmgp.interface.graphs.numpy_operations import UnsupportedGraphError
from pmgp.interface.model.latent_gaussian import LatentGaussianModel
from pmgp.interface.model.taking_apart import take_apart

N = 150
# The root of a squared distance that ought to be zero magnifies its rounding, some 1e-15, beside the 1e-12 that PyMC
# adds to it: by 1 / (2e-6), in PyTensor's sums as in NumPy's.
ROUNDED_ROOT = 2e-9
X = np.random.default_rng(3).normal(size=(N, 3))


def kernels() -> dict:
    cov = pm.gp.cov
    return {
        "isotropic": lambda ls, s: s * cov.ExpQuad(3, ls=ls[0]),
        "ard": lambda ls, s: s * cov.ExpQuad(3, ls=ls),
        "matern": lambda ls, s: s * cov.Matern32(3, ls=ls) + cov.Matern52(3, ls=ls[0]),
        "product": lambda ls, s: s * cov.ExpQuad(3, ls=ls, active_dims=[0, 1, 2]) * cov.RatQuad(3, ls=ls[1], alpha=0.7),
        "linear": lambda ls, s: cov.Linear(3, c=ls) * s + cov.Exponential(3, ls=ls[2]),
        "polynomial": lambda ls, s: s * cov.Polynomial(3, c=ls, d=2, offset=1.0),
        "periodic": lambda ls, s: s * cov.Periodic(3, period=1.5, ls=ls[0], active_dims=[1]),
        "noise": lambda ls, s: s * (cov.ExpQuad(3, ls=ls) + cov.WhiteNoise(ls[1])),
        "cosine": lambda ls, s: s * cov.Cosine(3, ls=ls) + cov.WhiteNoise(0.1),
    }


def parts(kernel, x=X, compile_kwargs=None) -> LatentGaussianModel:
    with pm.Model():
        ls = pm.Gamma("ls", 2.0, 2.0, shape=3)
        s = pm.Gamma("s", 2.0, 1.0)
        gp = pm.gp.Latent(mean_func=pm.gp.mean.Constant(s), cov_func=kernel(ls, s))
        f = gp.prior("f", X=x, reparameterize=False)
        BernoulliLogit("y", f, observed=np.zeros(N))
        return take_apart(pm.modelcontext(None), compile_kwargs=compile_kwargs)


@cache
def parts_of(name) -> LatentGaussianModel:
    """Compiled once for all tests of a kernel; the size of blocks is read whenever a matrix is filled."""
    return parts(kernels()[name])


def moments_of_pytensor(model: LatentGaussianModel):
    """Return the whole mean and covariance as a function of theta."""
    return model.theta.compile([], [model.graphs.mean, model.graphs.covariance], interpreted=True)


def test_thin_parts_need_no_compiler():
    assert isinstance(parts_of("ard").latent_prior.blocked._values._function, NumpyGraph)
    with pm.Model() as model:
        ls = pm.Gamma("ls", 2.0, 2.0)
        f = pm.gp.Latent(cov_func=pm.gp.cov.Periodic(3, period=1.5, ls=ls)).prior("f", X=X, reparameterize=False)
        BernoulliLogit("y", f, observed=np.zeros(N))
    # A whole matrix moves with theta.
    assert not isinstance(take_apart(model).latent_prior.blocked._values._function, NumpyGraph)


@pytest.mark.parametrize("name", kernels())
def test_lower_triangle_and_mean_are_those_of_pytensor(name):
    model = parts_of(name)
    assert model.latent_prior.blocked is not None
    rng, moments = np.random.default_rng(0), moments_of_pytensor(model)
    for _ in range(3):
        theta = rng.normal(0.0, 0.5, model.dimension)
        mean, expected = moments(theta)
        prior = model.prior(theta)
        np.testing.assert_array_equal(prior.mean, mean)
        np.testing.assert_allclose(np.tril(prior.covariance, -1), np.tril(expected, -1), rtol=1e-12, atol=1e-13)
        rounding = ROUNDED_ROOT if name == "linear" else 1e-13
        np.testing.assert_allclose(prior.covariance.diagonal(), expected.diagonal(), rtol=1e-12, atol=rounding)
        assert prior.covariance.flags.f_contiguous


@pytest.mark.parametrize("function", [np.multiply, np.add, np.exp, np.minimum, np.power, np.square])
def test_numbers_are_written_to_memory_that_is_there(function):
    assert Instruction("call", function).writes


@pytest.mark.parametrize("function", [np.less, np.equal, np.where])
def test_truth_values_and_choices_are_not(function):
    assert not Instruction("call", function).writes


def test_results_do_not_share_memory():
    model = parts_of("isotropic")
    first = model.prior(np.zeros(4))
    before = np.tril(first.covariance).copy()
    second = model.prior(np.full(4, 0.3))
    np.testing.assert_array_equal(np.tril(first.covariance), before)
    assert not np.shares_memory(first.covariance, second.covariance)
    assert not np.shares_memory(first.mean, second.mean)


@pytest.mark.parametrize("name", ["noise", "isotropic"])
@pytest.mark.parametrize("block", [97, 1_000, 5_000, 10**6])
def test_any_size_of_block(monkeypatch, block, name):
    monkeypatch.setattr(executor, "BLOCK_ELEMENTS", block)
    monkeypatch.setattr(executor, "SMALLEST_BLOCK", 7)
    model = parts_of(name)
    theta = np.array([0.1, -0.2, 0.3, 0.4])
    assert model.latent_prior.blocked._elementwise == (name == "isotropic")
    expected = moments_of_pytensor(model)(theta)[1]
    np.testing.assert_allclose(np.tril(model.prior(theta).covariance), np.tril(expected), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("n", [1, 2, 20])
def test_few_points(n):
    with pm.Model() as model:
        s = pm.Gamma("s", 2.0, 1.0)
        f = pm.gp.Latent(cov_func=s * pm.gp.cov.ExpQuad(3, ls=1.0)).prior("f", X=X[:n], reparameterize=False)
        BernoulliLogit("y", f, observed=np.zeros(n))
    latent_model, theta = take_apart(model), np.array([0.3])
    expected = moments_of_pytensor(latent_model)(theta)[1]
    np.testing.assert_allclose(np.tril(latent_model.prior(theta).covariance), np.tril(expected), rtol=1e-12)


def test_a_graph_without_this_form_is_left_to_pytensor():
    with pm.Model() as model:
        s = pm.Gamma("s", 2.0, 1.0)
        distances = np.abs(X[:, :1] - X[:, :1].T)
        f = pm.MvNormal("f", mu=np.zeros(N), cov=pt.round(s * distances, mode="half_away_from_zero"))
        BernoulliLogit("y", f, observed=np.zeros(N))
    latent_model = take_apart(model)
    assert latent_model.latent_prior.blocked is None
    theta = np.array([0.7])
    np.testing.assert_array_equal(latent_model.prior(theta).covariance, latent_model.latent_prior.moments(theta)[1])


def test_the_unsupported_is_named():
    s = pt.vector("s")
    matrix = pt.round(pt.outer(s, s), mode="half_away_from_zero")
    with pytest.raises(UnsupportedGraphError, match=r"(?i)round"):
        BlockedCovariance(s, matrix, s, pm.pytensorf.compile)


def test_new_data_are_read():
    with pm.Model() as model:
        ls = pm.Gamma("ls", 2.0, 2.0)
        data = pm.Data("x", X)
        f = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(3, ls=ls)).prior("f", X=data, reparameterize=False)
        BernoulliLogit("y", f, observed=np.zeros(N))
    latent_model = take_apart(model)
    assert latent_model.latent_prior.blocked is not None
    theta = np.array([0.2])
    with model:
        pm.set_data({"x": 2.0 * X})
    latent_model.refresh_data()
    expected = moments_of_pytensor(latent_model)(theta)[1]
    np.testing.assert_allclose(np.tril(latent_model.prior(theta).covariance), np.tril(expected), rtol=1e-12, atol=1e-13)


def test_it_can_be_pickled():
    model = parts_of("ard")
    theta = np.full(4, 0.1)
    expected = np.tril(model.prior(theta).covariance)
    copy = pickle.loads(pickle.dumps(model.latent_prior.blocked))
    np.testing.assert_array_equal(np.tril(copy(theta)[1]), expected)


# Derivatives

BOUNDS = (np.minimum, np.maximum)


@pytest.mark.parametrize("name", kernels())
def test_the_pullback_is_that_of_pytensor(name, monkeypatch):
    """Over several blocks; what stands above the diagonal of the weights is not read."""
    monkeypatch.setattr(executor, "BLOCK_ELEMENTS", 6_000)
    model = parts(kernels()[name], compile_kwargs={"mode": "FAST_COMPILE"})
    rng = np.random.default_rng(1)
    theta, mean_bar, root = rng.normal(0.0, 0.3, model.dimension), rng.normal(size=N), rng.normal(size=(N, 5))
    weight = np.asfortranarray(root @ root.T)
    prior = model.latent_prior
    expected = prior._pullback(np.ascontiguousarray(weight), mean_bar, theta)[1]
    model.prior(theta)
    given = np.where(np.tri(N, dtype=bool), weight, np.nan)
    np.testing.assert_allclose(model.covariance_pullback(theta, given, mean_bar), expected, rtol=1e-8, atol=1e-8)
    assert prior.blocked.has_pullback
    uncompiled = parts_of(name)
    np.testing.assert_allclose(uncompiled.covariance_pullback(theta, given, mean_bar), expected, rtol=1e-8, atol=1e-8)
    assert uncompiled.latent_prior.blocked._thin_pullback.function is None


def test_weights_count_what_stands_above_the_diagonal_twice():
    lower = np.asfortranarray(np.arange(36.0).reshape(6, 6))
    block = pullback._weights(lower, slice(2, 5))
    symmetric = np.tril(lower) + np.tril(lower, -1).T
    change = np.random.default_rng(0).normal(size=(6, 6))
    change += change.T
    total = sum(
        (pullback._weights(lower, rows) * change[rows, rows.start :]).sum() for rows in (slice(0, 2), slice(2, 6))
    )
    assert block.shape == (3, 4)
    assert total == pytest.approx((symmetric * change).sum())


def _by_rule(rule, gradient, function, *operands):
    values = {"np": np, "g": gradient, "r": function(*operands)} | dict(zip("ab", operands, strict=False))
    return eval(rule.format(**{name: name for name in values}), values)


SMOOTH = [function for function, rules in pullback.RULES.items() if None not in rules and function not in BOUNDS]


@pytest.mark.parametrize("function", SMOOTH)
def test_the_rules_are_derivatives(function):
    rng = np.random.default_rng(2)
    operands = [rng.uniform(0.5, 1.5, size=7) for _ in range(function.nin)]
    gradient, step = rng.normal(size=7), 1e-6
    for place, rule in enumerate(pullback.RULES[function]):
        shifted = [[x + s * step * (i == place) for i, x in enumerate(operands)] for s in (1.0, -1.0)]
        expected = gradient * (function(*shifted[0]) - function(*shifted[1])) / (2.0 * step)
        np.testing.assert_allclose(_by_rule(rule, gradient, function, *operands), expected, rtol=1e-7, atol=1e-8)
    assert len(pullback.RULES[function]) == function.nin


@pytest.mark.parametrize("function", BOUNDS)
def test_a_bound_does_not_move(function):
    a, b, g = np.array([1.0, 2.0, 3.0]), np.array([2.0, 2.0, 2.0]), np.ones(3)
    first, second = (_by_rule(rule, g, function, a, b) for rule in pullback.RULES[function])
    np.testing.assert_array_equal(first, (function(a, b) == a) & (a != b))
    np.testing.assert_array_equal(second, (function(a, b) == b) & (a != b))


@pytest.mark.parametrize("settings", [None, {"mode": "FAST_COMPILE"}], ids=["NumPy", "PyTensor"])
def test_a_gradient_follows_new_data(settings):
    """What was computed for K at the same theta is not used again where the inputs have changed."""
    with pm.Model() as model:
        inputs = pm.Data("inputs", X)
        ls = pm.Gamma("ls", 2.0, 2.0)
        f = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(3, ls=ls)).prior("f", X=inputs, reparameterize=False)
        BernoulliLogit("y", f, observed=np.zeros(N))
    taken = take_apart(model, compile_kwargs=settings)
    theta, weight = np.zeros(1), np.ones((N, N), order="F")
    before = taken.covariance_pullback(theta, weight, np.zeros(N))
    with model:
        pm.set_data({"inputs": 2.0 * X})
    taken.refresh_data()
    after = taken.covariance_pullback(theta, weight, np.zeros(N))
    squared = 4.0 * np.square(X[:, None] - X).sum(axis=2)
    assert after[0] == pytest.approx((squared * np.exp(-0.5 * squared)).sum(), rel=1e-9)
    assert before[0] != pytest.approx(after[0], rel=1e-3)
