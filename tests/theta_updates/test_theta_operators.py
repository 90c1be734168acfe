"""Transitions of theta: invariance in any coordinates, what they learn while tuning, and what stays afterwards."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pmgp.core.adaptation.scaling import Scaling
from pmgp.core.adaptation.step_size import StepSize
from pmgp.core.theta_updates.densities import JointState, LatentPart
from pmgp.core.theta_updates.schemes import AncillaryScheme, InterweavingScheme
from pmgp.core.transitions.adaptive import HamiltonianMonteCarlo, ManifoldLangevin, RandomWalk
from pmgp.core.transitions.base import NOT_COMPUTED, AdaptiveTransition, Density, Point, TransitionInfo
from pmgp.core.transitions.metric_adaptive import RiemannianMonteCarlo, _FactorizedMetric
from pmgp.interface.steps.transitions import chosen_operator
from tests.latent_updates.broken import (
    fixed_points_after_one_iteration,
    proposals_taken_for_symmetric,
    trajectories_always_accepted,
)
from tests.theta_updates.gibbs_geweke import DifferentiableToy, draw_jointly

OPERATORS = {
    "metropolis": RandomWalk,
    "hmc": HamiltonianMonteCarlo,
    "smmala": ManifoldLangevin,
    "rmhmc": RiemannianMonteCarlo,
}
every_operator = pytest.mark.parametrize("kind", OPERATORS)
FACTOR = np.array([[1.5, 0.0], [-0.9, 0.7]])
SHAPE = np.array([1.5, 4.0])
# The largest of seven z-scores exceeds 4 once in 2,000 correct runs.
BOUND = 4.0


class LogGamma:
    """Two independent logs of gamma variables, sheared: skewed, and correlated. The metric is that of the first one."""

    shear = np.array([[1.0, 0.0], [1.2, 1.0]])
    inverse = np.linalg.inv(shear)

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        return self.shear @ np.log(rng.gamma(SHAPE))

    def at(self, position: np.ndarray, gradient: bool = False) -> Point:
        z = self.inverse @ position
        terms = np.exp(z)
        log_density = float(SHAPE @ z - terms.sum())
        slope = (SHAPE - terms) @ self.inverse if gradient else NOT_COMPUTED
        return Point(position, log_density, "payload", slope)

    def gradient(self, position: np.ndarray) -> np.ndarray:
        return self.at(position, gradient=True).gradient

    def with_metric(self, point: Point, known: Point | None = None) -> Point:
        scale = 0.3 + np.exp(self.inverse @ point.position)
        metric = (self.inverse.T * scale) @ self.inverse
        return point._replace(metric_factor=np.asfortranarray(np.linalg.cholesky(metric)))


class Normal:
    """Three correlated normals on different scales."""

    factor = np.array([[1.0, 0.0, 0.0], [4.0, 1.0, 0.0], [0.1, 0.05, 0.1]])
    precision = np.linalg.inv(factor @ factor.T)

    def at(self, position: np.ndarray, gradient: bool = False) -> Point:
        slope = -self.precision @ position
        return Point(position, 0.5 * float(position @ slope), None, slope if gradient else NOT_COMPUTED)

    def gradient(self, position: np.ndarray) -> np.ndarray:
        return -self.precision @ position

    def with_metric(self, point: Point, known: Point | None = None) -> Point:
        return point._replace(metric_factor=np.asfortranarray(np.linalg.cholesky(self.precision)))


def fixed(operator: AdaptiveTransition, step_size: float, factor: np.ndarray) -> Scaling:
    return operator.start(len(factor), 0)._replace(step_size=StepSize.start(step_size), factor=factor)


def stepped(
    operator: AdaptiveTransition, rng: np.random.Generator, theta: np.ndarray, density: Density, learned: Scaling
) -> tuple[Point, TransitionInfo]:
    """A transition from a point that has what the operator needs."""
    return operator.step(rng, density.at(theta, gradient=operator.derivatives > 0), density, learned)


STEP_SIZES = {"metropolis": 1.0, "hmc": 0.3, "smmala": 1.3, "rmhmc": 0.8}


def invariance_score(kind: str, replicates: int = 1500, repeats: int = 4) -> float:
    """Largest mean change of the moments of independent draws of the target, in standard errors."""
    rng = np.random.default_rng(1)
    target, operator = LogGamma(), OPERATORS[kind](**({"max_leapfrog": 3} if "hmc" in kind else {}))
    adaptation = fixed(operator, STEP_SIZES[kind], FACTOR)
    changes = []
    for _ in range(replicates):
        before = theta = target.draw(rng)
        for _ in range(1 if kind == "rmhmc" else repeats):
            point, _ = stepped(operator, rng, theta, target, adaptation)
            theta = point.position
        changes.append(moments(theta) - moments(before))
    changes = np.array(changes)
    return float(np.max(np.abs(changes.mean(axis=0)) / (changes.std(axis=0) / np.sqrt(replicates))))


def moments(theta: np.ndarray) -> np.ndarray:
    return np.array([*theta, *theta**2, theta[0] * theta[1], *np.tanh(theta)])


@every_operator
def test_invariance_in_any_coordinates(kind):
    assert invariance_score(kind) < BOUND


def metric_without_its_determinant(patch: pytest.MonkeyPatch) -> None:
    """Log|G| / 2 is left out of the energy."""
    patch.setattr(_FactorizedMetric, "log_determinant", 0.0)


@pytest.mark.parametrize(
    ("kind", "breaks"),
    [
        ("smmala", proposals_taken_for_symmetric),
        ("hmc", trajectories_always_accepted),
        ("rmhmc", metric_without_its_determinant),
        ("rmhmc", fixed_points_after_one_iteration),
    ],
)
def test_a_broken_twin_is_rejected(kind, breaks, monkeypatch):
    breaks(monkeypatch)
    assert invariance_score(kind) > BOUND


@every_operator
def test_the_point_returned_is_theta_and_its_density(kind):
    target, operator, rng = LogGamma(), OPERATORS[kind](), np.random.default_rng(0)
    theta, moved = np.array([0.1, 1.5]), 0
    for _ in range(20):
        point, info = stepped(operator, rng, theta, target, fixed(operator, STEP_SIZES[kind], FACTOR))
        assert point.payload == "payload"
        assert point.log_density == pytest.approx(target.at(point.position).log_density)
        assert info.accepted == (not np.array_equal(point.position, theta))
        if not info.accepted:
            assert_array_equal(point.position, theta)
        moved += info.accepted
        theta = point.position
    assert 0 < moved < 20


def test_hybrid_monte_carlo_in_coordinates_is_hybrid_monte_carlo_with_a_mass_matrix():
    """With x = F^-1 theta and a unit mass, theta moves by the mass matrix (F F')^-1 (Algorithm 4 of the article)."""
    target, operator = Normal(), HamiltonianMonteCarlo(max_leapfrog=1)
    theta, F, step = np.array([0.3, -1.0, 0.2]), Normal.factor, 0.4
    point, info = stepped(operator, np.random.default_rng(5), theta, target, fixed(operator, step, F))
    assert info.accepted
    p = np.random.default_rng(5).standard_normal(3)
    half = np.linalg.solve(F.T, p) + 0.5 * step * target.gradient(theta)
    assert_allclose(point.position, theta + step * F @ F.T @ half, rtol=1e-9)


# What is learned


def tuned(kind: str, length: int, seed: int = 0) -> tuple[Scaling, list[Scaling], np.ndarray]:
    """Where tuning ends, the way there, and theta."""
    rng, target, operator = np.random.default_rng(seed), Normal(), OPERATORS[kind]()
    adaptation, theta, path = operator.start(3, length), np.zeros(3), []
    for _ in range(length):
        point, info = stepped(operator, rng, theta, target, adaptation)
        theta = point.position
        adaptation = operator.learn(adaptation, point, info)
        path.append(deepcopy(adaptation))
    return adaptation, path, theta


@every_operator
def test_the_recommended_rate_is_reached(kind):
    adaptation, _, theta = tuned(kind, 1200)
    operator, rng, rates = OPERATORS[kind](), np.random.default_rng(1), []
    for _ in range(1000):
        point, info = stepped(operator, rng, theta, Normal(), operator.freeze(adaptation))
        theta = point.position
        rates.append(info.acceptance_rate)
    assert np.mean(rates) == pytest.approx(operator.target_acceptance, abs=0.08)


@pytest.mark.parametrize("kind", ["metropolis", "hmc"])
def test_coordinates_take_the_covariance_of_the_draws(kind):
    """The condition number of the covariance falls from 2,000 to what a few hundred draws can tell."""
    F = tuned(kind, 3000)[0].factor
    assert_array_equal(F, np.tril(F))
    before = np.linalg.cond(Normal.factor @ Normal.factor.T)
    whitened = np.linalg.solve(F, Normal.factor)
    assert before > 1500.0
    assert np.linalg.cond(whitened @ whitened.T) < before / 50.0


def test_coordinates_change_three_times():
    _, path, _ = tuned("metropolis", 80)
    factors = [np.eye(3), *(adaptation.factor for adaptation in path)]
    changed = [i for i in range(1, 81) if not np.array_equal(factors[i], factors[i - 1])]
    assert changed == [20, 40, 60]
    assert path[19].moments.count == 0
    assert path[-1].moments.count == 20


@pytest.mark.parametrize("kind", ["smmala", "rmhmc"])
def test_a_metric_needs_no_coordinates(kind):
    assert all(np.array_equal(adaptation.factor, np.eye(3)) for adaptation in tuned(kind, 80)[1])


def test_an_identity_mass_stays():
    operator, rng = chosen_operator("hmc-identity", None), np.random.default_rng(0)
    adaptation, theta = operator.start(3, 40), np.zeros(3)
    for _ in range(40):
        point, info = stepped(operator, rng, theta, Normal(), adaptation)
        theta, adaptation = point.position, operator.learn(adaptation, point, info)
    assert_array_equal(adaptation.factor, np.eye(3))
    assert adaptation.iteration == 40


@every_operator
@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_short_tuning(kind, length):
    adaptation = tuned(kind, length)[0]
    assert adaptation.iteration == length
    assert 0.0 < adaptation.step_size.frozen < 10.0
    assert np.isfinite(adaptation.factor).all()


def test_the_step_size_of_trajectories_while_tuning_and_afterwards():
    for kind in ("hmc", "rmhmc"):
        operator = OPERATORS[kind]()
        adaptation = operator.start(2, 10)._replace(step_size=StepSize(np.log(0.04), np.log(0.01), iteration=3))
        for learned, expected in ((adaptation, 0.04), (operator.freeze(adaptation), 0.01)):
            _, info = stepped(operator, np.random.default_rng(0), np.array([0.1, 1.5]), LogGamma(), learned)
            assert info.step_size == pytest.approx(expected)


@pytest.mark.parametrize("kind", [kind for kind in OPERATORS if kind != "rmhmc"])
def test_the_step_size_while_tuning_and_afterwards(kind):
    """The last iterate first, then the average."""
    operator, seen = OPERATORS[kind](), []
    adaptation = operator.start(2, 10)._replace(step_size=StepSize(np.log(0.4), np.log(0.1), iteration=3))

    class Recording(LogGamma):
        def at(self, position, gradient=False):
            seen.append(position)
            return super().at(position, gradient)

    theta = np.array([0.1, 1.5])
    for learned in (adaptation, operator.freeze(adaptation)):
        stepped(operator, np.random.default_rng(0), theta, Recording(), learned)
    # Where the first steps lead, with the same normals.
    first, second = seen[1], seen[len(seen) // 2 + 1]
    assert np.abs(first - theta).max() > 1.5 * np.abs(second - theta).max()


def test_schemes_learn_in_each_stage_only_while_tuning():
    current, model = draw_jointly(np.random.default_rng(0))
    scheme = InterweavingScheme()
    adaptations = scheme.start(2, 10)
    outcome = scheme.step(np.random.default_rng(1), current, model, adaptations, True)
    assert [adaptation.iteration for adaptation in outcome.adaptations] == [1, 1]
    assert len(outcome.infos) == 2
    frozen = scheme.step(np.random.default_rng(1), current, model, outcome.adaptations, False)
    assert [scaling.iteration for scaling in frozen.adaptations] == [1, 1]
    again = scheme.step(np.random.default_rng(1), current, model, frozen.adaptations, False)
    assert again.adaptations == frozen.adaptations


def test_a_theta_without_a_metric_stays(monkeypatch):
    current, model = draw_jointly(np.random.default_rng(0))
    monkeypatch.setattr(DifferentiableToy, "curvature", lambda self, theta, f: np.full((2, 2), np.nan))
    scheme = AncillaryScheme(ManifoldLangevin())
    outcome = scheme.step(np.random.default_rng(1), current, model, scheme.start(2, 0), False)
    assert_array_equal(outcome.current.theta, current.theta)
    assert outcome.current.latent.f is current.latent.f
    assert not outcome.infos[0].accepted


def test_nothing_is_kept_of_the_theta_before():
    """The payload that comes back belongs to the theta that comes back."""
    rng = np.random.default_rng(0)
    current, model = draw_jointly(rng)
    scheme = InterweavingScheme()
    for _ in range(20):
        current = scheme.step(rng, current, model, scheme.start(2, 0), False).current
        assert_array_equal(current.latent.prior.covariance, model.prior(current.theta).covariance)
        assert isinstance(current, JointState)
        assert isinstance(current.latent, LatentPart)


# Refusals

BAD_SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"given": "nuts"}, "unknown operator 'nuts'; known are hmc, hmc-identity, metropolis, mixture, rmhmc, smmala"),
    ({"given": RandomWalk}, r"operator must be an instance, not the class itself: write RandomWalk\(\)"),
    ({"max_leapfrog": 0}, "max_leapfrog must be an integer of at least 1, not 0"),
    ({"max_leapfrog": 2.5}, "not 2.5"),
    ({"target_acceptance": 0.0}, "target_acceptance must lie between 0 and 1, not 0.0"),
    ({"target_acceptance": 1.0}, "not 1.0"),
    ({"target_acceptance": np.nan}, "not nan"),
]


@pytest.mark.parametrize("smallest", [0, 4, 1.5])
def test_the_smallest_number_of_leapfrog_steps_is_checked(smallest):
    with pytest.raises(ValueError, match=f"min_leapfrog must be an integer from 1 to max_leapfrog=3, not {smallest}"):
        HamiltonianMonteCarlo(max_leapfrog=3, min_leapfrog=smallest)


@pytest.mark.parametrize(("settings", "message"), BAD_SETTINGS)
def test_settings_out_of_range_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        chosen_operator(**{"given": "metropolis", "target_acceptance": None} | settings)
