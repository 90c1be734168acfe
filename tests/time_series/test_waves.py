"""Matern kernels times cosines and periodic kernels are, by their states, the dense covariance of their formulas."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy.stats import multivariate_normal

import pmgp
from pmgp.core.approximations import Laplace
from pmgp.core.markov import PathSampling, PrecisionPrior, StatePattern, Times, lines_of, transitions
from pmgp.core.markov.spectra import MOST_HARMONICS, TOLERANCE
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.model.taking_apart import take_apart

COV = pm.gp.cov


def matern(lag: np.ndarray, length: float, order: float = 1.5) -> np.ndarray:
    scaled = np.sqrt(2.0 * order) * np.abs(lag) / length
    return {0.5: 1.0, 1.5: 1.0 + scaled, 2.5: 1.0 + scaled + scaled**2 / 3.0}[order] * np.exp(-scaled)


def cosine(lag: np.ndarray, period: float) -> np.ndarray:
    return np.cos(2.0 * np.pi * lag / period)


def periodic(lag: np.ndarray, period: float, width: float) -> np.ndarray:
    return np.exp(-0.5 * np.square(np.sin(np.pi * lag / period) / width))


KERNELS = {
    "cosine": (
        lambda: 2.0 * COV.Matern32(1, 3.0) * COV.Cosine(1, 2.5),
        lambda lag: 2.0 * matern(lag, 3.0) * cosine(lag, 2.5),
    ),
    "two cosines": (
        lambda: COV.Matern12(1, 3.0) * COV.Cosine(1, 2.5) * COV.Cosine(1, 6.0) + COV.Matern52(1, 4.0),
        lambda lag: matern(lag, 3.0, 0.5) * cosine(lag, 2.5) * cosine(lag, 6.0) + matern(lag, 4.0, 2.5),
    ),
    "periodic": (
        lambda: 0.5 * (COV.Periodic(1, 5.0, 1.0) * COV.Matern32(1, 10.0)),
        lambda lag: 0.5 * matern(lag, 10.0) * periodic(lag, 5.0, 1.0),
    ),
    "periodic of a sum": (
        lambda: COV.Periodic(1, 5.0, 0.4) * (COV.Matern12(1, 10.0) + 0.2 * COV.Matern52(1, 2.0)),
        lambda lag: (matern(lag, 10.0, 0.5) + 0.2 * matern(lag, 2.0, 2.5)) * periodic(lag, 5.0, 0.4),
    ),
    "all": (
        lambda: COV.Matern12(1, 10.0) * COV.Periodic(1, 5.0, 2.0) * COV.Cosine(1, 3.0),
        lambda lag: matern(lag, 10.0, 0.5) * periodic(lag, 5.0, 2.0) * cosine(lag, 3.0),
    ),
}


def scattered(n: int = 30) -> np.ndarray:
    """Unsorted; two of them equal, and two of them close."""
    t = np.random.default_rng(1).uniform(-10.0, 10.0, n)
    t[3], t[5] = t[7], t[9] + 1e-4
    return t


def prior_of(kernel, t: np.ndarray) -> PrecisionPrior:
    gp = pmgp.gp.Markov(cov_func=kernel)
    lines = lines_of(gp._kinds, *(parameter.eval(mode=INTERPRETED) for parameter in gp._parameters))
    return PrecisionPrior.centered(StatePattern.of(Times(t), lines), transitions(Times(t), lines))


@pytest.mark.parametrize(("kernel", "formula"), KERNELS.values(), ids=KERNELS)
def test_states_have_the_covariance_of_the_kernel(kernel, formula):
    t = scattered()
    dense = formula(np.subtract.outer(t, t))
    found = prior_of(kernel(), t).product(np.eye(len(t)))
    allowed = TOLERANCE if "periodic" in formula.__code__.co_names else 1e-12
    np.testing.assert_allclose(found, dense, atol=allowed)
    # A twin with a period that is longer by a millionth.
    assert np.abs(prior_of(kernel(), t * (1.0 + 1e-6)).product(np.eye(len(t))) - dense).max() > 2.0 * allowed


@pytest.mark.parametrize("width", [0.055, 0.1, 0.3, 1.0, 5.0])
def test_a_periodic_kernel_takes_as_many_cosines_as_its_error_demands(width):
    lines = lines_of(
        pmgp.gp.Markov(cov_func=COV.Matern12(1, 1.0) * COV.Periodic(1, 1.0, 1.0))._kinds, [1.0], [1.0], [1.0], [width]
    )
    lag = np.linspace(0.0, 1.0, 400)
    terms = np.array([line.variance * np.cos(line.frequency * lag) for line in lines])
    error = np.abs(terms.sum(axis=0) - periodic(lag, 1.0, width)).max()
    assert error < 0.75 * TOLERANCE
    # With a term less it is above the bound.
    assert np.abs(terms[:-1].sum(axis=0) - periodic(lag, 1.0, width)).max() > 0.5 * TOLERANCE
    assert len(lines) <= MOST_HARMONICS + 1


@pytest.mark.parametrize(("period", "width"), [(1.0, 0.02), (1.0, 0.0), (1.0, np.nan), (0.0, 1.0), (np.inf, 1.0)])
def test_impossible_waves_have_no_density(period, width):
    kinds = pmgp.gp.Markov(cov_func=COV.Matern12(1, 1.0) * COV.Periodic(1, 1.0, 1.0))._kinds
    lines = lines_of(kinds, [1.0], [1.0], [period], [width])
    times = Times(np.arange(4.0))
    assert PrecisionPrior.centered(StatePattern.of(times, lines), transitions(times, lines)).factorized() is None


def on(t: np.ndarray) -> pm.Model:
    with pm.Model() as model:
        width = pm.HalfNormal("width", 1.0)
        gp = pmgp.gp.Markov(cov_func=COV.Matern32(1, 10.0) * COV.Periodic(1, 5.0, width))
        pm.Normal("y", gp.prior("f", X=t), np.float64(0.5), observed=np.cos(t))
    return model


@pytest.mark.parametrize("width", [0.3, 1.0])
def test_normal_observations_have_the_evidence_of_the_dense_covariance(width):
    """The number of states follows the length-scale that is a hyper-parameter; the error is that of the series."""
    t = scattered(20)
    parts = take_apart(on(t))
    theta = np.log([width])
    lag = np.subtract.outer(t, t)
    covariance = matern(lag, 10.0) * periodic(lag, 5.0, width) + 0.25 * np.eye(len(t))
    exact = multivariate_normal(np.zeros(len(t)), covariance).logpdf(np.cos(t))
    q = Laplace(sweeps=0).fit(parts.prior(theta), parts.likelihood(theta))
    assert q.log_evidence == pytest.approx(exact, abs=3e-7)
    estimate = PathSampling(8).estimate(np.random.default_rng(1), q, parts.likelihood(theta))
    assert estimate.log_evidence == pytest.approx(q.log_evidence, rel=1e-10)
    twin = Laplace(sweeps=0).fit(parts.prior(theta + 1e-3), parts.likelihood(theta))
    assert twin.log_evidence != pytest.approx(exact, abs=1e-5)


def test_two_seasons_that_exchange_their_numbers_of_cosines_keep_their_own_states():
    """Both orders of the widths give as many lines, but lines of other orders, whose states differ in size."""
    t = np.arange(8.0)
    with pm.Model() as model:
        widths = pm.HalfNormal("widths", 1.0, shape=2)
        kernels = [COV.Matern32(1, 5.0) * COV.Cosine(1, 3.3), COV.Matern52(1, 6.0) * COV.Cosine(1, 3.3)]
        seasons = [kernel * COV.Periodic(1, 7.0, widths[k]) for k, kernel in enumerate(kernels)]
        pm.Normal("y", pmgp.gp.Markov(cov_func=seasons[0] + seasons[1]).prior("f", X=t), 0.5, observed=np.cos(t))
    parts, lag = take_apart(model), np.subtract.outer(t, t)
    for first, second in ((1.0, 0.3), (0.3, 1.0), (1.0, 0.3)):
        slow = matern(lag, 5.0) * periodic(lag, 7.0, first) + matern(lag, 6.0, 2.5) * periodic(lag, 7.0, second)
        found = parts.prior(np.log([first, second])).product(np.eye(len(t)))
        np.testing.assert_allclose(found, slow * cosine(lag, 3.3), atol=2.0 * TOLERANCE)


def test_its_kind_is_described():
    description = pmgp.describe(on(np.arange(4.0)))
    assert description.latent_vectors["f"] == "vector of 4; Matern process in time of order 3/2 x periodic"
