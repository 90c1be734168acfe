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


def cases() -> list[Any]:
    """Every operator with the posteriors and lengths that reject its twins, or a skewed one where it has no twin."""
    shown: dict[tuple[str, str], Twin] = {}
    for twin in sorted(TWINS, key=lambda twin: twin.times):
        shown[name_of(twin.operator), twin.target] = twin
    found = []
    for operator in OPERATORS:
        twins = [shown[name_of(operator), target] for target in POSTERIORS if (name_of(operator), target) in shown]
        chosen = [(twin.operator, twin.target, twin.times) for twin in twins] or [(operator, POSTERIORS[-1], 1.0)]
        found += [pytest.param(*one, id=f"{name_of(one[0])}-{one[1]}") for one in chosen]
    return found


@pytest.mark.parametrize(("operator", "target", "times"), cases())
def test_moments(operator, target, times):
    posterior = getattr(targets, target)()
    assert confirmed(lambda seed: posterior.distance(operator, seed, times), BOUND) < BOUND


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: f"{twin.breaks.__name__}-{name_of(twin.operator)}")
def test_a_broken_twin_is_rejected(twin: Twin, monkeypatch):
    target = getattr(targets, twin.target)()
    twin.breaks(monkeypatch)
    assert target.distance(twin.operator, times=twin.times) > BOUND
