"""A transition for an emulated density by one kernel, and the same step by step."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pmgp.core.adaptation.emulator import Emulator
from pmgp.core.numerics.compiled import emulated
from pmgp.core.transitions import proposals
from pmgp.core.transitions.proposals import AdaptiveProposal
from tests.kernels.references import by_numpy

PRECISION = 1e-12
BOUNDS = [(-np.inf, np.inf), (-1.0, 0.5), (40.0, 50.0)]


def triangle(rng, dimension):
    """A well-conditioned factor, and its inverse."""
    factor = np.tril(rng.normal(size=(dimension, dimension)), -1) + np.diag(rng.uniform(0.5, 2.0, dimension))
    return factor, np.linalg.inv(factor)


def proposal(dimension, nodes, bounds, seed=0):
    """With the t in other coordinates than the emulator, as while tuning goes on."""
    rng = np.random.default_rng(seed)
    _, whitening = triangle(rng, dimension)
    square = np.triu(rng.normal(size=(dimension, dimension))) - 2.0 * np.eye(dimension)
    of_nodes = rng.normal(size=(nodes, dimension)), rng.normal(size=nodes)
    known = rng.normal(size=dimension), whitening, 3.0, rng.normal(size=dimension), square
    emulator = Emulator(*known, *of_nodes, 1.5)
    location, (factor, _) = rng.normal(size=dimension), triangle(rng, dimension)
    lowest, highest = bounds
    return AdaptiveProposal(dimension, 0.25, 1.0, 0.0, location, factor, emulator, lowest, highest)


def by_both(proposal, theta, seed):
    results = []
    for chosen in (nullcontext, by_numpy):
        with chosen():
            rng = np.random.default_rng(seed)
            results.append((proposal.propose(rng, theta), rng.random()))
    return results


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("nodes", [1, 7, 150])
@pytest.mark.parametrize("dimension", [1, 2, 3, 4, 6])
def test_it_is_the_same_with_both(dimension, nodes, bounds):
    """Where the chain stands near, and far out, where every node is."""
    given, rng, moved = proposal(dimension, nodes, bounds), np.random.default_rng(1), 0
    for seed in range(60):
        theta = given.location + rng.choice([1.0, 30.0]) * rng.normal(size=dimension)
        (one, following), (other, next_of_other) = by_both(given, theta, seed)
        assert_allclose(one.position, other.position, rtol=PRECISION, atol=PRECISION)
        assert one.log_hastings == pytest.approx(other.log_hastings, rel=PRECISION, abs=100.0 * PRECISION)
        # Nothing else was taken from the generator.
        assert (one.component, following) == (other.component, next_of_other)
        moved += not np.array_equal(one.position, theta)
    assert moved > 0


def test_both_may_stay():
    """Where the emulated density is far above that of the t, and the t has no share."""
    steep = proposal(2, 1, BOUNDS[0])
    steep = AdaptiveProposal(
        2,
        0.25,
        1.0,
        0.0,
        steep.location,
        steep.factor,
        Emulator(steep.location, np.eye(2), 0.0, np.zeros(2), -1e4 * np.eye(2), np.zeros((1, 2)), np.zeros(1), 1.0),
    )
    for proposed, _ in by_both(steep, steep.location, 3):
        assert_array_equal(proposed.position, steep.location)
        assert proposed.log_hastings == 0.0


def test_constants_are_those_of_the_steps():
    assert (emulated.DEGREES_OF_FREEDOM, emulated.INFLATION) == (proposals.DEGREES_OF_FREEDOM, proposals.INFLATION)
