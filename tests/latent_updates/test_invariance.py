"""Every operator leaves p(f|theta, y) invariant where its moments are known; its broken twins do not."""

from __future__ import annotations

from typing import Any

import pytest

from pmgp.core import latent_updates
from tests.confirmation import confirmed
from tests.latent_updates import targets
from tests.latent_updates.broken import TWINS, Twin
from tests.latent_updates.cases import OPERATORS, VARIANTS, name_of
from tests.latent_updates.chains import BOUND

NOT_OPERATORS = {"LatentUpdate"}
POSTERIORS = ["conjugate", "skewed_pair", "skewed_single"]


def test_every_operator_is_tested():
    assert set(latent_updates.__all__) - NOT_OPERATORS == set(VARIANTS)


def test_every_variant_is_tested():
    assert {operator.proposal for operator in VARIANTS["MetropolisUpdate"]} == set(latent_updates.metropolis.PROPOSALS)
    assert {operator.mass for operator in VARIANTS["HamiltonianUpdate"]} == set(latent_updates.hmc.MASSES)


def cases() -> list[tuple[Any, str]]:
    """Every operator with the posteriors that reject its twins, or with a skewed one where it has no twin."""
    shown = {(name_of(twin.operator), twin.target) for twin in TWINS}
    found = []
    for operator in OPERATORS:
        rejecting = [target for target in POSTERIORS if (name_of(operator), target) in shown]
        found += [(operator, target) for target in rejecting or POSTERIORS[-1:]]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operator", "target"), cases(), ids=lambda case: case if isinstance(case, str) else name_of(case)
)
def test_moments(operator, target):
    posterior = getattr(targets, target)()
    assert confirmed(lambda seed: posterior.distance(operator, seed), BOUND) < BOUND


@pytest.mark.slow
@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: f"{twin.breaks.__name__}-{name_of(twin.operator)}")
def test_a_broken_twin_is_rejected(twin: Twin, monkeypatch):
    target = getattr(targets, twin.target)()
    twin.breaks(monkeypatch)
    assert target.distance(twin.operator) > BOUND
