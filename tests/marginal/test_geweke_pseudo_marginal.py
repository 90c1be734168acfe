"""Geweke's test of the whole pseudo-marginal step, and broken twins that it must reject."""

from __future__ import annotations

import pytest

from pmgp.core.approximations import ExpectationPropagation, Laplace
from pmgp.core.estimators import (
    AnnealedImportanceSampling,
    ApproximateEvidence,
    ImportanceSampling,
    OrthantSampling,
    SequentialSampling,
    sequential,
)
from pmgp.core.estimators.importance import WeightedParticles
from pmgp.core.estimators.orthant import LatentGivenNoisy
from pmgp.core.marginal.pseudo_marginal import PseudoMarginalChain
from pmgp.core.transitions.adaptive import HamiltonianMonteCarlo
from pmgp.core.transitions.proposals import AdaptiveProposal
from tests.marginal.geweke import change_score, z_score

# Ten statistics are compared: the largest of ten z-scores exceeds 4 once in 1,600 correct runs.
BOUND = 4.0
# Replicates for twins, which are 8 to 26 standard errors off then.
FEWER = 1300


@pytest.mark.parametrize(("delayed_acceptance", "draws"), [(True, 4), (False, 1)])
def test_joint_distribution_is_kept(delayed_acceptance, draws):
    scheme = PseudoMarginalChain(ImportanceSampling(draws), delayed_acceptance=delayed_acceptance, refresh_every=3)
    assert change_score(scheme) < BOUND


def test_joint_distribution_of_the_latent_draws_is_kept():
    assert change_score(PseudoMarginalChain(ImportanceSampling(2), latent_moves=2), use_latent=True) < BOUND


def test_joint_distribution_is_kept_with_expectation_propagation():
    chain = PseudoMarginalChain(ImportanceSampling(2))
    assert change_score(chain, approximation=ExpectationPropagation()) < BOUND


@pytest.mark.parametrize("start", ["approximation", "prior"])
def test_joint_distribution_is_kept_with_annealed_particles(start):
    """A short schedule from Laplace's own q, or from the prior, so that the weights are uneven."""
    estimator = AnnealedImportanceSampling(start, (0.0, 0.1, 0.4, 1.0), draws=2)
    assert change_score(PseudoMarginalChain(estimator), 1500, Laplace(sweeps=0), repeats=4) < BOUND


def by_stages() -> float:
    """With particles that are resampled after every site, in one chain: its mistakes add up over many steps."""
    chain = PseudoMarginalChain(SequentialSampling(3, stages=6, threshold=1.0), refresh_every=2)
    return z_score(chain, steps=3000, approximation=Laplace(sweeps=0))


def test_joint_distribution_is_kept_with_particles_that_are_resampled():
    assert by_stages() < BOUND


def test_resampling_without_regard_to_weights_is_rejected(monkeypatch):
    right = sequential.ancestors
    monkeypatch.setattr(sequential, "ancestors", lambda rng, log_weights, first: right(rng, 0.0 * log_weights, first))
    assert by_stages() > BOUND


def test_joint_distribution_is_kept_with_orthants():
    assert change_score(PseudoMarginalChain(OrthantSampling(2), refresh_every=3), FEWER, Laplace(sweeps=0)) < BOUND


def test_orthants_with_the_noise_left_in_f_are_rejected(monkeypatch):
    """The broken twin: v, which is f with noise, in place of f."""
    monkeypatch.setattr(LatentGivenNoisy, "draw", lambda self, rng, v: v)
    chain = PseudoMarginalChain(OrthantSampling(2), latent_moves=0, refresh_every=3)
    assert change_score(chain, FEWER, Laplace(sweeps=0)) > BOUND


def refreshed_orthants() -> float:
    """Orthants of one draw each, in one chain: what a new set of draws forgets adds up over many steps."""
    chain = PseudoMarginalChain(OrthantSampling(1, "ghk"), refresh_every=1)
    return z_score(chain, steps=6000, approximation=Laplace(sweeps=0))


