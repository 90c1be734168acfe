"""K without its matrix, from a model's graph: parts, noise, and gradients by few vectors, against PyTensor's."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pmgp.core.iterative.bars import CovarianceBar
from pmgp.core.iterative.gaussian import IterativeEvidence
from pmgp.core.iterative.preconditioners.random_pivots import random_points
from pmgp.interface.covariance import executor, kept, tiled
from pmgp.interface.covariance.tiled import TiledCovariance
from pmgp.interface.graphs.compilation import Compiler
from pmgp.interface.graphs.numpy_operations import UnsupportedGraphError
from tests.test_covariance_parts import MEAN_BAR, TABLE, THETA, N, X, graphs

RNG = np.random.default_rng(1)
POINTS = RNG.permutation(N)[:7]
WEIGHTS = RNG.normal(size=(N, 7))
BAR = CovarianceBar(RNG.normal(size=(N, 3)), RNG.normal(size=(N, 3)), POINTS, WEIGHTS, RNG.normal(size=N))
NAMES = ["isotropic", "ard", "noise inside", "matern", "a whole leaf", "scaled"]


@pytest.fixture(autouse=True)
def several_blocks(monkeypatch):
    monkeypatch.setattr(executor, "BLOCK_ELEMENTS", 400)


def tiled_covariance(name, x=X, memory=0.0):
    theta, mean, K = graphs(TABLE[name], x)
    return TiledCovariance(mean, K, theta, Compiler(), memory)


def dense(name):
    """PyTensor's K and noise, and the gradient of what the bar contracts these to."""
    theta, mean, total = graphs(TABLE[name])
    noise = 0.01 * pt.exp(theta[0]) * pt.ones(N)
    K = total - pt.diag(noise)
    inner = (pt.as_tensor(BAR.left @ BAR.right.T) * K).sum() + (pt.as_tensor(BAR.weights) * K[:, POINTS]).sum()
    inner += (pt.as_tensor(BAR.noise) * noise).sum() + (pt.as_tensor(MEAN_BAR) * mean).sum()
    return pytensor.function([theta], [K, noise, pt.grad(inner, theta)], mode="FAST_COMPILE")(THETA)


@pytest.mark.parametrize("name", NAMES)
def test_parts_noise_and_gradients(name):
    covariance, (K, noise, gradient) = tiled_covariance(name), dense(name)
    moments = covariance.moments(THETA)
    kernel = moments.kernel
    assert kernel.size == N
    assert_allclose(moments.noise, noise, rtol=1e-12)
    assert_allclose(kernel.product(BAR.left), K @ BAR.left, atol=1e-11)
    assert_allclose(kernel.columns(POINTS), K[:, POINTS], atol=1e-12)
    assert_allclose(kernel.block(slice(5, 30)), K[5:30, 5:30], atol=1e-12)
    assert_allclose(kernel.diagonal(), K.diagonal(), atol=1e-12)
    assert_allclose(covariance.pullback_of_bar(THETA, BAR, MEAN_BAR), gradient, rtol=1e-7, atol=1e-8)


@pytest.fixture
def bands(monkeypatch):
    """Several bands of rows, the last of which is narrower."""
    monkeypatch.setattr(kept, "HEIGHT", 16)
    monkeypatch.setattr(kept, "WIDTH", 7)


@pytest.mark.parametrize("name", ["ard", "noise inside", "a whole leaf"])
def test_products_with_elements_that_are_kept(name, bands, monkeypatch):
    moments = tiled_covariance(name, memory=kept.bytes_of(N)).moments(THETA)
    K, quick = moments.kernel.block(slice(0, N)), moments.kernel.quick(moments.noise)
    assert_allclose(moments.kernel.product(BAR.left), K @ BAR.left, atol=1e-12)
    monkeypatch.setattr(executor.MomentParts, "tile", None)
    assert_allclose(quick.product(BAR.right), K @ BAR.right, atol=1e-12)


