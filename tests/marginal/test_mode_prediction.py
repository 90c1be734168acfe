"""The start of Newton's method, predicted from theta."""

from __future__ import annotations

import numpy as np
import pytest

from pmgp.core.adaptation.mode_prediction import ModePredictor


def fitted(dimension: int, mode, pairs: int, seed: int = 0) -> ModePredictor:
    rng = np.random.default_rng(seed)
    predictor = ModePredictor(dimension, 4, np.full(dimension, 0.5), np.full(dimension, 2.0))
    for theta in 0.5 + 2.0 * rng.standard_normal((pairs, dimension)):
        predictor.add(theta, mode(theta))
    predictor.solve()
    return predictor


@pytest.mark.parametrize(("dimension", "features"), [(1, 4), (2, 10), (3, 10), (11, 78)])
def test_number_of_monomials(dimension, features):
    predictor = ModePredictor(dimension, 4, np.zeros(dimension), np.ones(dimension))
    assert predictor.features(np.zeros(dimension)).shape == (features,)


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_polynomials_are_recovered(dimension):
    weights = np.random.default_rng(1).normal(size=(4, dimension))

    def mode(theta):
        return 1.0 + weights @ theta + (weights @ theta) ** 2

    predictor = fitted(dimension, mode, 200)
    theta = np.linspace(-0.7, 1.4, dimension)
    np.testing.assert_allclose(predictor.predict(theta), mode(theta), rtol=1e-3, atol=1e-3)


def test_no_prediction_before_there_are_enough_pairs():
    assert fitted(2, lambda theta: np.zeros(4), 5).predict(np.zeros(2)) is None
    assert fitted(2, lambda theta: np.zeros(4), 6).predict(np.zeros(2)) is not None


@pytest.mark.parametrize("dimension", [2, 24])
def test_with_few_pairs_a_plane_is_fitted(dimension):
    """With many elements a chain can fit only a plane: it has one pair an iteration, and there are far more squares."""
    weights, theta = np.random.default_rng(1).normal(size=(4, dimension)), np.linspace(-0.7, 1.4, dimension)

    def bent(theta):
        return 1.0 + weights @ theta + (weights @ theta) ** 2

    few, enough = 2 * (dimension + 1), 4 * (dimension + 1) * (dimension + 2)
    np.testing.assert_allclose(
        fitted(dimension, lambda theta: 1.0 + weights @ theta, few).predict(theta), 1.0 + weights @ theta, atol=1e-3
    )
    plane, curve = (fitted(dimension, bent, pairs) for pairs in (few, enough))
    assert np.count_nonzero(plane.coefficients.any(axis=1)) == dimension + 1
    np.testing.assert_allclose(curve.predict(theta), bent(theta), rtol=1e-3, atol=1e-3)


def test_prediction_is_bounded_far_away():
    """Beyond six scales a cubic is not to be trusted."""
    predictor = fitted(1, lambda theta: theta[0] ** 3 * np.ones(4), 50)
    np.testing.assert_array_equal(predictor.predict(np.array([100.0])), predictor.predict(np.array([1000.0])))


def test_pairs_that_are_given_twice_change_nothing():
    """The penalty grows with the pairs, and does not fade where there are many."""
    once, twice = ModePredictor(1, 2, np.zeros(1), np.ones(1)), ModePredictor(1, 2, np.zeros(1), np.ones(1))
    thetas = np.linspace(-1.0, 1.0, 12)[:, None]
    for theta in thetas:
        once.add(theta, np.exp(3.0 * theta) * np.ones(2))
    for theta in [*thetas, *thetas]:
        twice.add(theta, np.exp(3.0 * theta) * np.ones(2))
    once.solve()
    twice.solve()
    at = np.array([4.0])
    np.testing.assert_allclose(twice.predict(at), once.predict(at), rtol=1e-10)
    twice.count = 1_000_000
    twice.solve()
    assert abs(twice.predict(at)[0] / once.predict(at)[0] - 1.0) > 1e-4
