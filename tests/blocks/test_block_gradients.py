"""Gradients of the log-evidence of several latent vectors against central differences of whole fits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pmgp.core.approximations import ExpectationPropagation, Laplace, block_gradients
from pmgp.core.approximations.block_gradients import matched_block_gradient
from pmgp.core.gaussians import BlockPrior, DensePrior
from pmgp.core.likelihoods import MultinomialLogit
from pmgp.core.numerics.block_matrices import ContrastBlocks, DenseBlocks, flat, stacked
from pmgp.core.numerics.linalg import symmetrized
from tests.blocks.problems import classification, dense_matrix, dense_prior

METHODS = {
    "laplace": Laplace(tolerance=1e-22),
    "ep": ExpectationPropagation(tolerance=1e-13, max_sweeps=300, laplace=Laplace(tolerance=1e-20)),
}
every_method = pytest.mark.parametrize("method", METHODS)
N = 6


class DenseSites(MultinomialLogit):
    """The same likelihood without its structure: any precision of a site, and no derivative of the curvature."""

    site_form = DenseBlocks
    curvature_gradient: Any = property()

    def derivatives(self, f):
        gradient, curvature = super().derivatives(f)
        return gradient, DenseBlocks.from_curvature(curvature.blocks)


class Sharpened(MultinomialLogit):
    """With a parameter of its own, a slope."""

    def __init__(self, y, slope):
        super().__init__(y, 3)
        self.slope = slope

    def log_likelihood(self, f):
        return super().log_likelihood(self.slope * f)

    def gradient(self, f):
        return self.slope * super().gradient(self.slope * f)

    def derivatives(self, f):
        gradient, curvature = super().derivatives(self.slope * f)
        return self.slope * gradient, ContrastBlocks(self.slope**2 * curvature.scale)

    def curvature_gradient(self, f, weights):
        return self.slope**3 * super().curvature_gradient(self.slope * f, weights)

    def tilted_moments(self, mean, covariance, near=None):
        scaled = None if near is None else (self.slope * near[0], self.slope**2 * near[1])
        found = super().tilted_moments(self.slope * mean, self.slope**2 * covariance, scaled)
        return found._replace(mean=found.mean / self.slope, covariance=found.covariance / self.slope**2)


def moved(prior: BlockPrior, step: float, dm: np.ndarray, dK: np.ndarray) -> BlockPrior:
    means = prior.mean + step * dm
    parts = zip(np.split(means, len(prior.parts)), prior.covariances, dK, strict=True)
    return BlockPrior([DensePrior(m, np.asfortranarray(symmetrized(k) + step * change)) for m, k, change in parts])


def direction(prior: BlockPrior, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    number, n = len(prior.parts), prior.sites
    roots = rng.normal(size=(number, n, n))
    return rng.normal(size=prior.size), roots @ roots.swapaxes(1, 2) / n


def slopes(method: Any, prior: BlockPrior, likelihood: Any, seed: int = 1, count: int = 4) -> np.ndarray:
    """Return slopes of the log-evidence in some directions, from its gradient and from differences: (count, 2)."""
    rng, step, rows = np.random.default_rng(seed), 1e-4, []
    gradient = method.evidence_gradient(method.fit(prior, likelihood), likelihood)
    covariance = np.array([symmetrized(block) for block in gradient.covariance])
    for _ in range(count):
        dm, dK = direction(prior, rng)
        up, down = (method.fit(moved(prior, s * step, dm, dK), likelihood).log_evidence for s in (1.0, -1.0))
        rows.append([(covariance * dK).sum() + gradient.mean @ dm, (up - down) / (2.0 * step)])
    return np.array(rows)


@every_method
@pytest.mark.parametrize("classes", [2, 3])
def test_gradient_in_means_and_covariances(method, classes):
    prior, likelihood = classification(N, classes, seed=4, means=True)
    found, expected = slopes(METHODS[method], prior, likelihood).T
    assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@every_method
def test_gradient_with_sites_of_any_form(method):
    prior, likelihood = classification(N, 3, seed=4, means=True)
    dense = DenseSites(likelihood.counts.T)
    assert not hasattr(dense, "curvature_gradient")
    found, expected = slopes(METHODS[method], prior, dense).T
    assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_laplace_with_many_classes():
    prior, likelihood = classification(N, 5, seed=4, means=True)
    found, expected = slopes(METHODS["laplace"], prior, likelihood).T
    assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_structured_sites_of_many_classes_are_off_by_little():
    """Expected curvatures match the means and not the covariances; the evidence is nearly stationary in them."""
    prior, likelihood = classification(12, 5, seed=4, means=True)
    found, expected = slopes(METHODS["ep"], prior, likelihood, count=8).T
    assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()


@every_method
def test_gradient_in_a_parameter_of_the_likelihood(method):
    prior, likelihood = classification(N, 3, seed=4, means=True)
    y = likelihood.counts.argmax(axis=0)
    q = METHODS[method].fit(prior, Sharpened(y, 1.3))
    gradient = METHODS[method].evidence_gradient(q, Sharpened(y, 1.3))
    along = (gradient.along(Sharpened(y, 1.3001)) - gradient.along(Sharpened(y, 1.2999))) / 2e-4
    up, down = (METHODS[method].fit(prior, Sharpened(y, slope)).log_evidence for slope in (1.3001, 1.2999))
    assert along == pytest.approx((up - down) / 2e-4, rel=1e-4)


def test_laplace_without_the_motion_of_its_mode_is_rejected(monkeypatch):
    prior, likelihood = classification(N, 3, seed=4, means=True)
    monkeypatch.setattr(block_gradients, "curvature_gradient", lambda likelihood, f, marginals: np.zeros_like(f))
    found, expected = slopes(METHODS["laplace"], prior, likelihood).T
    assert np.abs(found - expected).max() > 1e-3


def test_a_fit_that_did_not_converge_has_laplaces_gradient():
    prior, likelihood = classification(N, 3, seed=4)
    method = ExpectationPropagation(tolerance=1e-12, max_sweeps=1)
    q = method.fit(prior, likelihood)
    assert not q.converged
    found, expected = (m.evidence_gradient(q, likelihood) for m in (method, method.laplace))
    assert_allclose(found.covariance, expected.covariance)


def test_a_q_without_marginals_has_no_gradient_in_the_likelihood(monkeypatch):
    prior, likelihood = classification(N, 3, seed=4)
    q = METHODS["ep"].fit(prior, likelihood)
    monkeypatch.setattr(block_gradients, "block_cavities", lambda q, contrasts: None)
    assert np.isnan(matched_block_gradient(q, likelihood).along(likelihood))


def test_gradients_in_the_prior_need_no_cavities(monkeypatch):
    """Most of the time for cavities goes into the marginals."""
    prior, likelihood = classification(N, 3, seed=4)
    q = METHODS["ep"].fit(prior, likelihood)
    expected, asked = matched_block_gradient(q, likelihood), []
    monkeypatch.setattr(block_gradients, "block_cavities", lambda *known: asked.append(known))
    found = matched_block_gradient(q, likelihood)
    assert_allclose(found.covariance, expected.covariance)
    assert not asked
    found.along(likelihood)
    found.along(likelihood)
    assert len(asked) == 1


@pytest.mark.parametrize("form", [ContrastBlocks, DenseBlocks])
def test_resistances_are_those_of_dense_algebra(form, rng):
    prior, _ = classification(N, 3, means=True)
    matrix = form.of(0.3 * rng.normal(size=form.of(np.zeros(_size(form)), N).parameters.size), N)
    W, K = dense_matrix(matrix.blocks), symmetrized(dense_prior(prior).covariance)
    dense = W - W @ np.linalg.solve(np.eye(len(K)) + K @ W, K) @ W
    found = matrix.shrinkage(prior.covariances).resistances()
    for c, block in enumerate(found):
        rows = slice(c * N, (c + 1) * N)
        assert_allclose(block, dense[rows, rows], atol=1e-9)


def _size(form: Any) -> int:
    return 3 * N if form is ContrastBlocks else 6 * N


class Stretched:
    """Curvatures that grow with f, which is measured in units of its own."""

    def __init__(self, units: np.ndarray) -> None:
        self.units = units

    def derivatives(self, f):
        g = stacked(f, f.size // 2) / self.units[:, None]
        blocks = np.exp(g.sum(axis=0))[:, None, None] * np.array([[2.0, 0.5], [0.5, 1.0]])
        return f, DenseBlocks(blocks / np.outer(self.units, self.units))


@pytest.mark.parametrize("units", [(1.0, 1.0), (1e7, 1e-7)])
def test_curvatures_are_differentiated_in_deviations_of_q(units):
    units, g = np.array(units), np.random.default_rng(1).normal(size=(2, 4))
    marginals = np.tile(np.outer(units, units) * np.array([[0.3, 0.1], [0.1, 0.2]]), (4, 1, 1))
    found = block_gradients.curvature_gradient(Stretched(units), flat(units[:, None] * g), marginals)
    expected = np.exp(g.sum(axis=0)) * (0.3 * 2.0 + 2.0 * 0.1 * 0.5 + 0.2)
    assert_allclose(stacked(found, 4) * units[:, None], [expected, expected], rtol=1e-6)
