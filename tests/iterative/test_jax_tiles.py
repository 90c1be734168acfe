"""Tiles that JAX computes, against PyTensor's K and NumPy's tiles: products, gradients, precision and memory."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from scipy import special

import pmgp
from pmgp.core.numerics.ledger import counted
from pmgp.interface.backends import backend_of
from pmgp.interface.covariance import tiled
from pmgp.interface.covariance.program import Instruction
from pmgp.interface.graphs.compilation import Compiler
from pmgp.interface.graphs.numpy_operations import UnsupportedGraphError
from pmgp.marginal import JaxTiles
from tests.iterative.test_tiled import BAR, dense
from tests.test_covariance_parts import MEAN_BAR, TABLE, THETA, N, X, graphs

jax = pytest.importorskip("jax")
from pmgp.core.tiles import blocks, memory, products  # noqa: E402
from pmgp.interface.tiles.from_graph import JaxTiledCovariance, ProgramTile  # noqa: E402
from pmgp.interface.tiles.settings import Settings  # noqa: E402
from tests.quick_compilation import quick_compilation  # noqa: E402, F401


@pytest.fixture(autouse=True)
def several_blocks(monkeypatch):
    """Sixty-one rows in blocks of sixteen, the last of which is not full."""
    monkeypatch.setattr(memory, "LARGEST", {})
    monkeypatch.setattr(memory, "LARGEST_ELSEWHERE", 16)
    monkeypatch.setattr(memory, "SMALLEST", 8)


def in_tiles(kernel, x=X, given=1e9, precision="float64"):
    theta, mean, K = graphs(kernel, x)
    return JaxTiledCovariance(mean, K, theta, Compiler(), Settings(given, precision, None))


@pytest.mark.parametrize("name", ["matern", "noise inside", "a whole leaf", "scaled"])
def test_products_and_gradients(name):
    covariance, (K, noise, gradient) = in_tiles(TABLE[name]), dense(name)
    moments = covariance.moments(THETA)
    scale = np.abs(K).max() * np.abs(BAR.left).sum(axis=0).max()
    assert_allclose(moments.kernel.product(BAR.left), K @ BAR.left, atol=1e-12 * scale)
    assert_allclose(moments.noise, noise, rtol=1e-12)
    assert_allclose(covariance.pullback_of_bar(THETA, BAR, MEAN_BAR), gradient, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", ["matern"])
def test_products_in_single_precision(name):
    covariance, (K, _, _) = in_tiles(TABLE[name], precision="float32"), dense(name)
    found = covariance.quick_kernel(covariance.moments(THETA)).product(BAR.left)
    error = np.abs(found - K @ BAR.left).max()
    scale = np.abs(K).max() * np.abs(BAR.left).sum(axis=0).max()
    assert 1e-12 * scale < error < 1e-5 * scale


def test_no_product_in_single_precision_is_rounded_to_fewer_digits():
    """Without being told, an H100 rounds to ten bits: products of K were wrong by 6e-5, and evidences by .002."""
    covariance = in_tiles(TABLE["ard"])
    inputs, vectors = covariance._inputs_at(THETA), np.zeros((N, 2))
    with jax.enable_x64(True):
        lowered = products.Tiles.product.lower(products.Tiles(covariance._products._tile, N, 16), inputs, vectors, True)
    found = [line for line in lowered.as_text().splitlines() if "dot_general" in line]
    assert len(found) >= 3
    assert all("HIGHEST, HIGHEST" in line for line in found)


def test_a_diagonal_that_is_counted_twice_is_noticed(monkeypatch):
    def twice(number, devices):
        i, j, own, _ = blocks.pairs(number, devices)
        return i, j, own, own

    monkeypatch.setattr(products, "pairs", twice)
    covariance, (K, _, _) = in_tiles(TABLE["ard"]), dense("ard")
    found = covariance.moments(THETA).kernel.product(BAR.left)
    assert np.abs(found - K @ BAR.left).max() > 0.1


def test_gradients_without_the_mirror_images_are_noticed(monkeypatch):
    def once(number, devices):
        i, j, own, mirrored = blocks.pairs(number, devices)
        return i, j, own, 0.0 * mirrored

    monkeypatch.setattr(products, "pairs", once)
    _, _, gradient = dense("ard")
    assert np.abs(in_tiles(TABLE["ard"]).pullback_of_bar(THETA, BAR, MEAN_BAR) - gradient).max() > 0.1


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_products_are_counted(backend):
    moments = in_tiles(TABLE["ard"]).moments(THETA)
    if backend == "numpy":
        theta, mean, K = graphs(TABLE["ard"])
        moments = tiled.TiledCovariance(mean, K, theta, Compiler()).moments(THETA)
    with counted() as counts:
        moments.kernel.product(BAR.left)
    assert counts.total.matvec == BAR.left.shape[1]


def test_a_function_that_jax_lacks_is_named():
    with pytest.raises(UnsupportedGraphError, match="no equivalent of binom in JAX"):
        ProgramTile([Instruction("call", special.binom, (0, 0))])


def test_a_whole_matrix_is_refused_for_many_points(monkeypatch):
    monkeypatch.setattr(tiled, "LARGEST_WHOLE", N - 1)
    with pytest.raises(UnsupportedGraphError, match=r"JaxTiles\(cov_func=..., X=...\)"):
        in_tiles(TABLE["a whole leaf"]).moments(THETA)


def test_less_memory_makes_smaller_tiles_until_there_are_none():
    covariance = in_tiles(TABLE["ard"], given=1e9)
    inputs = covariance._inputs_at(THETA)
    tile = covariance._products._tile
    with jax.enable_x64(True):
        most = memory.within(tile, N, None, inputs, 4, False, 1e9)
        less = memory.within(tile, N, None, inputs, 4, False, most.memory - 1)
    assert less.memory < most.memory
    assert (most.tiles.side, less.tiles.side) == (16, 8)
    with pytest.raises(MemoryError, match=r"a product of K with 4 vectors of 61 points takes .* MB .* allow more"):
        in_tiles(TABLE["ard"], given=1000.0).moments(THETA).kernel.product(BAR.left)


def resident(field):
    """A figure of this process in bytes; the peak begins anew where 5 is written to clear_refs (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith(field)))


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks of memory are read from Linux")
def test_a_product_takes_no_more_memory_than_is_given(monkeypatch):
    """K has 288 MB; 12 are given, and the allocator may round up."""
    monkeypatch.undo()
    n, given = 6000, 12e6
    x = np.random.default_rng(0).normal(size=(n, 3))
    kernel = in_tiles(TABLE["ard"], x, given=given).moments(THETA).kernel
    vectors = x[:, :2]
    kernel.product(vectors)
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    kernel.product(vectors)
    assert resident("VmHWM") - before < 1.5 * given


