"""The split t: its density is that of its draws, and it finds the skewness of a density."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import gammaln
from scipy.stats import chi2, multivariate_t

from pmgp.core.importance import SplitStudent, effective_size, log_mean, student_at

SKEWED = SplitStudent(
    np.array([0.5, -1.0]), np.array([[1.0, 0.4], [-0.2, 0.6]]), np.array([[2.0, 0.7], [0.5, 1.1]]), 7.0
)
SCALE = np.array([[2.0, 0.9, 0.1], [0.9, 1.0, 0.2], [0.1, 0.2, 0.3]])
SHAPES = np.array([1.5, 1.5, 4.0, 8.0])


def test_with_equal_widths_it_is_the_t():
    center = np.array([1.0, 2.0, 3.0])
    student = SplitStudent.symmetric(center, SCALE, 7.0)
    theta = np.random.default_rng(1).normal(size=(20, 3)) * 3.0
    assert_allclose(student.log_density(theta), multivariate_t(center, SCALE, 7.0).logpdf(theta))
    assert_allclose(student.scale, SCALE)


def test_its_axes_change_as_coordinates_do():
    """In other units an axis is the same one, and stays near its coordinate."""
    units = np.array([10.0, 1.0, 0.01])
    axes = SplitStudent.symmetric(np.zeros(3), SCALE, 7.0).axes
    changed = SplitStudent.symmetric(np.zeros(3), units[:, None] * SCALE * units, 7.0).axes
    assert_allclose(changed, units[:, None] * axes)
    shares = np.square(axes) / np.diag(SCALE)[:, None]
    assert (np.diag(shares) > 0.8).all()


def test_its_density_integrates_to_one():
    """By summation over a grid."""
    grid = np.linspace(-40.0, 40.0, 1001)
    points = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    total = np.exp(SKEWED.log_density(points)).sum() * (grid[1] - grid[0]) ** 2
    assert_allclose(total, 1.0, atol=1e-3)


def quadrants(proposal, draws):
    """The number of draws on either side of the center along both axes, and those expected of a split t."""
    above = np.linalg.solve(proposal.axes, (draws - proposal.center).T).T > 0.0
    counts = np.bincount(2 * above[:, 0] + above[:, 1], minlength=4)
    first, second = (np.array([below, above]) / (above + below) for above, below in proposal.widths.T)
    return counts, len(draws) * np.outer(first, second).ravel()


def test_its_draws_have_its_density():
    draws = SKEWED.sample(np.random.default_rng(1), 40_000)
    counts, expected = quadrants(SKEWED, draws)
    assert chi2.sf(np.square(counts - expected) @ (1.0 / expected), 3) > 1e-4
    squares = np.square(np.linalg.solve(SKEWED.axes, (draws - SKEWED.center).T))
    inverse = np.linalg.inv(SKEWED.axes)
    # A t with seven degrees of freedom has 7 / 5 times its squared scale.
    errors = squares.mean(axis=1) - 1.4 * np.diag(inverse @ SKEWED.scale @ inverse.T)
    assert (np.abs(errors) < 4.0 * squares.std(axis=1) / 200.0).all()
    # The mean ratio of another density to this one is one, if the draws are from this one.
    other = multivariate_t([0.7, -1.2], [[0.8, 0.1], [0.1, 0.3]], 12.0)
    ratios = np.exp(other.logpdf(draws) - SKEWED.log_density(draws))
    assert abs(ratios.mean() - 1.0) < 4.0 * ratios.std() / 200.0 < 0.05


def test_draws_with_equal_chances_on_both_sides_are_rejected():
    twin = SplitStudent(SKEWED.center, SKEWED.axes, np.ones((2, 2)), 7.0)
    counts, expected = quadrants(SKEWED, twin.sample(np.random.default_rng(1), 40_000))
    assert chi2.sf(np.square(counts - expected) @ (1.0 / expected), 3) < 1e-12


def log_gammas(theta):
    """Logs of Gamma variables: skewed to the left."""
    return (SHAPES * theta - np.exp(theta) - gammaln(SHAPES)).sum(axis=-1)


def test_it_finds_the_skewness_of_a_density():
    symmetric = student_at(np.log(SHAPES), np.diag(SHAPES))
    split = symmetric.fitted(log_gammas, log_gammas(symmetric.center))
    assert (split.widths[1] > 1.1).all()
    assert (split.widths[0] < 0.9).all()
    sizes = []
    for proposal in (symmetric, split):
        draws = proposal.sample(np.random.default_rng(1), 4000)
        log_weights = log_gammas(draws) - proposal.log_density(draws)
        mean = log_mean(log_weights)
        assert abs(mean.value) < 4.0 * mean.standard_error < 0.2
        sizes.append(effective_size(log_weights) / 4000)
    assert sizes[1] > sizes[0] + 0.1


@pytest.mark.parametrize(
    ("log_density", "width"), [(lambda theta: 0.0, 3.0), (lambda theta: -np.inf if theta[0] else 0.0, 1 / 3)]
)
def test_widths_are_bounded(log_density, width):
    assert_allclose(student_at(np.zeros(1), np.eye(1)).fitted(log_density, 0.0).widths, width)


def test_without_density_at_the_center_nothing_changes():
    assert_allclose(student_at(np.zeros(1), np.eye(1)).fitted(lambda theta: 0.0, -np.inf).widths, 1.0)
