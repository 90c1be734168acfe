"""Posteriors with several maxima: climbs find them, and the proposal has a share for each."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose

import pmgp
from pmgp.core.importance import (
    Maximum,
    Refitted,
    SplitMixture,
    SplitStudent,
    Start,
    all_maxima,
    dispersed,
    effective_size,
    log_mean,
    maxima,
    student_at,
)
from pmgp.interface.importance import weighing as weighing_module
from pmgp.interface.importance.sampling import begun, target_of
from pmgp.interface.importance.targets import Weighed
from pmgp.interface.importance.weighing import Weighing

SHARES, CENTERS = np.array([0.3, 0.6, 0.1]), np.array([[0.0, 0.0, 0.0], [5.0, -3.0, 1.0], [-2.0, 4.0, 2.0]])
CURVATURES = np.array([np.diag([1.0, 2.0, 0.5]), np.diag([4.0, 1.0, 1.0]), np.diag([1.0, 1.0, 3.0])])
LOG_DETERMINANTS = np.linalg.slogdet(CURVATURES)[1]


def of_normals(theta, shares=SHARES):
    """Return the log-density of a mixture of normal distributions, and its gradient."""
    deviations = theta - CENTERS
    slopes = np.einsum("kij,kj->ki", CURVATURES, deviations)
    logs = np.log(shares) - 0.5 * np.einsum("ki,ki->k", deviations, slopes)
    logs += 0.5 * LOG_DETERMINANTS - 1.5 * np.log(2.0 * np.pi)
    value = np.logaddexp.reduce(logs)
    return value, -np.exp(logs - value) @ slopes


class Counted:
    """A density that knows how often it was computed."""

    def __init__(self, density):
        self._density, self.number = density, 0

    def __call__(self, theta):
        self.number += 1
        return self._density(theta)


FIRST = Maximum(of_normals(CENTERS[0])[0], student_at(CENTERS[0], CURVATURES[0]))


def found(density=of_normals, climbs=40, seed=1):
    return all_maxima(density, [FIRST], dispersed(np.random.default_rng(seed), FIRST.student, climbs))


def test_climbs_find_all_maxima_once():
    ends = found()
    assert ends[0] is FIRST
    assert len(ends) == 3
    for end in ends[1:]:
        [k] = np.flatnonzero(np.linalg.norm(CENTERS - end.student.center, axis=1) < 0.05)
        assert_allclose(end.value, of_normals(CENTERS[k])[0], atol=0.01)
        assert_allclose(end.student.scale, np.linalg.inv(CURVATURES[k]), atol=0.05)


def test_where_there_is_one_maximum_climbs_are_short():
    counted = Counted(lambda theta: of_normals(theta, np.array([1.0, 1e-300, 1e-300])))
    assert found(counted) == [FIRST]
    assert counted.number == 40


def test_a_climb_that_is_not_stopped_finds_a_maximum_again(monkeypatch):
    """The twin goes on where a climb is on the way to a known maximum, and finds nothing more, at a higher price."""
    counted, twin = Counted(of_normals), Counted(of_normals)
    expected = found(counted)
    monkeypatch.setattr(maxima._Climbs, "_homeward", lambda *given: False)
    assert len(found(twin)) == len(expected)
    assert twin.number > 2 * counted.number


def test_a_maximum_without_mass_is_left_out():
    assert len(found(lambda theta: of_normals(theta, np.array([0.4, 0.6, 1e-6])))) == 2


def test_climbs_end_where_there_is_no_density_or_no_maximum():
    def nowhere(theta):
        return -np.inf, np.zeros(3)

    def rising(theta):
        return theta[0], np.array([1.0, 0.0, 0.0])

    def without_gradient(theta):
        return of_normals(theta)[0], np.full(3, np.nan)

    def beside_an_edge(theta):
        value, gradient = of_normals(theta)
        return (value, gradient) if theta[0] < CENTERS[1, 0] else (-np.inf, np.full(3, np.nan))

    assert found(nowhere) == found(rising, climbs=3) == found(without_gradient, climbs=3) == [FIRST]
    assert len(found(beside_an_edge)) == 2


MIXTURE = SplitMixture.about(found())


def test_a_climb_goes_on_where_it_seemed_to_end_on_a_flat_side(monkeypatch):
    """A guess of a large curvature makes short steps along the second axis, on which the maximum is three away."""

    def tailed(theta):
        first, second = theta[0], theta[1] - 3.0
        value = -0.5 * first**2 - np.log1p(second**2)
        return value, np.array([-first, -2.0 * second / (1.0 + second**2)])

    def reached():
        return all_maxima(tailed, [], [Start(np.zeros(2), np.diag([1.0, 1e-3]))])

    [one] = reached()
    assert_allclose(one.student.center, [0.0, 3.0], atol=0.05)
    monkeypatch.setattr(maxima, "MOST_CLIMBS", 1)
    assert reached() == []


def test_the_mixture_is_that_of_its_components_with_shares_by_laplace_s_method():
    order = [int(np.linalg.norm(CENTERS - one.center, axis=1).argmin()) for one in MIXTURE.components]
    assert_allclose(np.exp(MIXTURE.log_shares), SHARES[order], atol=0.01)
    theta = np.random.default_rng(2).normal(size=(5, 3)) * 3.0
    parts = [
        share * np.exp(one.log_density(theta)) for share, one in zip(SHARES[order], MIXTURE.components, strict=True)
    ]
    assert_allclose(np.exp(MIXTURE.log_density(theta)), np.sum(parts, axis=0), rtol=0.05)


@pytest.mark.parametrize("mixture", [MIXTURE, MIXTURE.fitted(lambda theta: of_normals(theta)[0])])
def test_draws_have_the_density_of_the_mixture(mixture):
    draws = mixture.sample(np.random.default_rng(1), 20_000)
    log_weights = np.array([of_normals(theta)[0] for theta in draws]) - mixture.log_density(draws)
    mean = log_mean(log_weights)
    assert abs(mean.value) < 4.0 * mean.standard_error < 0.05
    assert effective_size(log_weights) > 12_000
    weights = np.exp(log_weights - np.logaddexp.reduce(log_weights))
    assert_allclose(weights @ draws, SHARES @ CENTERS, atol=4.0 * 5.0 / np.sqrt(12_000))
    # The twin forgets that components have different volumes.
    twin = SplitMixture(mixture.components, mixture.values + np.array([0.0, 2.0, 0.0]))
    mean = log_mean(log_weights + mixture.log_density(draws) - twin.log_density(draws))
    assert abs(mean.value) > 8.0 * mean.standard_error


SQUARES = [1.4, 1.1, 1.7]


def two_maxima():
    """The square of theta is observed, so that its sign is not known; theta is likely to be positive a priori."""
    with pm.Model() as model:
        theta = pm.Normal("theta", 1.0, 2.0)
        pm.MvNormal("y", theta**2 * np.ones(3), cov=np.eye(3), observed=SQUARES)
    return model


def test_importance_knows_both_signs_of_a_root():
    settings = {"random_seed": 1, "progressbar": False, "start": {"theta": 1.0}}
    idata = pmgp.importance(two_maxima(), draws=400, climbs=200, **settings)
    assert idata.attrs["maxima"] == 2
    grid = np.linspace(-4.0, 4.0, 4001)
    logs = -0.125 * (grid - 1.0) ** 2 - 0.5 * ((grid[:, None] ** 2 - SQUARES) ** 2).sum(axis=1)
    density = np.exp(logs - logs.max())
    weights = np.exp(idata["importance"]["log_weight"].to_numpy())
    theta = idata["importance"]["theta"].to_numpy()[:, 0]
    share = weights[theta > 0.0].sum() / weights.sum()
    assert abs(share - density[grid > 0.0].sum() / density.sum()) < 4.0 * 0.5 / np.sqrt(350)


def test_without_climbs_draws_are_about_one_maximum():
    model = two_maxima()
    target = target_of(model, "auto", "ep", None, None)
    assert begun(model, target, {"theta": 1.0}, None, 1, None, progressbar=False, climbs=0).maxima == 1


@pytest.mark.parametrize("climbs", [-1, True])
def test_words_for_climbs(climbs):
    with pytest.raises(ValueError, match=f"climbs must be an integer of 0 or more, not {climbs}"):
        pmgp.importance(two_maxima(), climbs=climbs)


def test_volumes_are_those_of_the_density_at_the_center():
    student = SplitStudent(np.zeros(2), np.array([[2.0, 0.3], [0.1, 1.0]]), np.array([[1.5, 1.0], [0.5, 2.0]]), 7.0)
    other = student_at(np.zeros(2), np.eye(2))
    difference = other.log_density(np.zeros((1, 2)))[0] - student.log_density(np.zeros((1, 2)))[0]
    assert_allclose(student.log_volume - other.log_volume, difference)


class TwoNormals:
    """Two normal distributions of one parameter, of which the proposal knows the first."""

    size, shares, centers = 1, np.array([0.5, 0.5]), np.array([0.0, 5.0])

    def density(self, theta):
        logs = np.log(self.shares) - 0.5 * (theta - self.centers) ** 2 - 0.5 * np.log(2.0 * np.pi)
        value = np.logaddexp.reduce(logs)
        return value, np.array([np.exp(logs - value) @ (self.centers - theta)])

    climbed = density

    def value(self, theta):
        return self.density(theta)[0]

    def weighed(self, rng, theta):
        return Weighed(self.value(theta), None)

    @property
    def known(self):
        """The proposal about the first maximum alone."""
        return SplitMixture.about([Maximum(self.value(np.zeros(1)), student_at(np.zeros(1), np.eye(1)))])


def weighing(seed, draws):
    found = Weighing(TwoNormals(), TwoNormals().known, np.random.default_rng(seed), None, progressbar=False)
    found.drawn(draws)
    return found


def test_a_climb_from_the_heaviest_draw_finds_a_maximum_that_draws_reach():
    found = weighing(1, 400)
    assert found.maxima == 2
    mean = log_mean(found.log_weights)
    assert abs(mean.value) < 4.0 * mean.standard_error < 0.6
    # Half of the further draws are about the second maximum.
    assert 0.2 < (found.theta[200:] > 2.5).mean() < 0.8


def scores(refitted, monkeypatch, repetitions=800):
    """Return the mean weight of each of many runs with few draws, less one, in standard errors of their mean."""
    monkeypatch.setattr(weighing_module, "Refitted", refitted)
    means = np.array([np.exp(weighing(seed, 20).log_weights).mean() for seed in range(repetitions)])
    return abs(means.mean() - 1.0) / (means.std() / np.sqrt(repetitions))


class FromTheHeaviest(Refitted):
    """The twin: the proposal that leaves out the heaviest draw knows the maximum that was found from it."""

    def __init__(self, first, draws, log_weights, extended):
        [heaviest] = draws[[np.argmax(log_weights)]]
        super().__init__(first, draws, log_weights, lambda theta: extended(heaviest))


def test_weights_are_unbiased_where_maxima_are_found_from_draws(monkeypatch):
    assert scores(Refitted, monkeypatch) < 4.0


def test_a_draw_whose_own_maximum_weighs_it_is_rejected(monkeypatch):
    assert scores(FromTheHeaviest, monkeypatch) > 6.0
