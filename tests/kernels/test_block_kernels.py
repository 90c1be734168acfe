"""The kernels of several latent vectors against their NumPy versions."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pmgp.core.likelihoods import softmax_moments
from pmgp.core.likelihoods.block_moments import normal_nodes
from pmgp.core.likelihoods.multinomial_logit import MultinomialLogit
from pmgp.core.numerics import block_shrinkage, linalg
from pmgp.core.numerics.block_shrinkage import ContrastShrinkage
from pmgp.core.numerics.compiled import contrasts, inversion, softmax
from pmgp.core.numerics.compiled.loading import kernels_switched

SIZES = (1, 2, 16, 17, 64, 100, 257)
# Scale of K, its jitter relative to that, and the largest element of D.
CONDITIONS = [(1.0, 1e-2, 1.0), (1e4, 1e-6, 1e2)]
by_condition = pytest.mark.parametrize("condition", CONDITIONS)


def covariance_of(n, condition, seed=0):
    """A process on inputs of which half are there twice."""
    scale, jitter, _ = condition
    x = np.random.default_rng(seed).normal(size=(n, 2))
    x[n // 2 :] = x[: n - n // 2]
    return scale * (np.exp(-0.5 * np.square(x[:, None] - x).sum(axis=-1)) + jitter * np.eye(n))


def scales(n, classes, condition, seed=1):
    return np.exp(np.random.default_rng(seed).uniform(np.log(1e-4), np.log(condition[2]), (classes, n)))


@pytest.mark.parametrize("n", SIZES)
def test_inverses_of_triangles(n):
    covariance = covariance_of(n, CONDITIONS[0])
    factor = np.linalg.cholesky(covariance)
    expected = np.linalg.inv(factor)
    for invert in (inversion.triangular_inverse, linalg._invert):
        found = np.ascontiguousarray(factor.T + np.tril(np.full((n, n), np.nan), -1))
        with np.errstate(all="ignore"):
            invert(found)
        assert_allclose(np.triu(found).T, expected, atol=1e-12 * np.abs(expected).max())
        assert np.isnan(found[np.tril_indices(n, -1)]).all()


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kernels", ["compiled", "numpy"])
def test_inverses_of_matrices(n, kernels):
    covariance = covariance_of(n, CONDITIONS[0])
    factor = np.asfortranarray(np.linalg.cholesky(covariance))
    with kernels_switched(kernels):
        found = linalg.inverse(factor)
    assert_allclose(np.tril(found), np.tril(np.linalg.inv(covariance)), atol=1e-11 * np.abs(found).max())
    assert_allclose(factor, np.linalg.cholesky(covariance), rtol=0.0, atol=0.0)


@pytest.mark.parametrize("n", SIZES)
@by_condition
def test_conditioning_with_one_class(n, condition):
    covariance, scale = covariance_of(n, condition), scales(n, 1, condition)[0]
    found = []
    for function in (contrasts.conditioned, block_shrinkage._conditioned):
        inverse, weighted, total = np.full((n, n), np.nan), np.zeros((n, n)), np.ones((n, n))
        found.append((function(covariance, scale, inverse, weighted, total), np.triu(inverse), weighted, total))
    one, other = found
    rounding = 1e-15 * np.linalg.cond(np.eye(n) + np.sqrt(scale)[:, None] * covariance * np.sqrt(scale))
    assert one[0] == pytest.approx(other[0], rel=1e-12, abs=1e-12)
    for mine, reference in zip(one[1:], other[1:], strict=True):
        assert_allclose(mine, reference, rtol=1e-12, atol=max(rounding, 1e-12) * np.abs(reference).max())
    assert not np.tril(one[2], -1).any()


@pytest.mark.parametrize("break_it", [lambda k: k - 100.0 * np.eye(len(k)), lambda k: np.nan * k, lambda k: np.inf * k])
def test_conditioning_on_what_is_no_covariance(break_it):
    covariance, scale = break_it(covariance_of(20, CONDITIONS[0])), np.ones(20)
    for function in (contrasts.conditioned, block_shrinkage._conditioned):
        with np.errstate(all="ignore"):
            assert not np.isfinite(function(covariance, scale, *np.zeros((3, 20, 20))))
    with np.errstate(all="ignore"):
        assert ContrastShrinkage.of([covariance], scale[None, :]) is None


@pytest.mark.parametrize(("n", "classes"), [(1, 3), (17, 2), (64, 3), (100, 6)])
@by_condition
def test_marginals_and_products(n, classes, condition):
    """By both kinds of kernels, and by a dense solution."""
    covariances = [(c + 1.0) * covariance_of(n, condition, seed=c) for c in range(classes)]
    scale, x = scales(n, classes, condition), np.random.default_rng(2).normal(size=(classes * n, 5))
    found = []
    for chosen in ("compiled", "numpy"):
        with kernels_switched(chosen):
            shrinkage = ContrastShrinkage.of([np.asfortranarray(np.tril(k)) for k in covariances], scale)
            assert shrinkage is not None
            vector = shrinkage.product(x[:, 0])
            found.append((shrinkage.marginals(), shrinkage.product(x), vector, shrinkage.log_determinant))
    dense, sites = np.zeros((classes * n, classes * n)), np.arange(n)
    precision = np.zeros_like(dense)
    for c, covariance in enumerate(covariances):
        dense[c * n : (c + 1) * n, c * n : (c + 1) * n] = covariance
        for d in range(classes):
            block = (c == d) * scale[c] - scale[c] * scale[d] / scale.sum(axis=0)
            precision[c * n + sites, d * n + sites] = block
    both = np.eye(classes * n) + dense @ precision
    shrunk = np.linalg.solve(both, dense)
    blocks = shrunk.reshape(classes, n, classes, n)[:, sites, :, sites]
    expected = blocks, shrunk @ x, shrunk @ x[:, 0], np.linalg.slogdet(both)[1]
    rounding = max(1e-15 * np.linalg.cond(both), 1e-11)
    for result in found:
        for mine, reference in zip(result, expected, strict=True):
            assert_allclose(mine, reference, rtol=rounding, atol=rounding * np.abs(reference).max())


@pytest.mark.parametrize("classes", [2, 3, 6])
@pytest.mark.parametrize("trials", [0, 1, 7])
@pytest.mark.parametrize("size", [1.0, 40.0])
def test_averages_over_nodes(classes, trials, size):
    """Of labels, of counts, and where nothing was observed; far out, too."""
    rng, n, d = np.random.default_rng(3), 21, classes - 1
    nodes, mass = normal_nodes(d)
    counts = rng.multinomial(trials, np.full(classes, 1.0 / classes), size=n).astype(float)
    known = counts, *(size * rng.normal(size=(n, k)) for k in (classes, classes * d)), rng.normal(size=(n, d))
    arguments = *known, rng.normal(size=(n, d * d)), nodes, np.log(mass)
    found = []
    for function in (softmax.averages, softmax_moments._averages):
        written = [np.empty(shape) for shape in (n, (n, d), (n, d * d), (n, classes**2))]
        function(*(np.ascontiguousarray(x) for x in arguments), *written)
        found.append(written)
    for mine, reference in zip(*found, strict=True):
        assert_allclose(mine, reference, rtol=1e-11, atol=1e-12 * np.abs(reference).max())


def test_nodes_without_weights_are_no_numbers():
    likelihood = MultinomialLogit(np.array([0, 1, 2]))
    mean = np.array([[0.0, 0.0], [np.nan, 0.0], [0.0, 0.0]])
    found = likelihood.tilted_moments(mean, np.tile(np.eye(2), (3, 1, 1)))
    assert_allclose(np.isfinite(found.log_normalizer), [True, False, True])
    assert_allclose(np.isfinite(found.mean).all(axis=1), [True, False, True])
