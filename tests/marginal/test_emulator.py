"""An emulator of the screen, the proposals that follow it, Geweke's test of these, and broken twins."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_t

from pmgp.core.adaptation import emulator as emulators
from pmgp.core.adaptation.emulator import VISITED, Emulator, Visited, fitted
from pmgp.core.approximations import Laplace
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.marginal.pseudo_marginal import Frozen, PseudoMarginalChain
from pmgp.core.transitions import proposals
from pmgp.core.transitions.base import Point
from pmgp.core.transitions.mixture import IndependenceMixture, LearnedMixture
from pmgp.core.transitions.proposals import DEGREES_OF_FREEDOM, INDEPENDENT, INFLATION, AdaptiveProposal
from tests.kernels import references
from tests.kernels.references import by_numpy, multiple_trial
from tests.marginal.geweke import largest_change

# The largest of ten z-scores exceeds 4 once in 1,600 correct runs.
BOUND = 4.0
LOCATION, FACTOR = np.array([0.3, -0.5]), np.array([[0.8, 0.0], [-0.4, 0.6]])
INVERSE = np.linalg.inv(FACTOR)


def skewed(theta: np.ndarray) -> np.ndarray:
    """Log-density of the logarithms of two gamma variables, tilted by their product: (size, 2) -> (size,)."""
    a, b = theta.T
    return 2.0 * a - np.exp(a) + 3.0 * b - 2.0 * np.exp(b) - 0.3 * np.exp(0.5 * (a + b))


def around(rng: np.random.Generator, size: int) -> np.ndarray:
    """Positions such as tuning visits."""
    return LOCATION + 1.2 * rng.standard_normal((size, 2)) @ FACTOR.T


def visited(size: int, density=skewed, seed: int = 0) -> Visited:
    rng = np.random.default_rng(seed)
    memory = Visited(2)
    for theta in around(rng, size):
        memory.add(theta, float(density(theta[None])[0]))
    return memory


def test_a_smooth_density_is_emulated_to_hundredths():
    found = fitted(visited(500), LOCATION, INVERSE)
    theta = around(np.random.default_rng(1), 300)
    values = skewed(theta)
    bulk = values > values.max() - 6.0
    assert np.std(found.at(theta)[bulk] - values[bulk]) < 0.02
    # A quadratic alone is far from it.
    assert np.std((found.at(theta) - skewed(theta))[bulk]) < 0.2 * np.std(_quadratic_error(theta[bulk]))


def _quadratic_error(theta: np.ndarray) -> np.ndarray:
    a, b = theta.T
    monomials = np.stack([np.ones(len(a)), a, b, a * a, a * b, b * b], axis=1)
    return skewed(theta) - monomials @ np.linalg.lstsq(monomials, skewed(theta), rcond=None)[0]


def test_a_quadratic_is_found_exactly_wherever_it_is_asked_for():
    def quadratic(theta):
        return 1.0 - theta[:, 0] ** 2 + 0.5 * theta[:, 0] * theta[:, 1] - 2.0 * theta[:, 1] ** 2 + theta[:, 1]

    found = fitted(visited(200, quadratic), LOCATION, INVERSE)
    far = 20.0 * np.random.default_rng(2).standard_normal((20, 2))
    assert_allclose(found.at(far), quadratic(far), rtol=1e-6)


def test_noise_without_a_shape_has_no_emulator():
    """A rough density, and too few values."""
    rng = np.random.default_rng(3)
    assert fitted(visited(500, lambda theta: skewed(theta) + 1.5 * rng.standard_normal()), LOCATION, INVERSE) is None
    assert fitted(visited(emulators.FEWEST - 1), LOCATION, INVERSE) is None
    assert fitted(visited(0), LOCATION, INVERSE) is None


def test_the_last_values_are_kept_and_only_finite_ones():
    memory = Visited(1)
    memory.add(np.array([9.0]), -np.inf)
    memory.add(np.array([9.0]), np.nan)
    assert memory.count == 0
    for number in range(VISITED + 3):
        memory.add(np.array([float(number)]), -float(number))
    positions, values = memory.values
    assert_array_equal(np.sort(positions[:, 0]), np.arange(3, VISITED + 3))
    assert_array_equal(values, -positions[:, 0])


# One transition for the emulated density


def test_multiple_trials_leave_the_density_invariant():
    """From draws of s on five points, by trials of g: the counts stay those of s, and flows balance each other."""
    rng = np.random.default_rng(4)
    s, g = np.array([0.1, 0.3, 0.05, 0.35, 0.2]), np.array([0.4, 0.1, 0.2, 0.1, 0.2])
    log_ratios, flows = np.log(s / g), np.zeros((5, 5))
    number = 40_000
    for start in rng.choice(5, number, p=s):
        points = np.array([start, *rng.choice(5, 3, p=g)])
        flows[start, points[multiple_trial(rng, log_ratios[points])]] += 1
    assert np.abs((flows.sum(axis=0) / number - s) / np.sqrt(s * (1.0 - s) / number)).max() < 4.0
    assert np.abs((flows - flows.T) / np.sqrt(flows + flows.T + 1.0)).max() < 4.0


def test_without_the_chance_to_stay_it_would_not():
    rng = np.random.default_rng(4)
    s, g = np.array([0.1, 0.3, 0.05, 0.35, 0.2]), np.array([0.4, 0.1, 0.2, 0.1, 0.2])
    ratios, counts, number = s / g, np.zeros(5), 40_000
    for _ in range(number):
        points = rng.choice(5, 3, p=g)
        counts[rng.choice(points, p=ratios[points] / ratios[points].sum())] += 1
    assert np.abs((counts / number - s) / np.sqrt(s * (1.0 - s) / number)).max() > 10.0


def emulating(seed: int = 0) -> AdaptiveProposal:
    proposal = AdaptiveProposal(2, independence=1.0, location=LOCATION, factor=FACTOR)
    return proposal.emulating(visited(400, seed=seed))


def test_the_hastings_ratio_is_that_of_the_emulated_density():
    proposal, theta = emulating(), np.array([0.1, 0.2])
    proposed = proposal.propose(np.random.default_rng(5), theta)
    both = np.stack([theta, proposed.position])
    log_t, emulated = proposal._log_t_of(both), proposal.emulator.at(both)
    followed = np.log(np.exp(emulated) + np.exp(proposal.lowest + log_t))
    assert proposed.component == INDEPENDENT
    assert proposed.log_hastings == pytest.approx(followed[0] - followed[1], abs=1e-10)
    # So that what is emulated well is nearly always accepted.
    assert np.diff(skewed(both)) + proposed.log_hastings == pytest.approx(0.0, abs=0.2)


def test_the_t_has_its_share_where_the_emulator_is_far_too_low():
    """A chain that the random walk has led there would not come away by proposals that never go there."""
    proposal = emulating()
    sinking = Emulator(LOCATION, INVERSE, 0.0, np.zeros(2), -50.0 * np.eye(2), np.zeros((1, 2)), np.zeros(1), 1.0)
    wrong = AdaptiveProposal(
        2, independence=1.0, location=LOCATION, factor=FACTOR, emulator=sinking, lowest=proposal.lowest
    )
    theta, rng = LOCATION + 3.0 * FACTOR[:, 0], np.random.default_rng(9)
    log_t = wrong._log_t_of(theta[None])
    assert wrong._log_ratios(theta[None], log_t)[0] == pytest.approx(proposal.lowest)
    right = emulating()
    draws = right._draws_of_t(rng, 20_000)
    ratios = np.exp(np.minimum(right.emulator.at(draws) - right._log_t_of(draws), right.highest))
    assert np.exp(right.lowest) / ratios.mean() == pytest.approx(proposals.SHARE_OF_T, rel=0.1)


def test_far_from_all_values_the_emulated_density_stays_below_the_t():
    """A quadratic that rises outwards has no integral."""
    proposal = emulating()
    rising = Emulator(LOCATION, INVERSE, 0.0, np.zeros(2), np.eye(2), np.zeros((1, 2)), np.zeros(1), 1.0)
    bounded = AdaptiveProposal(
        2, independence=1.0, location=LOCATION, factor=FACTOR, emulator=rising, highest=proposal.highest
    )
    theta, rng = LOCATION + 50.0, np.random.default_rng(6)
    density = multivariate_t(LOCATION, INFLATION**2 * FACTOR @ FACTOR.T, df=DEGREES_OF_FREEDOM)
    far = bounded.propose(rng, theta)
    assert far.log_hastings <= density.logpdf(theta) - density.logpdf(LOCATION) + proposal.highest + 10.0
    assert np.linalg.norm(far.position - LOCATION) < 50.0


class Skewed:
    def at(self, position: np.ndarray, gradient: bool = False) -> Point:
        return Point(position, float(skewed(position[None])[0]), None)


def sampled(transition: IndependenceMixture, length: int = 1000, draws: int = 1000) -> tuple[LearnedMixture, float]:
    """What tuning has learned, and the rate of acceptance afterwards."""
    rng, density, learned = np.random.default_rng(7), Skewed(), transition.start(2, length)
    point, rates = density.at(np.zeros(2)), []
    for _ in range(length):
        point, info = transition.step(rng, point, density, learned)
        learned = transition.learn(learned, point, info)
    learned = transition.freeze(learned)
    for _ in range(draws):
        point, info = transition.step(rng, point, density, learned)
        rates.append(info.acceptance_rate)
    return learned, float(np.mean(rates))


def test_a_chain_that_emulates_accepts_nearly_all():
    learned, rate = sampled(IndependenceMixture(emulates=True))
    assert learned.proposal.emulator is not None
    assert learned.proposal.independence == pytest.approx(0.95)
    assert learned.visited is None
    assert rate > 0.9
    plain, other = sampled(IndependenceMixture())
    assert plain.proposal.emulator is None
    assert other < 0.8


def test_with_too_little_tuning_it_is_the_mixture():
    learned, _ = sampled(IndependenceMixture(emulates=True), length=20)
    assert learned.proposal.emulator is None
    untuned = IndependenceMixture(emulates=True)
    assert untuned.freeze(untuned.start(2, 0)).proposal.independence == 0.0


# Geweke's test: labels change, and the emulator is that of another density


def frozen() -> Frozen:
    location, factor = np.array([0.3, 1.0]), np.array([[0.5, 0.0], [0.1, 0.6]])
    rng, memory = np.random.default_rng(8), Visited(2)
    for theta in location + 1.3 * rng.standard_normal((300, 2)) @ factor.T:
        squares = np.square((theta - [-0.1, 1.4]) / [0.4, 0.8]).sum()
        memory.add(theta, -0.7 * float(squares + 0.3 * np.sin(3.0 * theta[0])))
    proposal = AdaptiveProposal(2, independence=0.9, log_scale=0.0, location=location, factor=factor).emulating(memory)
    assert proposal.emulator is not None
    return Frozen(LearnedMixture.fixed(proposal), None, 2)


def score(replicates: int, **settings) -> float:
    chain = PseudoMarginalChain(ImportanceSampling(2), IndependenceMixture(emulates=True), **settings)
    return largest_change(chain, frozen(), Laplace(sweeps=0), replicates)


@pytest.mark.parametrize("delayed_acceptance", [True, False])
def test_joint_distribution_is_kept(delayed_acceptance):
    assert score(1500, delayed_acceptance=delayed_acceptance) < BOUND


def test_the_ratio_of_the_t_is_rejected(monkeypatch):
    """The broken twin: what is proposed comes from s, and is corrected as if it came from the t."""
    right = AdaptiveProposal._emulated

    def broken(self, rng, theta):
        proposed = right(self, rng, theta)
        log_t = self._log_t_of(np.stack([theta, proposed.position]))
        return proposed._replace(log_hastings=float(log_t[0] - log_t[1]))

    monkeypatch.setattr(AdaptiveProposal, "_emulated", broken)
    assert score(1200) > BOUND


def test_trials_that_never_stay_are_rejected(monkeypatch):
    """The broken twin: with a single trial its ratio is that of the t, and not that of s."""

    def never(rng, log_ratios):
        return 1

    monkeypatch.setattr(references, "multiple_trial", never)
    with by_numpy():
        assert score(1200) > BOUND