def test_the_rule_takes_single_precision_where_it_changes_little():
    near, far = X, X + 300.0
    for x, expected in ((near, "float32"), (far, "float64")):
        covariance = in_tiles(TABLE["ard"], x, precision="auto")
        moments = covariance.moments(THETA)
        moments = moments._replace(noise=np.full(N, 0.1))
        kernel = covariance.quick_kernel(moments)
        assert covariance.computed.startswith(f"by JAX, in {expected}: float32 changes elements of K by up to")
        exact = moments.kernel.product(BAR.left)
        assert (np.array_equal(kernel.product(BAR.left), exact)) == (expected == "float64")


def test_single_precision_would_be_wrong_where_the_rule_refuses_it():
    covariance = in_tiles(TABLE["ard"], X + 300.0, precision="float32")
    moments = covariance.moments(THETA)
    wrong = covariance.quick_kernel(moments).product(BAR.left) - moments.kernel.product(BAR.left)
    assert np.abs(wrong).max() > 0.01


RNG = np.random.default_rng(0)
DATA = RNG.standard_normal((80, 2))
SEEN = np.sin(DATA[:, 0]) + 0.2 * RNG.standard_normal(80)


def regression():
    with pm.Model() as model:
        lengthscale = pm.LogNormal("lengthscale", 0.0, 1.0, shape=2)
        gp = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(2, ls=lengthscale))
        gp.marginal_likelihood("y", DATA, SEEN, sigma=pm.LogNormal("noise", -1.0, 1.0))
    return model


def estimates(model, backend, **options):
    return pmgp.marginal.iterative_log_likelihood(model, backend=backend, random_seed=1, rank=10, **options)


def test_evidences_are_those_of_numpy():
    model = regression()
    expected = estimates(model, "numpy")
    exact, quick = estimates(model, JaxTiles(precision="float64")), estimates(model, "jax")
    assert_allclose(exact.value, expected.value, rtol=1e-10)
    assert_allclose(exact.gradient["lengthscale_log__"], expected.gradient["lengthscale_log__"], rtol=1e-8)
    assert_allclose(quick.value, expected.value, atol=1e-3)
    assert quick.value != expected.value
    assert quick.computed.startswith("in tiles, by JAX, in float32: ")
    assert expected.computed == "in tiles, by NumPy, with K in float64, kept"


def test_laplaces_evidences_are_those_of_numpy():
    model = pmgp.models.classifier(DATA, SEEN > 0.0)
    expected, found = estimates(model, "numpy"), estimates(model, "jax")
    assert_allclose(found.value, expected.value, rtol=1e-8)
    for name, gradient in expected.gradient.items():
        assert_allclose(found.gradient[name], gradient, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"precision": "float16"}, "precision='float16': choose one of auto, float32, float64"),
        ({"memory": 0.0}, "memory=0.0: give a positive number of bytes"),
    ],
)
def test_settings_out_of_range_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        JaxTiles(**settings)


def test_unknown_backends_and_devices_are_refused():
    with pytest.raises(ValueError, match="unknown backend 'torch'; known are jax, numpy"):
        backend_of("torch")
    for devices in ("some", []):
        with pytest.raises(ValueError, match='give "all", or a list of devices'):
            JaxTiles(devices=devices).covariance(None, None, pt.vector(), pt.matrix())


def test_without_jax_its_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ImportError, match=r"pip install 'pmgp\[jax\]'"):
        JaxTiles().covariance(None, None, pt.vector(), pt.matrix())
