"""Tiles from a covariance function itself, against PyTensor's K: also kernels whose graph has a matrix of n by n."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist

import pmgp
from pmgp.core.iterative.bars import CovarianceBar
from pmgp.interface.iterative_evidence import IterativeDensity
from pmgp.marginal import JaxTiles

jax = pytest.importorskip("jax")
from pmgp.core.tiles import memory  # noqa: E402
from pmgp.interface.tiles.from_function import Nugget  # noqa: E402
from tests.quick_compilation import quick_compilation  # noqa: E402, F401

N = 50
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, 2))
Y = RNG.normal(size=N)
LEFT, RIGHT = RNG.normal(size=(2, N, 3))
POINTS = RNG.permutation(N)[:5]
WEIGHTS = RNG.normal(size=(N, 5))
THETA = np.array([0.2, -0.1, -0.7])


class Laplacian(pm.gp.cov.Covariance):
    """A user's own kernel, with all differences of inputs in an array of three axes."""

    def __init__(self, lengthscale):
        super().__init__(2)
        self.lengthscale = lengthscale

    def full(self, X, Xs=None):
        other = X if Xs is None else Xs
        return pt.exp(-pt.abs(X[:, None] - other[None]).sum(axis=2) / self.lengthscale)

    def diag(self, X):
        return pt.ones(X.shape[0])


KERNELS = {
    "periodic": lambda ls, s: pm.gp.cov.Periodic(2, period=ls[0], ls=ls[1]),
    "user's own": lambda ls, s: Laplacian(ls[0]),
    "white noise": lambda ls, s: pm.gp.cov.Matern32(2, ls=ls) + pm.gp.cov.WhiteNoise(s),
    "white noise inside": lambda ls, s: (
        (pm.gp.cov.ExpQuad(2, ls=ls) + pm.gp.cov.WhiteNoise(s)) * pm.gp.cov.Matern52(2, ls=2.0)
    ),
}


@pytest.fixture(autouse=True)
def several_blocks(monkeypatch):
    monkeypatch.setattr(memory, "LARGEST", {"cpu": 16})
    monkeypatch.setattr(memory, "SMALLEST", 8)


def density(make, data=True, other=None, shown=None, shift=0.0, **settings):
    with pm.Model() as model:
        inputs = pm.Data("X", X + shift) if data else X
        lengthscales, noise = pm.LogNormal("lengthscales", 0.0, 1.0, shape=2), pm.LogNormal("noise", -1.0, 1.0)
        kernel = make(lengthscales, 0.5 * noise)
        pm.gp.Marginal(cov_func=kernel).marginal_likelihood("y", inputs, Y, sigma=noise)
        given = kernel if other is None else other(lengthscales, noise)
    tiles = JaxTiles(cov_func=given, X=inputs if shown is None else shown, **{"precision": "float64", **settings})
    return model, IterativeDensity(model, rank=5, backend=tiles)


def dense(model, theta):
    """PyTensor's covariance of y, and the gradient in theta of <left right' + weights in some columns, K>."""
    [y] = model.observed_RVs
    [K] = model.replace_rvs_by_values([y.owner.op.dist_params(y.owner)[1]])
    [K], vector = theta.write([K])
    inner = (pt.as_tensor(LEFT @ RIGHT.T) * K).sum() + (pt.as_tensor(WEIGHTS) * K[:, POINTS]).sum()
    return pytensor.function([vector], [K, pt.grad(inner, vector)], mode="FAST_COMPILE")(THETA)


