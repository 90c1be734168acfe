"""Kernels that match sites over several latent values, against their NumPy versions."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pmgp.core.approximations import ExpectationPropagation, block_propagation
from pmgp.core.approximations.block_matching import block_cavities, matched_blocks
from pmgp.core.gaussians import BlockConditioning
from pmgp.core.numerics import block_matrices
from pmgp.core.numerics.block_matrices import ContrastBlocks, definite
from pmgp.core.numerics.compiled import cavities
from tests.blocks.problems import classification
from tests.kernels.references import REFERENCES, by_numpy

N = 25


def conditioned(classes, seed=0, overshoot=0.0):
    """q for sites anywhere; some of them are more precise than what q's marginal can have from them."""
    prior, likelihood = classification(N, classes, seed=seed)
    rng, form = np.random.default_rng(seed), BlockConditioning(prior)
    linear = (np.eye(classes) - 1.0 / classes) @ rng.normal(size=(classes, N))
    scale = np.exp(rng.normal(size=(classes, N)) - 2.0)
    assert form.on(linear.ravel(), ContrastBlocks(scale))
    q = form.approximation(-3.0, 0)
    scale = scale.copy()
    scale[:, 4] += overshoot
    return replace(q, precision=ContrastBlocks(scale)), likelihood


def by_both(function):
    found = []
    for chosen in (nullcontext, by_numpy):
        with chosen():
            found.append(function())
    return found


@pytest.mark.parametrize("classes", [2, 3, 6])
@pytest.mark.parametrize("overshoot", [0.0, 1e3])
def test_cavities(classes, overshoot):
    q, likelihood = conditioned(classes, overshoot=overshoot)
    one, other = by_both(lambda: block_cavities(q, likelihood.contrasts))
    for mine, reference in zip(one, other, strict=True):
        assert_allclose(mine, reference, rtol=1e-9, atol=1e-11)
    assert one.sound[4] == (overshoot == 0.0)
    assert np.delete(one.sound, 4).all()


def spoiled_mean(q):
    return replace(q, mean=np.where(np.arange(q.size) == 7, np.nan, q.mean))


def spoiled_marginals(change):
    def spoiled(q):
        marginals = q.marginals.copy()
        marginals[3] = change(marginals[3], np.diag(q.prior.variance.reshape(-1, N)[:, 3]))
        other = replace(q)
        other.__dict__["marginals"] = marginals
        return other

    return spoiled


@pytest.mark.parametrize(
    "spoil",
    [
        spoiled_mean,
        spoiled_marginals(lambda own, prior: 1.001 * prior),
        spoiled_marginals(lambda own, prior: np.nan * own),
        spoiled_marginals(lambda own, prior: own - 0.9999 * np.diag(own.diagonal())),
    ],
)
def test_what_is_no_smaller_normal_distribution_has_no_cavities(spoil):
    q, likelihood = conditioned(3)
    assert block_cavities(q, likelihood.contrasts) is not None
    assert by_both(lambda: block_cavities(spoil(q), likelihood.contrasts)) == [None, None]


