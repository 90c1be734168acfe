"""Elliptical slice sampling leaves p(f|theta, y) invariant, whichever Gaussian gives the ellipses."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_ndtr

from pmgp.approximations import Laplace
from pmgp.latent import DensePrior, SiteApproximation
from pmgp.latent.sites import condition_on_sites
from pmgp.likelihoods import BernoulliProbit
from pmgp.operators import EllipticalSlice, elliptical_slice
from tests.truths import standard_errors_from

COVARIANCE = np.array([[4.0, 2.5], [2.5, 3.0]], order="F")
LIKELIHOOD = BernoulliProbit(np.array([1, 1]))
MEAN = np.array([-1.0, 0.5])


def reference(kind: str) -> SiteApproximation:
    prior = DensePrior(MEAN, COVARIANCE.copy(order="F"))
    if kind == "laplace":
        return Laplace().fit(prior, LIKELIHOOD)
    # Sites that say almost nothing: the ellipses come from the prior.
    precision, linear = np.full(2, 1e-8), np.zeros(2)
    mean, factor = condition_on_sites(prior, linear, precision)
    return SiteApproximation(prior, linear, precision, mean, factor, 0.0, 0)


def posterior_moments() -> np.ndarray:
    """E[f1], E[f2], E[f1^2], E[f1 f2], E[f1^3] on a fine grid; the posterior is skewed."""
    grid = np.linspace(-14.0, 14.0, 1401)
    f1, f2 = np.meshgrid(grid, grid, indexing="ij")
    deviation = np.stack([f1 - MEAN[0], f2 - MEAN[1]])
    precision = np.linalg.inv(COVARIANCE)
    log_density = -0.5 * np.einsum("iab,ij,jab->ab", deviation, precision, deviation) + log_ndtr(f1) + log_ndtr(f2)
    density = np.exp(log_density - log_density.max())
    density /= density.sum()
    return np.array([(density * g).sum() for g in (f1, f2, f1**2, f1 * f2, f1**3)])


def largest_error(kind: str, steps: int = 60_000) -> float:
    """Largest distance of a moment from the truth, in standard errors of 150 batch means."""
    approximation, rng = reference(kind), np.random.default_rng(5)
    operator, f = EllipticalSlice(), np.zeros(2)
    path = np.empty((steps, 2))
    for index in range(steps):
        f, _ = operator.step(rng, f, approximation, LIKELIHOOD)
        path[index] = f
    moments = np.stack([path[:, 0], path[:, 1], path[:, 0] ** 2, path.prod(axis=1), path[:, 0] ** 3])
    batches = moments.reshape(5, 150, -1).mean(axis=2)
    return max(standard_errors_from(b, t) for b, t in zip(batches, posterior_moments(), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["laplace", "prior"])
def test_moments_of_a_skewed_posterior(kind):
    assert largest_error(kind) < 4.0


@pytest.mark.slow
def test_bracket_that_shrinks_the_wrong_way_is_rejected(monkeypatch):
    """The broken twin takes any point of the ellipse above half the slice."""

    def broken(rng, deviation, auxiliary, log_ratio):
        threshold = log_ratio(deviation) - 2.0 * rng.standard_exponential()
        while True:
            angle = rng.uniform(0.0, 2.0 * np.pi)
            candidate = deviation * np.cos(angle) + auxiliary * np.sin(angle)
            if log_ratio(candidate) > threshold:
                return candidate, 1

    monkeypatch.setattr(elliptical_slice, "slice_on_ellipse", broken)
    assert largest_error("prior") > 4.0


def test_moves_are_counted():
    _, info = EllipticalSlice(moves=3).step(np.random.default_rng(0), np.zeros(2), reference("laplace"), LIKELIHOOD)
    assert info.evaluations >= 6
