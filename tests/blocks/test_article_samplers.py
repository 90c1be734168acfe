"""Samplers (a) to (f) leave the posterior of weights and latent values invariant; broken twins do not.

The mistakes that a metric of its own invites, no log|G| and fixed points that are none, show more clearly in a single
posterior that is known (`tests/latent_updates/broken.py`, `tests/theta_updates/test_theta_operators.py`).
"""

from __future__ import annotations

import numpy as np
import pytest

from pmgp.core.latent_updates.metrics import PosteriorMetric
from tests.blocks.article_samplers import SAMPLERS, changes, z_score

# Of the largest of 36 z-scores, which exceeds it in one of 4,000 correct runs.
BOUND = 4.5


def momenta_never_refreshed(patch: pytest.MonkeyPatch) -> None:
    """All trajectories begin with the same normals."""
    right = PosteriorMetric.momentum
    patch.setattr(PosteriorMetric, "momentum", lambda self, rng: right(self, np.random.default_rng(0)))


def assert_telling(rates: np.ndarray) -> None:
    """Check that steps are long enough to show mistakes, and that proposals are accepted often enough."""
    assert (rates > 0.15).all()
    assert (rates < 0.995).all()


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_joint_distribution_is_kept(name):
    rows, rates = changes(SAMPLERS[name])
    assert z_score(rows) < BOUND
    assert_telling(rates)


@pytest.mark.parametrize("name", ["e", "f"])
def test_momenta_that_are_never_refreshed_are_rejected(name, monkeypatch):
    """By ten standard errors and more with two thirds of the draws."""
    momenta_never_refreshed(monkeypatch)
    rows, _ = changes(SAMPLERS[name]._replace(replicates=SAMPLERS[name].replicates * 2 // 3))
    assert z_score(rows) > BOUND


@pytest.mark.parametrize("name", ["a", "b", "e"])
def test_steps_are_long_enough_to_show_mistakes(name):
    """The long runs of the other samplers check theirs."""
    assert_telling(changes(SAMPLERS[name]._replace(replicates=60))[1])
