"""One elliptical slice: the bracket, the moves, and references other than those it makes itself."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pmgp.core.approximations import Laplace
from pmgp.core.gaussians import Conditioning, SiteApproximation
from pmgp.core.latent_updates import EllipticalSliceUpdate, elliptical_slice
from pmgp.core.transitions.elliptical_slice import slice_on_ellipse
from tests.latent_updates.chains import BOUND, largest_distance
from tests.latent_updates.targets import Target, conjugate, skewed_pair


def approximation(target: Target, kind: str) -> SiteApproximation:
    prior = target.prior()
    if kind == "laplace":
        return Laplace().fit(prior, target.likelihood)
    # Sites that say almost nothing: the ellipses come from the prior.
    precision, linear = np.full(prior.size, 1e-8), np.zeros(prior.size)
    conditioned = Conditioning(prior)
    assert conditioned.on(linear, precision)
    return conditioned.approximation(0.0, 0)


@pytest.mark.parametrize("kind", ["laplace", "flat sites"])
def test_moves_about_a_given_reference(kind):
    target, rng, operator = skewed_pair(), np.random.default_rng(5), EllipticalSliceUpdate()
    reference, f = approximation(target, kind), np.zeros(2)
    draws = np.empty((20_000, 2))
    for row in draws:
        f = operator.move(rng, f, reference, target.likelihood)
        row[:] = f
    assert largest_distance(target.statistics(draws), target.truth) < BOUND


def test_the_new_point_is_on_the_ellipse_and_on_the_slice(rng):
    deviation, auxiliary = np.array([1.0, 0.0]), np.array([0.0, 2.0])
    levels = []
    for _ in range(200):
        new, value, evaluations = slice_on_ellipse(rng, deviation, auxiliary, lambda e: -50.0 * (e[0] - 1.0) ** 2, 0.0)
        assert_allclose(new[0] ** 2 + (new[1] / 2.0) ** 2, 1.0)
        assert value == -50.0 * (new[0] - 1.0) ** 2
        assert evaluations >= 1
        levels.append(-value)
    # Minus the level under the threshold is exponential, and the point above it: 0 to 1 on average.
    assert 0.1 < np.mean(levels) < 1.0


@pytest.mark.parametrize("impossible", [-np.inf, np.nan])
def test_a_bracket_that_finds_nothing_ends_at_the_current_point(rng, impossible):
    deviation = np.array([1.0, -1.0])
    new, value, evaluations = slice_on_ellipse(rng, deviation, np.ones(2), lambda e: impossible, -3.0)
    assert_array_equal(new, deviation)
    assert value == -3.0
    assert 10 < evaluations < 500


def test_an_impossible_start_is_left(rng):
    new, value, _ = slice_on_ellipse(rng, np.zeros(2), np.ones(2), lambda e: -float(e @ e), -np.inf)
    assert np.isfinite(value)
    assert value == -float(new @ new)


def test_a_flat_likelihood_takes_the_first_point(rng):
    assert slice_on_ellipse(rng, np.zeros(2), np.ones(2), lambda e: 0.0, 0.0)[2] == 1


@pytest.mark.parametrize("reference", ["prior", "laplace"])
def test_several_moves_are_single_ones_in_a_row(reference):
    target = conjugate()
    both = []
    for moves, calls in [(3, 1), (1, 3)]:
        operator, rng = EllipticalSliceUpdate(moves, reference), np.random.default_rng(0)
        prepared = operator.prepare(target.prior(), target.likelihood)
        point = operator.init(prepared, target.mean)
        for _ in range(calls):
            point, info = operator.step(rng, point, prepared)
        both.append(point)
        assert info.evaluations >= moves
    assert_array_equal(both[0].payload, both[1].payload)
    assert both[0].log_density == both[1].log_density


@pytest.mark.parametrize("reference", ["prior", "laplace"])
def test_the_kept_value_is_the_value_at_f(reference, rng):
    target, operator = skewed_pair(), EllipticalSliceUpdate(2, reference)
    prepared = operator.prepare(target.prior(), target.likelihood)
    point, _ = operator.step(rng, operator.init(prepared, target.mean), prepared)
    assert point.log_density == pytest.approx(operator.init(prepared, point.payload).log_density, rel=1e-12)


@pytest.mark.parametrize("moves", [0, -1, 1.5])
def test_the_number_of_moves_is_checked(moves):
    with pytest.raises(ValueError, match=rf"moves must be an integer of at least 1, not {moves}"):
        EllipticalSliceUpdate(moves)


def test_an_unknown_reference_is_named():
    with pytest.raises(ValueError, match=r"reference must be one of prior, laplace, not 'posterior'"):
        EllipticalSliceUpdate(reference="posterior")


def test_the_bracket_shrinks_to_the_current_point_from_both_sides():
    """Where the slice is a short arc about that point, a move ends on either side of it, and never stays."""
    current = np.array([1.0, 0.0])
    angles = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        moved, _, _ = slice_on_ellipse(
            rng, current, np.array([0.0, 1.0]), lambda e: -1e4 * float(np.square(e - current).sum()), 0.0
        )
        angles.append(np.arctan2(moved[1], moved[0]))
    assert np.abs(angles).min() > 0.0
    # Four standard deviations of a fair coin.
    assert abs(np.sum(np.sign(angles))) < 4.0 * np.sqrt(200.0)


def test_every_move_begins_with_the_ratio_over_its_own_reference(monkeypatch):
    """Two references take turns, and the value that one move ends with is not the next one's."""
    target, operator, begun = skewed_pair(), EllipticalSliceUpdate(2, "laplace"), []

    def move(rng, f, value, slice_target, reference, auxiliary):
        begun.append((value, slice_target.log_ratio(f, reference), reference))
        return original(rng, f, value, slice_target, reference, auxiliary)

    original = elliptical_slice._move
    monkeypatch.setattr(elliptical_slice, "_move", move)
    prepared = operator.prepare(target.prior(), target.likelihood)
    point, _ = operator.step(np.random.default_rng(1), operator.init(prepared, np.zeros(2)), prepared)
    assert [reference for _, _, reference in begun] == 2 * list(prepared.references)
    assert_allclose([given for given, _, _ in begun], [own for _, own, _ in begun], rtol=1e-12)
    assert point.log_density == pytest.approx(prepared.log_ratio(point.payload, prepared.references[0]))
