"""Transitions at the edges: huge steps, trajectories that diverge, likelihoods that are zero, and bad settings."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pmgp.core.gaussians import DensePrior
from pmgp.core.latent_updates import HamiltonianUpdate, LangevinUpdate, MetropolisUpdate
from pmgp.core.transitions.base import Point
from pmgp.core.transitions.metropolis_hastings import metropolis_choice
from tests.latent_updates.cases import GaussianLikelihood, every_model, every_operator, tuned_operators

SIZE = 5


class Unbounded(GaussianLikelihood):
    """Overflows without a word of its own, as a likelihood compiled from a model may."""

    def log_likelihood(self, f):
        return -np.exp(np.square(f)).sum(axis=-1)

    def gradient(self, f):
        return -2.0 * f * np.exp(np.square(f))


class Cliff(GaussianLikelihood):
    """No density at all where an f is above 1."""

    def log_likelihood(self, f):
        return np.where((f > 1.0).any(axis=-1), -np.inf, super().log_likelihood(f))


class Counting(GaussianLikelihood):
    """Counts the calls of its gradient."""

    gradients = 0

    def gradient(self, f):
        self.gradients += 1
        return super().gradient(f)


def prior() -> DensePrior:
    x = np.linspace(0.0, 1.0, SIZE)
    return DensePrior(np.full(SIZE, 0.2), np.asfortranarray(np.exp(-np.abs(x[:, None] - x)) + 0.1 * np.eye(SIZE)))


def gaussian(kind: type = GaussianLikelihood) -> GaussianLikelihood:
    return kind(np.linspace(-0.5, 0.5, SIZE), np.ones(SIZE))


def run(operator, likelihood, step_size: float, steps: int = 30, seed: int = 0) -> tuple[np.ndarray, list]:
    rng = np.random.default_rng(seed)
    target = operator.prepare(prior(), likelihood)
    point, path, infos = operator.init(target, np.zeros(SIZE)), [], []
    for _ in range(steps):
        point, info = operator.step(rng, point, target, step_size)
        path.append(point.payload)
        infos.append(info)
    return np.array(path), infos


def point_at(log_density: float) -> Point:
    return Point(np.zeros(1), log_density, np.zeros(1))


@pytest.mark.parametrize("step_size", [1e3, 1e100, 1e200, 1e307])
@every_model
@tuned_operators
def test_huge_steps_are_refused_without_a_word(operator, model, step_size):
    likelihood = model.likelihood(np.array([0, 1, 1, 0, 1]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path, infos = run(operator, likelihood, step_size, steps=5)
    assert np.isfinite(path).all()
    if operator != MetropolisUpdate("autoregressive"):
        # An autoregressive step cannot be larger than one, a draw from the prior.
        assert_allclose(path, 0.0, atol=1e-12)
        assert not any(info.accepted for info in infos)


@pytest.mark.parametrize("step_size", [0.5, 1e3, 1e200])
@tuned_operators
def test_overflow_is_refused_without_a_word(operator, step_size):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path, _ = run(operator, gaussian(Unbounded), step_size, steps=60)
    assert np.abs(path).max() < 3.0


@every_operator
def test_where_the_likelihood_is_zero_no_chain_goes(operator):
    path, infos = run(operator, gaussian(Cliff), 0.5, steps=200)
    assert path.max() <= 1.0
    assert np.unique(path[:, 0]).size > 50
    assert all(0.0 <= info.acceptance_rate <= 1.0 for info in infos)


@pytest.mark.parametrize(
    ("before", "after", "rate"),
    [
        (0.0, np.log(0.25), 0.25),
        (0.0, 3.0, 1.0),
        (0.0, -np.inf, 0.0),
        (0.0, np.nan, 0.0),
        (0.0, np.inf, 0.0),
        (-np.inf, 0.0, 1.0),
        (-np.inf, -np.inf, 0.0),
    ],
)
def test_acceptance_rates(rng, before, after, rate):
    current, candidate = point_at(before), point_at(after)
    with np.errstate(invalid="ignore"):
        log_ratio = np.float64(after) - before
    chosen = [metropolis_choice(rng, current, candidate, log_ratio, 1) for _ in range(2_000)]
    assert all(info.acceptance_rate == pytest.approx(rate) for _, info in chosen)
    accepted = np.mean([point is candidate for point, _ in chosen])
    assert accepted == np.mean([info.accepted for _, info in chosen])
    # Four standard errors of 2,000 draws; rates of zero and one leave nothing to chance.
    assert abs(accepted - rate) < max(4.0 * np.sqrt(rate * (1.0 - rate) / 2_000), 1e-12)


@tuned_operators
def test_a_refused_proposal_leaves_the_very_point(operator):
    target = operator.prepare(prior(), gaussian())
    point = operator.init(target, np.zeros(SIZE))
    rng = np.random.default_rng(1)
    for _ in range(50):
        after, info = operator.step(rng, point, target, 1.0)
        assert (after is point) == (not info.accepted)
        point = after


@every_operator
def test_the_current_point_is_not_changed_in_place(operator):
    target = operator.prepare(prior(), gaussian())
    point = operator.init(target, np.zeros(SIZE))
    before = [np.copy(part) for part in point]
    operator.step(np.random.default_rng(1), point, target, 0.3)
    for part, copy in zip(point, before, strict=True):
        assert_array_equal(part, copy)


@every_operator
def test_the_same_generator_makes_the_same_chain(operator):
    assert_array_equal(run(operator, gaussian(), 0.3)[0], run(operator, gaussian(), 0.3)[0])
    assert not np.array_equal(run(operator, gaussian(), 0.3)[0], run(operator, gaussian(), 0.3, seed=1)[0])


def test_leapfrog_steps_are_uniform_from_one_to_the_largest():
    _, infos = run(HamiltonianUpdate("prior", max_leapfrog=3), gaussian(), 0.1, steps=900)
    counts = np.bincount([info.evaluations for info in infos], minlength=5)
    assert counts[0] == counts[4] == 0
    # Chi-squared with two degrees of freedom exceeds 18 once in 8,000 runs.
    assert (np.square(counts[1:4] - 300.0) / 300.0).sum() < 18.0


def test_a_trajectory_makes_the_steps_that_it_reports():
    """A step more would leave the same density invariant, and cost what nobody counted."""
    likelihood = gaussian(Counting)
    _, infos = run(HamiltonianUpdate("prior", max_leapfrog=4), likelihood, 0.1)
    # One gradient is where the chain started.
    assert likelihood.gradients == 1 + sum(info.evaluations for info in infos)


def test_small_steps_conserve_the_energy():
    """The error of the energy falls with the cube of the step, for the same number of steps."""
    errors = []
    for step_size in (0.1, 0.05, 0.025):
        _, infos = run(HamiltonianUpdate("prior", max_leapfrog=4), gaussian(), step_size, steps=400)
        errors.append(-np.mean(np.log([info.acceptance_rate for info in infos])))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(3.0, abs=0.5)
    assert np.log2(errors[1] / errors[2]) == pytest.approx(3.0, abs=0.5)


@pytest.mark.parametrize(
    ("operator", "argument", "known"),
    [(MetropolisUpdate, "proposal", "isotropic"), (HamiltonianUpdate, "mass", "identity")],
)
def test_an_unknown_name_is_named(operator, argument, known):
    with pytest.raises(ValueError, match=rf"{argument} must be one of .*{known}.*, not 'v3'"):
        operator("v3")


@pytest.mark.parametrize("max_leapfrog", [0, -3, 2.5])
def test_the_number_of_leapfrog_steps_is_checked(max_leapfrog):
    with pytest.raises(ValueError, match=rf"max_leapfrog must be an integer of at least 1, not {max_leapfrog}"):
        HamiltonianUpdate(max_leapfrog=max_leapfrog)


def test_information_that_is_not_finite_is_refused():
    class Broken(GaussianLikelihood):
        def fisher_information(self, f):
            return np.where(np.abs(f) > 0.1, np.nan, 1.0)

    path, infos = run(LangevinUpdate(), gaussian(Broken), 1.0)
    assert np.abs(path).max() <= 0.1
    assert any(info.acceptance_rate == 0.0 for info in infos)