def test_joint_distribution_is_kept_with_orthants_that_are_refreshed():
    assert refreshed_orthants() < BOUND


def test_orthants_refreshed_without_the_retained_path_are_rejected(monkeypatch):
    def forget(self, rng, approximation, likelihood, retained, draws=None):
        return self.estimate(rng, approximation, likelihood, draws)

    monkeypatch.setattr(OrthantSampling, "estimate_given", forget)
    assert refreshed_orthants() > BOUND


def test_without_an_unbiased_estimate_the_joint_distribution_is_lost():
    chain = PseudoMarginalChain(ApproximateEvidence(), latent_moves=0)
    assert change_score(chain, FEWER, Laplace(sweeps=0)) > BOUND


def refreshed_with_a_poor_q(replicates: int = 2000) -> float:
    """Without moment matching the weights are uneven, and it matters which particle is kept."""
    return change_score(PseudoMarginalChain(ImportanceSampling(2)), replicates, Laplace(sweeps=0))


def test_refreshment_keeps_the_joint_distribution():
    assert refreshed_with_a_poor_q() < BOUND


def test_refreshment_without_the_retained_particle_is_rejected(monkeypatch):
    def forget(self, rng, approximation, likelihood, retained, draws=None):
        return self.estimate(rng, approximation, likelihood, draws)

    monkeypatch.setattr(ImportanceSampling, "estimate_given", forget)
    assert refreshed_with_a_poor_q(FEWER) > BOUND


def test_flipped_hastings_ratio_is_rejected(monkeypatch):
    right = AdaptiveProposal.propose

    def flipped(self, rng, theta):
        proposed = right(self, rng, theta)
        return proposed._replace(log_hastings=-proposed.log_hastings)

    monkeypatch.setattr(AdaptiveProposal, "propose", flipped)
    assert change_score(replicates=FEWER) > BOUND


def test_particle_picked_without_its_weight_is_rejected(monkeypatch):
    def uniformly(self, rng):
        return self.particles[rng.integers(len(self.particles))]

    monkeypatch.setattr(WeightedParticles, "choose", uniformly)
    assert refreshed_with_a_poor_q(FEWER) > BOUND


def test_missing_correction_of_the_screen_is_rejected(monkeypatch):
    """Accepting on the approximation's evidence alone samples its posterior, not the exact one."""

    def screen_only(self, rng, state, current, candidate, screen, frozen):
        return self._estimate(rng, candidate, frozen), 1.0

    monkeypatch.setattr(PseudoMarginalChain, "_accept", screen_only)
    assert refreshed_with_a_poor_q(FEWER) > BOUND


def several_on_the_screen(replicates: int = 2000) -> float:
    """Three transitions between two estimates, under a screen that is off."""
    scheme = PseudoMarginalChain(ImportanceSampling(2), transitions=3)
    return change_score(scheme, replicates, Laplace(sweeps=0))


def test_joint_distribution_is_kept_with_several_transitions_on_the_screen():
    assert several_on_the_screen() < BOUND


def test_a_screen_that_is_counted_once_a_transition_is_rejected(monkeypatch):
    """The broken twin: the correction divides by the ratio of the last transition alone."""
    right = PseudoMarginalChain._candidate

    def last_only(self, rng, current, density, frozen):
        point, _, infos = right(self, rng, current, density, frozen)
        return point, 0.5 * ((point or current).log_density - current.log_density), infos

    monkeypatch.setattr(PseudoMarginalChain, "_candidate", last_only)
    assert several_on_the_screen(FEWER) > BOUND


def test_without_a_screen_there_is_one_transition_that_proposes():
    with pytest.raises(ValueError, match=r"needs transitions=1.* not transitions=2 with IndependenceMixture"):
        PseudoMarginalChain(ImportanceSampling(4), delayed_acceptance=False, transitions=2)
    with pytest.raises(ValueError, match=r"a Metropolis-Hastings proposal .* with HamiltonianMonteCarlo"):
        PseudoMarginalChain(ImportanceSampling(4), HamiltonianMonteCarlo(), delayed_acceptance=False)
