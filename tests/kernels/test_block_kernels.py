"""The kernels of several latent vectors against their NumPy versions."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pmgp.core.likelihoods import softmax_moments
from pmgp.core.likelihoods.block_moments import contrasts_of, log_ratio, normal_nodes
from pmgp.core.likelihoods.multinomial_logit import MultinomialLogit
from pmgp.core.numerics import linalg
from pmgp.core.numerics.block_matrices import ContrastBlocks
from pmgp.core.numerics.block_shrinkage import ContrastShrinkage
from pmgp.core.numerics.compiled import contrasts, inversion, softmax
from pmgp.core.numerics.quadrature import RESOLUTION
from tests.kernels.references import REFERENCES, by_numpy

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
    for invert in (inversion.triangular_inverse, REFERENCES["inversion.triangular_inverse"]):
        found = np.ascontiguousarray(factor.T + np.tril(np.full((n, n), np.nan), -1))
        with np.errstate(all="ignore"):
            invert(found)
        assert_allclose(np.triu(found).T, expected, atol=1e-12 * np.abs(expected).max())
        assert np.isnan(found[np.tril_indices(n, -1)]).all()


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kernels", [nullcontext, by_numpy])
def test_inverses_of_matrices(n, kernels):
    covariance = covariance_of(n, CONDITIONS[0])
    factor = np.asfortranarray(np.linalg.cholesky(covariance))
    with kernels():
        found = linalg.inverse(factor)
    assert_allclose(np.tril(found), np.tril(np.linalg.inv(covariance)), atol=1e-11 * np.abs(found).max())
    assert_allclose(factor, np.linalg.cholesky(covariance), rtol=0.0, atol=0.0)


@pytest.mark.parametrize("n", SIZES)
@by_condition
def test_conditioning_with_one_class(n, condition):
    covariance, scale = covariance_of(n, condition), scales(n, 1, condition)[0]
    found = []
    for function in (contrasts.conditioned, REFERENCES["contrasts.conditioned"]):
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
    for function in (contrasts.conditioned, REFERENCES["contrasts.conditioned"]):
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
    for chosen in (nullcontext, by_numpy):
        with chosen():
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


@pytest.mark.parametrize(("n", "classes"), [(1, 3), (17, 2), (100, 6)])
@pytest.mark.parametrize("draws", [1, 8])
def test_what_draws_consist_of(n, classes, draws):
    """By both kinds of kernels, and the definition: u + S (W^1/2 e - W u)."""
    rng = np.random.default_rng(4)
    covariances = [(c + 1.0) * covariance_of(n, CONDITIONS[0], seed=c) for c in range(classes)]
    matrix = ContrastBlocks(scales(n, classes, CONDITIONS[0]))
    u, e = rng.normal(size=(2, draws, classes * n))
    for chosen in (nullcontext, by_numpy):
        with chosen():
            shrinkage = matrix.shrinkage([np.asfortranarray(np.tril(k)) for k in covariances])
            expected = u + shrinkage.product((matrix.root_product(e) - matrix.product(u)).T).T
            assert_allclose(shrinkage.drawn(u, e), expected, rtol=1e-9, atol=1e-10)


def covariances_of(rng, n, d, smallest=0.2):
    roots = rng.normal(size=(n, d, d))
    return roots @ roots.swapaxes(1, 2) + smallest * np.eye(d)


def as_rows(*arrays):
    """Matrices of sites as rows."""
    return [np.ascontiguousarray(x.reshape(len(x), -1)) for x in arrays]


def tilted_arguments(classes, trials, size, seed=3, n=21):
    rng, d = np.random.default_rng(seed), classes - 1
    nodes, mass = normal_nodes(d)
    counts = rng.multinomial(trials, np.full(classes, 1.0 / classes), size=n).astype(float)
    mean, covariance = size * rng.normal(size=(n, d)), size * covariances_of(rng, n, d)
    near = mean + 0.3 * rng.normal(size=(n, d)), 0.7 * covariance
    return counts, contrasts_of(classes), *as_rows(mean, covariance, *near), nodes, log_ratio(nodes, mass)


def both(compiled, by_numpy, arguments, *shapes):
    """What a kernel and its NumPy version write, and what they return."""
    found = []
    for function in (compiled, by_numpy):
        written = [np.full(shape, np.nan) for shape in shapes]
        with np.errstate(all="ignore"):
            found.append((function(*arguments, *written), written))
    return found


def assert_agreement(found, rtol=1e-9):
    (one, mine), (other, references) = found
    assert one == pytest.approx(other, rel=rtol)
    for own, reference in zip(mine, references, strict=True):
        assert_allclose(own, reference, rtol=rtol, atol=1e-12 * np.nanmax(np.abs(reference), initial=1.0))


@pytest.mark.parametrize("classes", [2, 3, 6])
@pytest.mark.parametrize("trials", [0, 1, 7])
@pytest.mark.parametrize("size", [1.0, 40.0])
@pytest.mark.parametrize("curved", [True, False])
def test_tilted_moments(classes, trials, size, curved):
    """Moments agree for labels, counts and missing observations, also far out, where some are narrow for the nodes."""
    arguments, d, n = tilted_arguments(classes, trials, size), classes - 1, 21
    shapes = n, (n, d), (n, d * d), (n if curved else 0, classes**2)
    found = both(softmax.tilted, REFERENCES["softmax.tilted"], arguments, *shapes)
    assert found[0][0]
    assert_agreement(found)


def test_moments_narrower_than_the_nodes_are_as_wide_as_those():
    """So that the case is among those above."""
    arguments = tilted_arguments(3, 7, 40.0)
    shapes = 21, (21, 2), (21, 4), (0, 9)
    (_, (_, _, covariance, _)), _ = both(softmax.tilted, REFERENCES["softmax.tilted"], arguments, *shapes)
    widths = arguments[5].reshape(-1, 2, 2)
    relative = np.linalg.eigvals(np.linalg.solve(widths, covariance.reshape(-1, 2, 2))).real
    assert relative.min() == pytest.approx(softmax.RESOLUTION)
    assert softmax.RESOLUTION == RESOLUTION


@pytest.mark.parametrize("place", [3, 5])
def test_covariances_that_are_indefinite_have_no_moments(place):
    arguments = list(tilted_arguments(3, 1, 1.0))
    arguments[place] = arguments[place].copy()
    arguments[place][4, 0] = -1.0
    for outcome, _ in both(softmax.tilted, REFERENCES["softmax.tilted"], arguments, 21, (21, 2), (21, 4), (0, 9)):
        assert not outcome


@pytest.mark.parametrize("classes", [3, 6])
@pytest.mark.parametrize("trials", [0, 1, 7])
@pytest.mark.parametrize("size", [1.0, 40.0])
def test_modes_of_tilted_densities(classes, trials, size):
    counts, rows, mean, covariance, start, *_ = tilted_arguments(classes, trials, size)
    settings = softmax_moments.SELF_CONCORDANCE, softmax_moments.NEAR, softmax_moments.MAX_STEPS
    arguments = counts, rows, mean, covariance, start, *settings
    assert_agreement(both(softmax.modes, REFERENCES["softmax.modes"], arguments, mean.shape, covariance.shape))
    covariance[3] = -covariance[3]
    found = both(softmax.modes, REFERENCES["softmax.modes"], arguments, mean.shape, covariance.shape)
    assert [outcome for outcome, _ in found] == [False, False]


@pytest.mark.parametrize("classes", [2, 3, 6])
@pytest.mark.parametrize("trials", [0, 1, 7])
def test_log_ratios_to_sites(classes, trials):
    """Particles include one that is far out, and one that is NaN."""
    rng, n = np.random.default_rng(6), 700
    likelihood = MultinomialLogit(rng.multinomial(trials, np.full(classes, 1.0 / classes), size=n), classes)
    matrix, linear = ContrastBlocks(scales(n, classes, CONDITIONS[0])), rng.normal(size=classes * n)
    f = rng.normal(size=(4, classes * n))
    f[1], f[2, 5] = 400.0 * f[1], np.nan
    expected = likelihood.log_likelihood(f) - f @ linear + 0.5 * matrix.quadratic(f)
    found, scale = np.empty(4), matrix.scale
    softmax.log_ratios(likelihood.data, linear.reshape(scale.shape), scale, f, found)
    assert_allclose(found, expected, rtol=1e-11)
    part = likelihood.subset(slice(10, 20))
    assert_allclose(part.counts, likelihood.counts[:, 10:20])


def test_nodes_without_weights_are_no_numbers():
    likelihood = MultinomialLogit(np.array([0, 1, 2]))
    mean = np.array([[0.0, 0.0], [np.nan, 0.0], [0.0, 0.0]])
    found = likelihood.tilted_moments(mean, np.tile(np.eye(2), (3, 1, 1)))
    assert_allclose(np.isfinite(found.log_normalizer), [True, False, True])
    assert_allclose(np.isfinite(found.mean).all(axis=1), [True, False, True])
