"""A step method of the labels, and runs with it."""

from __future__ import annotations

import pytest

import pmgp
from tests.sampling.runs import QUIET, SETTINGS


@pytest.fixture(scope="module")
def step(probit_model):
    return pmgp.PseudoMarginal(model=probit_model)


@pytest.fixture(scope="module")
def sample(probit_model, step):
    def call(**settings):
        return pmgp.sample(probit_model, **SETTINGS | QUIET | {"step": step} | settings)

    return call
