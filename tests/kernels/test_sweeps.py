"""Whole sweeps of expectation propagation by one kernel, against the same sweeps one step after another."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import FrozenInstanceError, fields
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pmgp.core.approximations import ExpectationPropagation, Laplace
from pmgp.core.approximations.moment_matching import match_moments
from pmgp.core.approximations.propagation import Failure, propagated
from pmgp.core.gaussians import Conditioning, DensePrior, SiteApproximation
from pmgp.core.likelihoods import BernoulliProbit
from pmgp.core.likelihoods.compiled_terms import LOG_RATIOS, SWEEPS, kernel_with_terms
from pmgp.core.numerics import linalg
from pmgp.core.numerics.conditioning import swept as swept_by
from pmgp.core.numerics.ledger import counted
from tests.kernels.references import by_numpy
from tests.kernels.test_agreement import CONDITIONS, SIZES, problem

PRECISION = 1e-12


class StepByStep(BernoulliProbit):
    """The same terms, and no kernel of whole sweeps: what is derived from a likelihood may have other moments."""


class Shifted(BernoulliProbit):
    """A broken twin, with labels that are observed with a small offset."""

    def tilted_moments(self, mean, variance, near=None):
        return super().tilted_moments(mean + 1e-9, variance)


def swept(likelihood, n, condition, sweeps, largest=np.inf):
    """What so many sweeps give from arbitrary sites, and what they count."""
    covariance, mean, linear, precision = problem(n, condition)
    conditioned = Conditioning(DensePrior(mean, np.asfortranarray(covariance)))
    assert conditioned.on(0.1 * linear, 0.1 * precision)
    labels = np.random.default_rng(5).integers(0, 2, n)
    with counted() as counts:
        outcome = propagated(conditioned, likelihood(labels), 1e-300, sweeps, largest)
    return conditioned, outcome, counts.total


@pytest.mark.parametrize(("n", "condition"), [*product(SIZES, CONDITIONS)])
def test_one_sweep_is_the_same_to_the_last_bit(n, condition):
    """Beside the kernels of the steps there are sums only."""
    (one, status, counts), (other, reference, expected) = (
        swept(likelihood, n, condition, 1) for likelihood in (BernoulliProbit, StepByStep)
    )
    assert status is reference is Failure.NOT_CONVERGED
    assert counts == expected
    for name in ("linear", "precision", "mean", "log_determinant"):
        assert np.array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("n", SIZES)
def test_many_sweeps(n):
    (one, _, counts), (other, _, expected) = (
        swept(likelihood, n, CONDITIONS[0], 6) for likelihood in (BernoulliProbit, StepByStep)
    )
    assert counts == expected
    for name in ("linear", "precision", "mean", "log_determinant"):
        assert_allclose(getattr(one, name), getattr(other, name), rtol=PRECISION, atol=PRECISION)


@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("n", [1, 17, 100])
def test_fits_by_kernels_and_by_numpy(n, start):
    covariance, mean, _, _ = problem(n, CONDITIONS[0])
    prior, likelihood = DensePrior(mean, np.asfortranarray(covariance)), BernoulliProbit(np.arange(n) % 2)
    begin = np.zeros(2 * n) if start else None
    fits = []
    for chosen in (nullcontext, by_numpy):
        with chosen(), counted() as counts:
            assert (kernel_with_terms(likelihood, SWEEPS) is None) == (chosen is by_numpy)
            fits.append((ExpectationPropagation(tolerance=1e-9).fit(prior, likelihood, begin), counts.total))
    (one, counts), (other, expected) = fits
    assert (counts, one.iterations) == (expected, other.iterations)
    for name in ("linear", "precision", "mean", "log_evidence", "log_determinant"):
        assert_allclose(getattr(one, name), getattr(other, name), rtol=PRECISION, atol=PRECISION)
    assert_allclose(np.tril(one.factor), np.tril(other.factor), rtol=PRECISION, atol=PRECISION)


@pytest.mark.parametrize("break_it", [lambda k: k - 3.0 * np.eye(len(k)), lambda k: np.where(k == k[0, 0], np.nan, k)])
def test_sweeps_on_what_is_no_covariance(break_it):
    covariance, mean, linear, precision = problem(20, CONDITIONS[0])
    sound = Conditioning(DensePrior(mean, np.asfortranarray(covariance)))
    assert sound.on(linear, precision)
    outcomes = []
    for likelihood in (BernoulliProbit, StepByStep):
        q = sound_copy(sound, DensePrior(mean, np.asfortranarray(break_it(covariance))))
        outcomes.append(propagated(q, likelihood(np.arange(20) % 2), 0.05, 50))
        with pytest.raises(ValueError, match="condition on sites first"):
            q.approximation(0.0, 1)
    assert outcomes == [Failure.INDEFINITE] * 2


def sound_copy(conditioned, prior):
    """The same sites and factor beside another prior."""
    other = Conditioning(prior)
    names = ("linear", "precision", "mean", "log_determinant")
    other.__dict__ |= {name: getattr(conditioned, name) for name in names}
    other._memory = other._factor = conditioned._factor.copy(order="F")
    return other


def test_a_large_first_step_ends_the_sweeps():
    for likelihood in (BernoulliProbit, StepByStep):
        _, outcome, counts = swept(likelihood, 17, CONDITIONS[0], 5, largest=1e-3)
        assert outcome is Failure.NOT_CONVERGED
        assert counts.cholesky == 1


def test_an_approximation_that_is_swept_stays_as_it_is():
    """Laplace's stands in where sweeps do not end."""
    covariance, mean, linear, precision = problem(17, CONDITIONS[0])
    conditioned = Conditioning(DensePrior(mean, np.asfortranarray(covariance)))
    assert conditioned.on(linear, precision)
    q = conditioned.approximation(0.0, 3)
    before = [np.array(getattr(q, name)) for name in ("linear", "precision", "mean", "factor")]
    matched = propagated(q.conditioned(), BernoulliProbit(np.arange(17) % 2), 1e-6, 50, iterations=q.iterations)
    assert isinstance(matched, SiteApproximation)
    assert matched.iterations > 3
    after = [np.array(getattr(q, name)) for name in ("linear", "precision", "mean", "factor")]
    for one, other in zip(before, after, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("matching", [False, True])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_what_sweeps_know_of_q_is_what_it_would_compute(matching, condition):
    """The same to the last bit, as weights and with them draws are made of it; in what is q's like any other's."""
    covariance, mean, _, _ = problem(30, condition)
    prior, likelihood = DensePrior(mean, np.asfortranarray(covariance)), BernoulliProbit(np.arange(30) % 2)
    q = ExpectationPropagation().fit(prior, likelihood, np.zeros(60))
    q = match_moments(Laplace().fit(prior, likelihood), likelihood, 2) if matching else q
    assert q.converged
    names = [field.name for field in fields(q)]
    other = SiteApproximation(*[getattr(q, name) for name in names])
    assert "log_normalizer" in q.__dict__
    assert "log_normalizer" not in other.__dict__
    other.__dict__["log_determinant"] = q.log_determinant
    assert q.log_normalizer == other.log_normalizer
    assert q.log_determinant == pytest.approx(linalg.log_determinant(q.factor), rel=PRECISION)
    for one, same in zip(q.sites_and_mean, other.sites_and_mean, strict=True):
        assert np.array_equal(one, same)
    with pytest.raises(FrozenInstanceError):
        q.mean = mean


def test_sweeps_from_a_guess_read_no_memory_that_is_there():
    """Neither in the factor of B nor in the mean, which they write."""
    covariance, mean, linear, precision = problem(17, CONDITIONS[0])
    sweeps, found = kernel_with_terms(BernoulliProbit(np.arange(17) % 2), SWEEPS), []
    for litter in (0.0, np.nan, np.inf):
        memory = np.array([linear, precision]), np.full(17, litter), np.full((17, 17), litter, order="F")
        settings = 1e-9, np.inf, 0.05, 1e-10, 1.0 + 1e-6, 50
        found.append([*swept_by(sweeps, np.asfortranarray(covariance), mean, np.nan, settings, *memory), *memory[1]])
    assert_array_equal(found[0], found[1])
    assert_array_equal(found[0], found[2])


def test_sweeps_that_differ_are_rejected():
    """The comparison's broken twin."""
    one, other = (swept(likelihood, 50, CONDITIONS[0], 3)[0] for likelihood in (BernoulliProbit, Shifted))
    with pytest.raises(AssertionError):
        assert_allclose(one.mean, other.mean, rtol=PRECISION, atol=PRECISION)


@pytest.mark.parametrize("shape", [(9,), (3, 9), (2, 3, 9), (0, 9)])
def test_ratios_of_likelihood_and_sites(shape):
    """By one kernel, by two, and by NumPy."""
    covariance, mean, linear, precision = problem(9, CONDITIONS[0])
    conditioned = Conditioning(DensePrior(mean, np.asfortranarray(covariance)))
    assert conditioned.on(linear, precision)
    q, f = conditioned.approximation(0.0, 1), np.random.default_rng(9).normal(size=shape)
    labels = np.arange(9) % 2
    values = [np.asarray(q.log_ratio(terms(labels), f)) for terms in (BernoulliProbit, StepByStep)]
    with by_numpy():
        assert kernel_with_terms(BernoulliProbit(labels), LOG_RATIOS) is None
        values.append(np.asarray(q.log_ratio(BernoulliProbit(labels), f)))
    assert [value.shape for value in values] == [shape[:-1]] * 3
    for value in values[1:]:
        assert_allclose(values[0], value, rtol=PRECISION, atol=PRECISION)
