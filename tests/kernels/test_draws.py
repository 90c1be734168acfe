"""Weighed draws and slice moves by one kernel, against the same one step after another, bit for bit."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pmgp.core.estimators import ImportanceSampling, importance
from pmgp.core.gaussians import Conditioning, DensePrior
from pmgp.core.latent_updates import EllipticalSliceUpdate
from pmgp.core.likelihoods import BernoulliProbit, OrdinalProbit
from pmgp.core.likelihoods.compiled_terms import SLICE, WEIGHED, kernel_with_terms
from pmgp.core.numerics.compiled.loading import uniform_numbers
from pmgp.core.numerics.ledger import counted
from tests.kernels.references import by_numpy
from tests.kernels.test_agreement import CONDITIONS, SIZES, problem

PRECISION = 1e-12
THRESHOLDS = np.array([-1.0, 0.1, 1.5])


class ProbitStepByStep(BernoulliProbit):
    """The same terms, without kernels of their own."""


class OrdinalStepByStep(OrdinalProbit):
    """The same."""


def likelihoods(kind, n):
    """With kernels, and the same without."""
    if kind == "probit":
        return [likelihood(np.arange(n) % 2) for likelihood in (BernoulliProbit, ProbitStepByStep)]
    noise = np.linspace(0.2, 2.0, n)
    return [likelihood(np.arange(n) % 4, THRESHOLDS, noise) for likelihood in (OrdinalProbit, OrdinalStepByStep)]


def approximation(n, condition=CONDITIONS[0]):
    covariance, mean, linear, precision = problem(n, condition)
    conditioned = Conditioning(DensePrior(mean, np.asfortranarray(covariance)))
    assert conditioned.on(linear, precision)
    return conditioned.approximation(0.0, 1)


def estimate(likelihood, q, antithetic, given):
    """Fresh, or given a particle that is far out."""
    rng, sampling = np.random.default_rng(8), ImportanceSampling(6, antithetic=antithetic)
    if given:
        return sampling.estimate_given(rng, q, likelihood, np.full(q.size, 40.0))
    return sampling.estimate(rng, q, likelihood)


@pytest.mark.parametrize("kind", ["probit", "ordinal"])
@pytest.mark.parametrize(("antithetic", "given"), [*product([True, False], [True, False])])
@pytest.mark.parametrize("n", SIZES)
def test_weighed_draws(n, antithetic, given, kind):
    q = approximation(n)
    one, other = (estimate(likelihood, q, antithetic, given) for likelihood in likelihoods(kind, n))
    assert_array_equal(one.particles, other.particles)
    scale = np.abs(other.log_weights).max()
    assert_allclose(one.log_weights, other.log_weights, rtol=PRECISION, atol=PRECISION * scale)
    assert one.log_evidence == pytest.approx(other.log_evidence, rel=PRECISION, abs=PRECISION * scale)
    assert_allclose(one.normalized_weights, other.normalized_weights, rtol=PRECISION * scale, atol=1e-300)
    assert_array_equal(one.choose(np.random.default_rng(1)), other.choose(np.random.default_rng(1)))


@pytest.mark.parametrize("kind", ["probit", "ordinal"])
@pytest.mark.parametrize("draws", [1, 2, 16])
@pytest.mark.parametrize("least", [None, 1e-12])
def test_an_estimate_is_that_of_draws_made_before(draws, least, kind):
    """One kernel makes and weighs them; beside sites that say next to nothing with products, which are counted."""
    covariance, mean, linear, precision = problem(64, CONDITIONS[0])
    if least is not None:
        precision[::2] = least
    conditioned, likelihood = Conditioning(DensePrior(mean, np.asfortranarray(covariance))), likelihoods(kind, 64)[0]
    assert conditioned.on(linear, precision)
    q, sampling = conditioned.approximation(0.0, 1), ImportanceSampling(draws)
    with counted() as made:
        found = sampling.estimate(np.random.default_rng(3), q, likelihood)
    pairs = max(1, draws // 2)
    with counted() as expected:
        deviations = q.sample_deviations(np.random.default_rng(3), pairs)
    reference = importance._weighed(q, likelihood, deviations, draws > 1)
    for name in ("particles", "log_weights", "normalized_weights", "log_evidence"):
        assert_array_equal(getattr(found, name), getattr(reference, name))
    assert made.total.matvec == expected.total.matvec == (0 if least is None else pairs)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_weighed_draws_by_kernels_and_by_numpy(condition):
    q, likelihood = approximation(64, condition), BernoulliProbit(np.arange(64) % 2)
    estimates = []
    for chosen in (nullcontext, by_numpy):
        with chosen():
            assert (kernel_with_terms(likelihood, WEIGHED) is None) == (chosen is by_numpy)
            estimates.append(estimate(likelihood, q, True, False))
    one, other = estimates
    scale = np.sqrt(q.prior.variance[0])
    assert_allclose(one.particles, other.particles, rtol=PRECISION, atol=PRECISION * scale)


def test_a_particle_that_is_not_a_number_has_no_weight():
    q = approximation(9)
    for likelihood in likelihoods("probit", 9):
        result = ImportanceSampling(2, antithetic=False).estimate_from(
            q, likelihood, q.mean, np.array([np.full(9, np.nan)])
        )
        assert_array_equal(result.normalized_weights, [1.0, 0.0])


@pytest.mark.parametrize("kind", ["probit", "ordinal"])
@pytest.mark.parametrize("about_prior", [False, True])
@pytest.mark.parametrize("n", SIZES)
def test_slice_moves(n, about_prior, kind):
    """As many numbers are taken from the generator, too."""
    q = approximation(n)
    reference, moves = q.prior if about_prior else q, []
    for likelihood in likelihoods(kind, n):
        rng, f = np.random.default_rng(9), q.mean + 0.1
        for _ in range(5):
            f = EllipticalSliceUpdate(2).move(rng, f, reference, likelihood)
        moves.append([*f, rng.random()])
    assert_array_equal(*moves)


def test_slice_moves_count_their_evaluations():
    update, q, steps = EllipticalSliceUpdate(3), approximation(30), []
    for likelihood in likelihoods("ordinal", 30):
        target = update.prepare(q.prior, likelihood)
        steps.append(update.step(np.random.default_rng(2), update.init(target, q.mean), target))
    (one, info), (other, expected) = steps
    assert info == expected
    assert one.log_density == pytest.approx(other.log_density, rel=PRECISION)


def test_a_slice_without_any_other_point_on_it_ends_where_it_began():
    """Its level is not a number, so that the bracket vanishes."""
    n = 3
    kernel = kernel_with_terms(BernoulliProbit(np.ones(n)), SLICE)
    f, moved, value = np.full(n, 1.5), np.empty(n), np.array([0.0])
    evaluations = kernel(
        np.empty(0),
        np.empty(0),
        np.zeros(n),
        f,
        np.ones(n),
        np.nan,
        *uniform_numbers(np.random.default_rng(1)),
        moved,
        value,
    )
    assert evaluations > 20
    assert_array_equal(moved, f)
    assert value == 0.0


def test_numbers_come_from_the_generator_itself():
    for bits in (np.random.PCG64, np.random.MT19937, np.random.Philox, np.random.SFC64):
        q, moves = approximation(5), []
        for likelihood in likelihoods("probit", 5):
            rng = np.random.Generator(bits(3))
            rng.random(dtype=np.float32)
            moves.append([*EllipticalSliceUpdate(4).move(rng, q.mean, q, likelihood), *rng.standard_normal(3)])
        assert_array_equal(*moves)


def test_moves_and_weights_that_differ_are_rejected():
    """The comparison's broken twin: a precision that is off by a part in a million."""
    q, (likelihood, _) = approximation(30), likelihoods("probit", 30)
    conditioned = Conditioning(q.prior)
    assert conditioned.on(q.linear, q.precision * (1.0 + 1e-6))
    other = conditioned.approximation(0.0, 1)
    with pytest.raises(AssertionError):
        assert_array_equal(
            *(EllipticalSliceUpdate(2).move(np.random.default_rng(1), q.mean, one, likelihood) for one in (q, other))
        )
    one, twin = (estimate(likelihood, each, True, False).log_weights for each in (q, other))
    with pytest.raises(AssertionError):
        assert_allclose(one, twin, rtol=PRECISION)
