"""Intrinsic autoregressions have PyMC's density, and the evidence of dense algebra; what has no density is refused."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy.stats import multivariate_normal

import pmgp
from pmgp.core.approximations import Laplace
from pmgp.core.markov import PathSampling
from pmgp.interface.model.latent_variable import ModelError
from pmgp.interface.model.taking_apart import take_apart
from tests.fields.models import around, lattice_neighbors

NEIGHBORS = lattice_neighbors(4, 3)
N = len(NEIGHBORS)


def on(neighbors=NEIGHBORS, sigma=1.0, zero_sum_stdev=0.001, likelihood=None) -> pm.Model:
    n = len(neighbors)
    with pm.Model() as model:
        level, scale = pm.Normal("level", 0.0, 1.0), pm.HalfNormal("scale", 1.0)
        given = [np.float64(one) if isinstance(one, float) else one(scale) for one in (sigma, zero_sum_stdev)]
        s = pm.ICAR("s", W=neighbors, sigma=given[0], zero_sum_stdev=given[1])
        default = lambda eta: pm.Poisson("y", pm.math.exp(eta), observed=np.arange(n) % 4)  # noqa: E731
        (likelihood or default)(level + scale * s)
    return model


@pytest.mark.parametrize(("sigma", "zero_sum_stdev"), [(1.0, 0.001), (0.7, 0.1)])
def test_densities_are_those_of_pymc(sigma, zero_sum_stdev):
    """Up to what PyMC leaves out of that of the differences: a constant."""
    model = on(sigma=sigma, zero_sum_stdev=zero_sum_stdev)
    parts, rng = take_apart(model), np.random.default_rng(2)
    prior = parts.prior(parts.initial_theta)
    density = model.compile_fn(
        model.logp(vars=[model["s"]], sum=False)[0],
        inputs=model.value_vars,
        mode="FAST_COMPILE",
        on_unused_input="ignore",
    )
    point = model.initial_point()
    values = [0.2 * rng.normal(size=N) for _ in range(3)]
    expected = [density(point | {"s": x}).item() for x in values]
    found = [-0.5 * x @ prior.pattern.product(prior.values, x) for x in values]
    np.testing.assert_allclose(np.diff(found), np.diff(expected), rtol=1e-9)
    # A twin without the sum.
    twin = [value + 0.5 * prior.values[-1] * x.sum() ** 2 for value, x in zip(found, values, strict=True)]
    assert not np.allclose(np.diff(twin), np.diff(expected), rtol=1e-3)


def _evidence(parts, theta, covariance, y) -> float:
    named = dict(zip(parts.theta_names, theta, strict=True))
    scale = np.exp(named["scale_log__"])
    return multivariate_normal(np.full(N, named["level"]), scale**2 * covariance + 0.25 * np.eye(N)).logpdf(y)


@pytest.mark.parametrize(("stdev", "known"), [(0.1, 0.1), (0.001, 0.001), (1e-7, 0.0)], ids=["soft", "PyMC's", "hard"])
def test_normal_observations_have_the_evidence_of_dense_algebra(stdev, known):
    """Differences by the pseudo-inverse, and a mean that has a variance, or none where the sum is fixed."""
    y = np.cos(np.arange(N))
    normal = lambda eta: pm.Normal("y", eta, np.float64(0.5), observed=y)  # noqa: E731
    parts = take_apart(on(zero_sum_stdev=stdev, likelihood=normal))
    covariance = np.linalg.pinv(np.diag(NEIGHBORS.sum(axis=0)) - NEIGHBORS) + known**2
    for theta in around(parts):
        exact, twin = (_evidence(parts, theta, one, y) for one in (covariance, covariance + 0.3**2))
        assert abs(exact - twin) > 1e-4
        q = Laplace(sweeps=0).fit(parts.prior(theta), parts.likelihood(theta))
        assert q.log_evidence == pytest.approx(exact, rel=1e-10)
        estimate = PathSampling(8, width=2).estimate(np.random.default_rng(1), q, parts.likelihood(theta))
        assert estimate.log_evidence == pytest.approx(exact, rel=1e-9)
        assert estimate.effective_size == pytest.approx(8.0)


PIECES = np.kron(np.eye(2), lattice_neighbors(2, 3))
REFUSED = {
    "pieces": (lambda: on(PIECES), "2 unconnected pieces.*pm.CAR"),
    "island": (lambda: on(np.pad(NEIGHBORS, (0, 1))), "1 of the 13 areas have no neighbors.*: 12;"),
    "sigma": (lambda: on(sigma=lambda scale: scale), r"write sigma \* pm.ICAR"),
    "stdev": (lambda: on(zero_sum_stdev=lambda scale: scale), "zero_sum_stdev depends on hyper-parameters"),
    "scale": (lambda: on(sigma=0.0), "sigma and zero_sum_stdev must be positive, not 0.0 and 0.001"),
}


@pytest.mark.parametrize(("model", "words"), REFUSED.values(), ids=REFUSED)
def test_what_has_no_density_is_refused_in_words(model, words):
    with model(), pytest.raises(ModelError, match=words):
        pmgp.PseudoMarginal()


def test_sums_are_drawn_as_small_as_they_are():
    model = on()
    with model:
        idata = pm.sample(50, tune=50, chains=1, cores=1, step=pmgp.PseudoMarginal(), random_seed=1, progressbar=False)
    means = idata["posterior"]["s"].mean("s_dim_0").to_numpy()
    assert 0.0005 < means.std() < 0.002
