"""Parts of K, products with it and gradients of these are those of PyTensor's matrix, and take no matrix."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from pymc.gp import cov

from pmgp.interface.covariance import executor
from pmgp.interface.covariance.blocked import BlockedCovariance
from pmgp.interface.covariance.executor import OnDiagonal, Rectangle
from pmgp.interface.graphs.compilation import Compiler
from tests.test_covariance import ROUNDED_ROOT, kernels

N, K_VECTORS = 61, 3
RNG = np.random.default_rng(7)
X = RNG.normal(size=(N, 3))
KNOWN = np.cov(RNG.normal(size=(N, 2 * N)))
THETA = np.array([0.2, -0.3, 0.1, 0.4])
LEFT, RIGHT = RNG.normal(size=(2, N, K_VECTORS))
MEAN_BAR = RNG.normal(size=N)
RECTANGLES = [
    (slice(0, N), slice(0, N)),
    (slice(3, 40), slice(20, 29)),
    (slice(20, 29), slice(3, 40)),
    (slice(0, 5), slice(50, N)),
    (slice(7, 8), slice(7, 8)),
]


class Times(pm.gp.cov.Covariance):
    """A kernel times a matrix that is known as a whole."""

    def __init__(self, kernel, matrix):
        super().__init__(3)
        self.kernel, self.matrix = kernel, matrix

    def full(self, X, Xs=None):
        return self.kernel(X) * self.matrix


TABLE = kernels() | {
    "noise inside": lambda ls, s: (cov.ExpQuad(3, ls=ls) + cov.WhiteNoise(s)) * cov.Matern32(3, ls=ls[1]),
    "a whole leaf": lambda ls, s: Times(s * cov.ExpQuad(3, ls=ls), KNOWN),
    "Gibbs": lambda ls, s: cov.Gibbs(3, lengthscale_func=lambda x: ls[0] + s * x**2, active_dims=[1]),
    "scaled": lambda ls, s: cov.ScaledCov(3, scaling_func=lambda x: s + x[:, :1] ** 2, cov_func=cov.ExpQuad(3, ls=ls)),
    "two matrices of distances": lambda ls, s: (
        s * cov.ExpQuad(3, ls=ls[0], active_dims=[0]) * cov.Matern52(3, ls=ls[1], active_dims=[2])
    ),
}


@pytest.fixture(autouse=True)
def several_blocks(monkeypatch):
    monkeypatch.setattr(executor, "BLOCK_ELEMENTS", 400)
    monkeypatch.setattr(executor, "SMALLEST_BLOCK", 7)


def graphs(kernel, x=X):
    """Theta, and the mean and covariance there, with noise that moves with theta."""
    theta = pt.vector("theta", shape=(4,))
    K = kernel(pt.exp(theta[:3]), pt.exp(theta[3]))(x) + 0.01 * pt.exp(theta[0]) * pt.eye(len(x))
    return theta, pt.full((len(x),), theta[0]), K


def blocked(kernel, x=X, **options):
    theta, mean, K = graphs(kernel, x)
    return BlockedCovariance(mean, K, theta, Compiler(), **options)


def dense(kernel):
    """PyTensor's own matrix, and its gradient of sum <a, K b> + mean_bar' m."""
    theta, mean, K = graphs(kernel)
    inner = (pt.as_tensor(LEFT @ RIGHT.T) * K).sum() + (pt.as_tensor(MEAN_BAR) * mean).sum()
    outputs = [K, pt.grad(inner, theta)]
    return pytensor.function([theta], outputs, mode="FAST_COMPILE")(THETA)


def rounding(name):
    return ROUNDED_ROOT if name == "linear" else 1e-12


@pytest.mark.parametrize("keeping", [True, False])
@pytest.mark.parametrize("name", TABLE)
def test_every_verb(name, keeping):
    kernel = blocked(TABLE[name], keeping=keeping)
    K, gradient = dense(TABLE[name])
    parts, atol = kernel.parts(THETA), rounding(name) * np.abs(K).max()
    for rows, columns in RECTANGLES:
        assert_allclose(parts.rectangle(rows, columns), K[rows, columns], atol=atol)
    for where in (slice(0, N), slice(30, 33)):
        assert_allclose(parts.diagonal(where), K.diagonal()[where], atol=atol)
        assert_allclose(np.tril(parts.lower_triangle(where)), np.tril(K[where, where]), atol=atol)
    assert_allclose(np.tril(kernel(THETA)[1]), np.tril(K), atol=atol)
    assert_allclose(parts.product(RIGHT), K @ RIGHT, atol=atol * np.abs(RIGHT).sum(axis=0).max())
    whole = LEFT @ RIGHT.T
    found = kernel.pullback(THETA, np.asfortranarray((whole + whole.T) / 2.0), MEAN_BAR)
    assert_allclose(found, gradient, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", TABLE)
def test_some_rows_have_their_part_of_the_covariance_and_its_gradient(name):
    rows, kernel = RNG.permutation(N)[:23], blocked(TABLE[name], keeping=False)
    part, place = kernel.of_rows(rows), np.ix_(rows, rows)
    mean, K = kernel(THETA)
    K = np.tril(K) + np.tril(K, -1).T
    found_mean, found = part(THETA)
    assert_allclose(found_mean, mean[rows])
    assert_allclose(np.tril(found), np.tril(K[place]), atol=rounding(name) * np.abs(K).max())
    bar, mean_bar = np.zeros((N, N), order="F"), np.zeros(N)
    bar[place], mean_bar[rows] = (LEFT @ LEFT.T)[place], MEAN_BAR[rows]
    gradient = part.pullback(THETA, np.asfortranarray(bar[place]), mean_bar[rows])
    assert_allclose(gradient, kernel.pullback(THETA, bar, mean_bar), rtol=1e-7, atol=1e-8)


def test_noise_inside_is_an_instruction_before_the_last():
    kinds = [step.kind for step in blocked(TABLE["noise inside"])._code]
    assert "diagonal" in kinds[:-1]


@pytest.mark.parametrize("name", ["isotropic", "ard", "noise inside"])
def test_no_matrix_is_made_for_products(monkeypatch, name):
    """The peak of memory is some blocks and thin arrays, an eighth of K and less."""
    monkeypatch.undo()
    n = 3500
    x, right = RNG.normal(size=(n, 3)), RNG.normal(size=(n, K_VECTORS))
    kernel = blocked(TABLE[name], x, keeping=False)
    tracemalloc.start()
    try:
        parts = kernel.parts(THETA)
        parts.product(right), parts.diagonal(slice(0, n))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * n**2 / 8


def test_parts_of_inputs():
    """A number, a row, a column and a matrix, in a rectangle and on the diagonal."""
    matrix, rows, columns = np.arange(20.0).reshape(4, 5), slice(1, 3), slice(2, 5)
    place = Rectangle(rows, columns)
    for values in (matrix[:1, :1], matrix[:1], matrix[:, :1], matrix):
        expected = np.broadcast_to(values, (4, 5))[rows, columns]
        np.testing.assert_array_equal(np.broadcast_to(place.leaf(values), (2, 3)), expected)
    square, where = matrix[:, :4], OnDiagonal(slice(1, 3))
    for values in (square[:1, :1], square[:1], square[:, :1], square):
        expected = np.broadcast_to(values, (4, 4)).diagonal()[1:3]
        np.testing.assert_array_equal(np.broadcast_to(where.leaf(values), 2), expected)


@pytest.mark.parametrize(("rows", "columns"), RECTANGLES)
def test_a_vector_on_the_diagonal(rows, columns):
    """Added to a rectangle, in new memory, in other memory, and in place; and taken from there."""
    matrix, values = RNG.normal(size=(N, N))[rows, columns], RNG.normal(size=N)
    place, before = Rectangle(rows, columns), matrix.copy()
    expected = matrix + np.diag(values)[rows, columns]
    np.testing.assert_array_equal(place.diagonal(values, matrix), expected)
    np.testing.assert_array_equal(matrix, before)
    for out in (np.full(matrix.shape, np.nan), matrix):
        assert place.diagonal(values, matrix, out=out) is out
        np.testing.assert_array_equal(out, expected)
    where, elements = place.of_diagonal(np.diag(values)[rows, columns])
    np.testing.assert_array_equal(elements, values[where])
    assert len(elements) == len(set(range(*rows.indices(N))) & set(range(*columns.indices(N))))
