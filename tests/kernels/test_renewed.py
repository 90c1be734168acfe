"""A slice move and a refreshment given it by one kernel, against the same one step after another, bit for bit."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from pmgp.core.estimators import AnnealedImportanceSampling, ImportanceSampling
from pmgp.core.estimators.importance import renewed
from pmgp.core.gaussians import Conditioning, DensePrior
from pmgp.core.latent_updates import EllipticalSliceUpdate
from pmgp.core.numerics.ledger import counted
from tests.kernels.references import by_numpy
from tests.kernels.test_agreement import CONDITIONS, SIZES, problem
from tests.kernels.test_draws import likelihoods


def approximation(n, least=None):
    """Beside sites that say next to nothing, where `least` is given, draws need products with K."""
    covariance, mean, linear, precision = problem(n, CONDITIONS[0])
    if least is not None:
        precision[::2] = least
    conditioned = Conditioning(DensePrior(mean, np.asfortranarray(covariance)))
    assert conditioned.on(linear, precision)
    return conditioned.approximation(0.0, 1)


def one_by_one(rng, f, q, likelihood, sampling, draws):
    """The moved f, the estimate given it, and one of its particles."""
    shared = q.sample_deviations(rng, 1 + sampling.redrawn(draws))
    moved = EllipticalSliceUpdate().move(rng, f, q, likelihood, shared[:1])
    estimate = sampling.estimate_from(q, likelihood, moved, shared[1:])
    return moved, estimate, estimate.choose(rng)


@pytest.mark.parametrize("kind", ["probit", "ordinal"])
@pytest.mark.parametrize(("antithetic", "draws"), [(True, 4), (True, 16), (False, 2), (False, 7)])
@pytest.mark.parametrize("n", SIZES)
def test_it_is_the_same_as_one_by_one(n, antithetic, draws, kind):
    likelihood, sampling = likelihoods(kind, n)[0], ImportanceSampling(antithetic=antithetic)
    for seed, least in product(range(3), (None, 1e-12)):
        q = approximation(n, least)
        f = q.sample(np.random.default_rng(seed), 1)[0]
        one, other = np.random.default_rng(seed), np.random.default_rng(seed)
        with counted() as made:
            moved, estimate, picked = renewed(one, f, q, likelihood, sampling, draws)
        with counted() as expected:
            reference = one_by_one(other, f, q, likelihood, sampling, draws)
        assert_array_equal(moved, reference[0])
        assert_array_equal(picked, reference[2])
        for name in ("particles", "log_weights", "normalized_weights", "log_evidence", "effective_size"):
            assert_array_equal(getattr(estimate, name), getattr(reference[1], name))
        assert one.random() == other.random()
        assert made.total.matvec == expected.total.matvec == (0 if least is None else 1 + sampling.redrawn(draws))


def test_all_particles_may_be_picked():
    """The weights are nearly equal, as the sites are nearly exact."""
    q, likelihood = approximation(1), likelihoods("probit", 1)[0]
    sampling, rng, f, picked = ImportanceSampling(antithetic=False), np.random.default_rng(0), np.zeros(1), set()
    for _ in range(200):
        _, estimate, particle = renewed(rng, f, q, likelihood, sampling, 3)
        picked.add(int(np.flatnonzero((estimate.particles == particle).all(axis=1))[0]))
    assert picked == {0, 1, 2}


class Derived(ImportanceSampling):
    """May make other estimates."""


@pytest.mark.parametrize(
    ("estimator", "draws"),
    [(Derived(), 4), (AnnealedImportanceSampling(), 4), (ImportanceSampling(), 2), (ImportanceSampling(), 1)],
)
def test_others_are_left_to_the_steps(estimator, draws):
    """And so is an estimate with nothing to be redrawn."""
    q, likelihood = approximation(5), likelihoods("probit", 5)[0]
    assert renewed(np.random.default_rng(0), q.mean, q, likelihood, estimator, draws) is None


def test_terms_without_a_kernel_are_left_to_the_steps():
    q, (likelihood, derived) = approximation(5), likelihoods("probit", 5)
    given = ImportanceSampling(), 4
    assert renewed(np.random.default_rng(0), q.mean, q, derived, *given) is None
    with by_numpy():
        assert renewed(np.random.default_rng(0), q.mean, q, likelihood, *given) is None