@pytest.mark.parametrize("name", KERNELS)
def test_parts_and_gradients(name):
    model, found = density(KERNELS[name], data=name != "periodic")
    K, gradient = dense(model, found.theta)
    moments = found._covariance.moments(THETA)
    total, atol = moments.total, 1e-12 * np.abs(K).max()
    assert_allclose(total.product(LEFT), K @ LEFT, atol=atol * np.abs(LEFT).sum(axis=0).max())
    assert_allclose(total.columns(POINTS), K[:, POINTS], atol=atol)
    assert_allclose(total.block(slice(5, 30)), K[5:30, 5:30], atol=atol)
    assert_allclose(total.diagonal(), K.diagonal(), atol=atol)
    bar = CovarianceBar(LEFT, RIGHT, POINTS, WEIGHTS, np.zeros(N))
    pulled = found._covariance.pullback_of_bar(THETA, bar._replace(noise=bar.diagonal), np.zeros(N))
    assert_allclose(pulled, gradient, rtol=1e-7, atol=1e-8)


def test_inputs_far_from_zero_are_centered():
    """Else squared distances lose what the inputs have in common, and the function seems to be another one."""
    _, found = density(lambda lengthscales, s: pm.gp.cov.Exponential(2, ls=lengthscales), shift=1e4)
    near = X[:9] / np.exp(THETA[:2])
    kernel = found._covariance.moments(THETA).kernel
    # PyMC adds 1e-12 to squared distances.
    distances = np.sqrt(cdist(near, near, "sqeuclidean") + 1e-12)
    assert_allclose(kernel.block(slice(0, 9)), np.exp(-0.5 * distances), atol=1e-9)


def test_there_is_no_density_of_some_observations():
    with pytest.raises(pmgp.ModelError, match="have no density of some observations: leave cov_func out"):
        density(KERNELS["periodic"])[1].of_rows(np.arange(3))


def test_products_in_single_precision():
    _, found = density(KERNELS["periodic"], precision="float32")
    moments = found._covariance.moments(THETA)
    quick = found._covariance.quick_kernel(moments).product(LEFT)
    error = np.abs(quick - moments.kernel.product(LEFT)).max()
    scale = np.abs(LEFT).sum(axis=0).max()
    assert 1e-12 * scale < error < 1e-5 * scale


def test_a_nugget_that_is_forgotten_is_refused(monkeypatch):
    """PyMC's covariance between two sets of inputs has no white noise."""
    monkeypatch.setattr(Nugget, "__call__", lambda self, theta, X: np.zeros(len(X)))
    with pytest.raises(pmgp.ModelError, match="elements differ by up to"):
        density(KERNELS["white noise inside"])


def test_another_function_than_the_models_is_refused():
    with pytest.raises(pmgp.ModelError, match="cov_func and X do not give the model's covariance"):
        density(KERNELS["periodic"], other=KERNELS["user's own"])


def test_other_inputs_than_the_models_are_refused():
    with pytest.raises(pmgp.ModelError, match=f"X has {N - 1} rows, and the model's covariance {N}"):
        density(KERNELS["periodic"], shown=X[1:])
    with pytest.raises(ValueError, match=r"X must be a table \(n, d\).*, not of 1 dimensions"):
        density(KERNELS["periodic"], shown=X[:, 0])


@pytest.mark.parametrize("given", [{"X": X}, {"cov_func": Laplacian(1.0)}])
def test_a_function_and_its_inputs_go_together(given):
    with pytest.raises(ValueError, match="cov_func and X go together"):
        JaxTiles(**given)


SCRIPT = """
import jax
from pmgp.interface.tiles.jax_functions import jax_function
import pytensor.tensor as pt
x = pt.vector("x")
for clears in (False, True):
    if clears:
        jax.config.update("jax_enable_x64", False)
    function = jax_function([x], [x / 3.0])
    with jax.enable_x64(True):
        print(function(jax.numpy.ones(2))[0].dtype)
    print(jax.numpy.ones(2).dtype)
"""


def test_functions_are_in_double_precision_and_so_is_pymc_after_them_unless_the_user_clears_the_flag():
    """Where the flag was restored, PyMC's samplers by JAX ran in single precision afterwards, without a word."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["float64", "float64", "float64", "float32"]