@pytest.mark.parametrize("classes", [2, 3, 6])
@pytest.mark.parametrize("overshoot", [0.0, 1e3])
def test_sites_that_match(classes, overshoot):
    """Where a cavity is none, too."""
    q, likelihood = conditioned(classes, overshoot=overshoot)
    one, other = by_both(lambda: matched_blocks(q, likelihood, 0.6))
    assert_allclose(one.linear, other.linear, rtol=1e-8, atol=1e-9)
    assert_allclose(one.precision.scale, other.precision.scale, rtol=1e-6, atol=1e-9)
    assert one.log_evidence == pytest.approx(other.log_evidence, rel=1e-11)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_the_nearest_form(classes):
    """The kernel finds the form that is nearest to any symmetric blocks, as the NumPy version does."""
    rng = np.random.default_rng(5)
    blocks = rng.normal(size=(200, classes, classes))
    blocks = blocks + blocks.swapaxes(1, 2)
    n, d = len(blocks), classes - 1
    contrasts, nothing, ones = np.eye(classes)[:d], np.zeros((n, d)), np.ones(n)
    unit, none = np.tile(np.eye(d).ravel(), (n, 1)), np.zeros((n, d * d))
    scale, linear, matched = np.ones((classes, n)), np.empty((classes, n)), np.empty((classes, n))
    known = contrasts, nothing, none, none, nothing, ones, ones, ones, nothing, unit
    cavities.matched(*known, blocks.reshape(n, -1), scale, 1.0, linear, matched)
    assert_allclose(matched, ContrastBlocks.nearest(blocks).scale, rtol=1e-8, atol=1e-12)
    assert (cavities.SMALLEST, cavities.ROUNDING, cavities.PASSES) == (
        block_matrices.SMALLEST,
        block_matrices.ROUNDING,
        block_matrices.PASSES,
    )


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_divergences(classes):
    old, likelihood = conditioned(classes)
    form = BlockConditioning(old.prior)
    with by_numpy():
        matched = matched_blocks(old, likelihood)
        assert form.on(matched.linear, matched.precision)
    new = form.approximation(0.0, 1)
    one, other = by_both(lambda: block_propagation._divergence(old, new))
    assert other > 0.01
    assert one == pytest.approx(other, rel=1e-10)


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_what_other_sites_ask_for(classes):
    """And the divergence that follows from it, for sites that differ little."""
    old, likelihood = conditioned(classes)
    with by_numpy():
        matched = matched_blocks(old, likelihood)
    linear = old.linear + 1e-3 * (matched.linear - old.linear)
    near = matched._replace(linear=linear, precision=old.precision.towards(matched.precision, 1e-3))
    for sites in (matched, near):
        one, other = by_both(lambda sites=sites: block_propagation._required_change(old, sites))
        assert_allclose(one[0], other[0], rtol=1e-9, atol=1e-14)
        assert one[1] == pytest.approx(other[1], rel=1e-9)
    form, (asked, _) = BlockConditioning(old.prior), one
    assert form.on(near.linear, near.precision)
    covariance, change = old.shrinkage.product(np.eye(old.size)), np.zeros((old.size, old.size))
    for site, block in enumerate(near.precision.blocks - old.precision.blocks):
        change[site::N, site::N] = block
    expected = 0.5 * asked @ covariance @ asked + 0.25 * np.trace(covariance @ change @ covariance @ change)
    divergence = block_propagation._divergence(old, form.approximation(0.0, 1))
    assert divergence == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_fits(classes):
    prior, likelihood = classification(N, classes, seed=1)
    one, other = by_both(lambda: ExpectationPropagation().fit(prior, likelihood))
    assert one.iterations == other.iterations
    assert one.converged
    assert_allclose(one.mean, other.mean, rtol=1e-8, atol=1e-9)
    assert one.log_evidence == pytest.approx(other.log_evidence, rel=1e-10)


def test_cavities_without_a_kernel_are_those_of_the_numpy_version(monkeypatch):
    """So that the comparisons above are between two."""
    q, likelihood = conditioned(3)
    monkeypatch.setitem(REFERENCES, "cavities.cavities", lambda *known: False)
    assert [found is None for found in by_both(lambda: block_cavities(q, likelihood.contrasts))] == [False, True]


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_matrices_are_definite_in_any_units(unit):
    scale = np.outer([1.0, unit, 1.0 / unit], [1.0, unit, 1.0 / unit])
    correlated, impossible, negative = (np.full((3, 3), by) + (1.0 - by) * np.eye(3) for by in (0.9, -0.6, 2.0))
    assert definite(scale * np.array([correlated, impossible, negative])).tolist() == [True, False, False]
    assert definite(np.full((1, 2, 2), np.nan)).tolist() == [False]
