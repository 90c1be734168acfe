"""Geweke's test of the pseudo-marginal chain on areas, and a twin that forgets the prior's log-determinant."""

from __future__ import annotations

from dataclasses import fields as fields_of

import numpy as np
import pytest

from pmgp.core.marginal.pseudo_marginal import PseudoMarginalChain
from pmgp.core.markov import PathSampling, PrecisionPrior, fields
from pmgp.core.markov.sparse import SparseFactor
from tests.markov.test_geweke import BOUND, PATHS, Counts, largest_change

# Four areas around a fifth one.
AROUND = np.pad(np.ones((1, 4)), ((0, 4), (1, 0)))
NEIGHBORS = fields.checked_neighbors(AROUND + AROUND.T)
SUMMED = fields.autoregression_on_areas(NEIGHBORS)


class Areas(Counts):
    """Counts on areas: theta is the artanh of alpha, and the log of tau."""

    def prior(self, theta: np.ndarray) -> PrecisionPrior:
        return SUMMED.prior(fields.autoregression_coefficients(np.tanh(theta[0]), np.exp(theta[1])), 0.2)


class WithoutDeterminant(SparseFactor):
    """A twin that forgets the log-determinant."""

    log_determinant = 0.0


class Forgetful(Areas):
    """A prior with a density that is not normalized."""

    def prior(self, theta: np.ndarray) -> PrecisionPrior:
        found = super().prior(theta)
        twin = WithoutDeterminant(*(getattr(found.factor, one.name) for one in fields_of(SparseFactor)))
        found.__dict__["factor"] = twin
        return found


REFRESHED = PseudoMarginalChain(PathSampling(2, width=1, threshold=1.0), latent_moves=0, refresh_every=1)


@pytest.mark.parametrize(
    ("scheme", "seed"), [(PseudoMarginalChain(PATHS, refresh_every=2), 3), (REFRESHED, 1)], ids=["paths", "refreshed"]
)
def test_joint_distributions_are_kept(scheme, seed):
    assert largest_change(scheme, 1000, Areas, seed) < 0.75 * BOUND


def test_a_prior_without_its_log_determinant_is_rejected():
    assert largest_change(PseudoMarginalChain(PATHS, refresh_every=2), 1000, Forgetful) > 2.0 * BOUND
