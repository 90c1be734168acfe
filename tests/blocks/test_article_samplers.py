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


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLERS)
def test_the_joint_distribution_is_kept(name):
    assert z_score(SAMPLERS[name]) < BOUND


@pytest.mark.slow
@pytest.mark.parametrize("name", ["e", "f"])
def test_momenta_that_are_never_refreshed_are_rejected(name, monkeypatch):
    """By ten standard errors and more with a third of the draws."""
    momenta_never_refreshed(monkeypatch)
    assert z_score(SAMPLERS[name]._replace(replicates=SAMPLERS[name].replicates // 3)) > BOUND


@pytest.mark.representatives("a", "b", "e")
@pytest.mark.parametrize("name", SAMPLERS)
def test_steps_are_long_enough_to_show_mistakes(name):
    """And proposals accepted often enough."""
    _, rates = changes(SAMPLERS[name]._replace(replicates=60))
    assert (rates > 0.15).all()
    assert (rates < 0.995).all()
