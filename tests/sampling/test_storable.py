"""A user's own transition, with a learned state of its own class, is stored and resumed once both are registered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import pmgp
from pmgp.core.numerics.storable import storable_types
from pmgp.core.transitions.metropolis_hastings import metropolis_choice
from pmgp.interface.sampling.plain import from_bytes, to_bytes
from tests.sampling.runs import QUIET, SETTINGS, assert_same_run, kill_at, killed, resumed


class Width(NamedTuple):
    log_width: float
    moves: int


@dataclass(frozen=True)
class Walk:
    """A random walk whose width follows its acceptance rate."""

    target: float = 0.3
    derivatives = 0

    def start(self, dimension, length):
        return Width(0.0, 0)

    def step(self, rng, point, density, learned):
        shift = np.exp(learned.log_width) * rng.standard_normal(point.position.shape)
        candidate = density.at(point.position + shift)
        return metropolis_choice(rng, point, candidate, candidate.log_density - point.log_density, 1)

    def learn(self, learned, point, info):
        moves = learned.moves + 1
        return Width(learned.log_width + (info.acceptance_rate - self.target) / moves**0.6, moves)

    def freeze(self, learned):
        return learned


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr("pmgp.core.numerics.storable._registered", storable_types())
    pmgp.steps.storable(Width)
    pmgp.steps.storable(Walk)


@pytest.mark.parametrize("iteration", [25, 90], ids=["tuning", "sampling"])
def test_a_killed_run_with_a_transition_from_outside_gives_the_same_draws(
    iteration, registered, probit_model, tmp_path
):
    step = pmgp.PseudoMarginal(proposal=Walk(), estimator="none", model=probit_model)
    whole = pmgp.sample(probit_model, step=step, **SETTINGS, **QUIET)
    stored = {"out": tmp_path, "callback": kill_at(iteration, 1), "flush_every": 0.0, "step": step}
    killed(lambda: pmgp.sample(probit_model, **stored, **SETTINGS, **QUIET))
    assert_same_run(resumed(tmp_path, probit_model, step=step), whole)


def test_without_being_registered_it_is_refused_with_what_to_do(probit_model, tmp_path):
    step = pmgp.PseudoMarginal(proposal=Walk(), estimator="none", model=probit_model)
    message = rf"type, {__name__}\.W\w+, is not registered.* decorate it with @pmgp\.steps\.storable"
    with pytest.raises(TypeError, match=message):
        pmgp.sample(probit_model, step=step, out=tmp_path, **SETTINGS, **QUIET)


def test_a_class_that_is_not_registered_is_not_read(registered, monkeypatch):
    data = to_bytes(Width(0.5, 3))
    assert from_bytes(data) == Width(0.5, 3)
    monkeypatch.setattr("pmgp.core.numerics.storable._registered", {})
    with pytest.raises(ValueError, match=r"holds a .*Width, which is not registered here: import the module"):
        from_bytes(data)


class Slotted:
    __slots__ = ("value",)


@pytest.mark.parametrize("kind", [object, tuple, Slotted, dataclass(slots=True)(type("Thin", (), {}))])
def test_what_has_no_fields_by_name_cannot_be_registered(kind):
    with pytest.raises(TypeError, match="make it a dataclass without slots, or a NamedTuple"):
        pmgp.steps.storable(kind)