def test_single_precision_where_memory_suffices_for_nothing_else(bands):
    covariance = tiled_covariance("ard", memory=kept.bytes_of(N) - 1)
    moments = covariance.moments(THETA)
    exact, quick = moments.kernel.product(BAR.left), covariance.quick_kernel(moments)
    assert covariance.computed == "by NumPy, with K in float32, kept"
    assert 1e-9 < np.abs(quick.product(BAR.left) - exact).max() < 1e-5
    little_noise = moments._replace(noise=1e-7 * moments.noise)
    assert_array_equal(covariance.quick_kernel(little_noise).product(BAR.left), exact)
    assert covariance.computed == "by NumPy, with K in float64, computed again for each product"


def test_single_precision_beside_double_where_memory_suffices_for_both(bands, monkeypatch):
    """Elements in single precision are those in double precision, rounded."""
    monkeypatch.setattr(kept, "FEWEST", N)
    covariance = tiled_covariance("ard", memory=kept.bytes_of(N) + kept.bytes_of(N, np.float32))
    moments = covariance.moments(THETA)
    exact, quick = moments.kernel.product(BAR.left), covariance.quick_kernel(moments)
    monkeypatch.setattr(executor.MomentParts, "tile", None)
    assert 1e-9 < np.abs(quick.product(BAR.left) - exact).max() < 1e-5
    assert_array_equal(moments.kernel.product(BAR.left), exact)
    monkeypatch.setattr(kept, "FEWEST", N + 1)
    assert_array_equal(covariance.quick_kernel(moments).product(BAR.left), exact)


def test_elements_take_the_memory_that_is_said(monkeypatch):
    """That of float64, and little more while they are computed."""
    monkeypatch.undo()
    n = 2000
    moments = tiled_covariance("ard", RNG.normal(size=(n, 3)), kept.bytes_of(n)).moments(THETA)
    vector = np.ones((n, 1))
    tracemalloc.start()
    try:
        moments.kernel.product(vector)
        now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 4 * n**2 < kept.bytes_of(n) < now < peak < 1.1 * kept.bytes_of(n) < 5 * n**2


def test_noise_and_jitter_are_set_apart_together():
    """As `pm.gp.Marginal` adds them; the covariance that is filled has both."""
    theta = pt.vector("theta", shape=(2,))
    kernel = pm.gp.cov.ExpQuad(3, ls=pt.exp(theta[0]))
    K = kernel(X) + pm.gp.cov.WhiteNoise(pt.exp(theta[1]))(X) + 1e-3 * pt.eye(N)
    covariance = TiledCovariance(pt.zeros(N), K, theta, Compiler())
    at = np.array([0.1, -1.0])
    moments = covariance.moments(at)
    assert_allclose(moments.noise, np.exp(-2.0) + 1e-3)
    assert_allclose(moments.kernel.diagonal(), 1.0)
    assert_allclose(covariance(at)[1].diagonal(), 1.0 + np.exp(-2.0) + 1e-3)


def test_a_whole_matrix_is_refused_for_many_points(monkeypatch):
    monkeypatch.setattr(tiled, "LARGEST_WHOLE", N - 1)
    with pytest.raises(UnsupportedGraphError, match=r"an n by n matrix .* more than 60 points"):
        tiled_covariance("a whole leaf").moments(THETA)


def test_a_kernel_without_known_derivatives_is_refused():
    """A periodic kernel's distances have three axes, and move with theta as a whole matrix."""
    theta = pt.vector("theta", shape=(1,))
    K = pm.gp.cov.Periodic(3, period=pt.exp(theta[0]), ls=1.0)(X)
    with pytest.raises(UnsupportedGraphError, match="the derivative of the covariance cannot be computed"):
        TiledCovariance(pt.zeros(N), K, theta, Compiler())


def test_an_evidence_with_its_gradient_takes_no_matrix(monkeypatch):
    """The peak of memory is blocks and thin arrays: a fourth of K and less."""
    monkeypatch.undo()
    n = 3000
    x = RNG.normal(size=(n, 3))
    covariance = tiled_covariance("ard", x)
    covariance.moments(THETA)
    tracemalloc.start()
    try:
        moments = covariance.moments(THETA)
        points = random_points(moments.kernel, 40, np.random.default_rng(0))
        found = IterativeEvidence(tolerance=1.0, probes=2).estimate(
            np.random.default_rng(1), moments.kernel, moments.noise + 1.0, x[:, 0], points
        )
        covariance.pullback_of_bar(THETA, found.covariance, found.mean)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * n**2 / 4
