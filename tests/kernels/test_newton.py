"""Newton's method and fixed numbers of sweeps by one kernel, against the same one step after another."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pmgp.core.approximations import Laplace
from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods import BernoulliProbit
from pmgp.core.numerics.ledger import counted
from tests.kernels.references import by_numpy
from tests.kernels.test_agreement import CONDITIONS, SIZES, close, problem

PRECISION = 1e-12
NAMES = ("linear", "precision", "mean")


class StepByStep(BernoulliProbit):
    """The same terms, and no kernel of their own."""


class Shifted(BernoulliProbit):
    """A broken twin, with latent values that are off a little."""

    def derivatives(self, f):
        return super().derivatives(f + 1e-9)


class Whole(StepByStep):
    """Another, whose steps are never too long, as the objective is nowhere lower."""

    def log_likelihood(self, f):
        return np.inf


def fitted(likelihood, n, condition, start=None, laplace=None):
    """The approximation, and what it counts."""
    covariance, mean, _, _ = problem(n, condition)
    prior, labels = DensePrior(mean, np.asfortranarray(covariance)), np.random.default_rng(5).integers(0, 2, n)
    with counted() as counts:
        found = (laplace or Laplace()).fit(prior, likelihood(labels), start)
    return found, counts.total


def agree(one, other):
    scale = np.sqrt(one.prior.variance.max())
    assert one.iterations == other.iterations
    assert_allclose(one.mean, other.mean, rtol=PRECISION, atol=PRECISION * scale)
    close(one.precision, other.precision)
    close(one.linear, other.linear, max(1.0, np.abs(other.linear).max()))
    assert one.log_evidence == pytest.approx(other.log_evidence, rel=PRECISION, abs=PRECISION * len(one.mean))
    assert one.log_determinant == pytest.approx(other.log_determinant, rel=PRECISION, abs=PRECISION)


@pytest.mark.parametrize(("n", "start"), [*product(SIZES, [None, 0.5, 40.0, np.nan])])
def test_modes_are_the_same(n, start):
    """From the prior mean, from near, from so far out that it is given up, and from what is not a number."""
    begin = None if start is None else np.full(n, start)
    (one, counts), (other, expected) = (
        fitted(likelihood, n, CONDITIONS[0], begin) for likelihood in (BernoulliProbit, StepByStep)
    )
    assert counts == expected
    agree(one, other)
    assert_allclose(np.tril(one.factor), np.tril(other.factor), rtol=PRECISION, atol=PRECISION)


@pytest.mark.parametrize("condition", CONDITIONS[1:])
@pytest.mark.parametrize("n", SIZES)
def test_a_step_is_the_same_where_the_problem_is_badly_conditioned(n, condition):
    """Rounding grows from one step to the next there, by less than a factor of a thousand each."""
    short = Laplace(max_iterations=1)
    (one, _), (other, _) = (fitted(each, n, condition, None, short) for each in (BernoulliProbit, StepByStep))
    assert_allclose(one.precision, other.precision, rtol=PRECISION)
    assert_allclose(one.mean, other.mean, rtol=1e-9, atol=PRECISION * np.sqrt(one.prior.variance.max()))


def test_steps_that_overshoot_are_halved():
    """One label pulls all latent values, which move together, to where the other hundred labels object."""
    prior = DensePrior(np.full(101, 10.0), np.asfortranarray(1e4 * (1e-3 * np.eye(101) + 1.0)))
    one, other, whole = (
        Laplace(max_iterations=2).fit(prior, likelihood(np.arange(101) > 0))
        for likelihood in (BernoulliProbit, StepByStep, Whole)
    )
    assert_allclose(one.mean, other.mean, rtol=1e-9)
    assert np.abs(whole.mean - other.mean).max() > 0.1


@pytest.mark.parametrize("break_it", [lambda k: k - 100.0 * np.eye(len(k)), lambda k: np.nan * k, lambda k: np.inf * k])
def test_no_mode_for_what_is_no_covariance(break_it):
    covariance, mean, _, _ = problem(20, CONDITIONS[0])
    prior = DensePrior(mean, np.asfortranarray(break_it(covariance)))
    for likelihood in (BernoulliProbit, StepByStep):
        with np.errstate(all="ignore"), counted() as counts:
            assert Laplace().fit(prior, likelihood(np.arange(20) % 2)) is None
        assert counts.total.cholesky == 1


@pytest.mark.parametrize("sweeps", [1, 2, 5])
@pytest.mark.parametrize("n", SIZES)
def test_matched_moments(n, sweeps):
    laplace, results = Laplace(sweeps=sweeps), []
    for likelihood in (BernoulliProbit, StepByStep):
        q, _ = fitted(likelihood, n, CONDITIONS[0])
        q, before = replace(q, converged=False), np.array(q.factor)
        with counted() as counts:
            results.append((laplace.refine(q, likelihood(np.random.default_rng(5).integers(0, 2, n))), counts.total))
        assert_array_equal(np.tril(q.factor), np.tril(before))
    (one, counts), (other, expected) = results
    assert counts == expected
    agree(one, other)
    assert not one.converged


def test_no_moments_for_what_is_no_covariance():
    q, _ = fitted(BernoulliProbit, 20, CONDITIONS[0])
    broken = replace(q, prior=DensePrior(q.prior.mean, np.asfortranarray(q.prior.covariance - 100.0 * np.eye(20))))
    for likelihood in (BernoulliProbit, StepByStep):
        with np.errstate(all="ignore"):
            assert Laplace().refine(broken, likelihood(np.arange(20) % 2)) is None


def test_fits_by_kernels_and_by_numpy():
    fits = []
    for chosen in (nullcontext, by_numpy):
        with chosen():
            q, counts = fitted(BernoulliProbit, 100, CONDITIONS[0])
            fits.append((Laplace().refine(q, BernoulliProbit(np.arange(100) % 2)), counts))
    (one, counts), (other, expected) = fits
    assert counts == expected
    agree(one, other)


def test_modes_that_differ_are_rejected():
    """The comparison's broken twin."""
    (one, _), (other, _) = (fitted(likelihood, 50, CONDITIONS[0]) for likelihood in (BernoulliProbit, Shifted))
    with pytest.raises(AssertionError):
        agree(one, other)
