"""The examples in docstrings run, and show what they print."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest

MODULES = [
    "pmgp.interface.distributions.bernoulli",
    "pmgp.interface.distributions.multinomial_logit",
    "pmgp.interface.distributions.ordinal",
    "pmgp.models",
    "pmgp.scores.binary",
    "pmgp.scores.classes",
    "pmgp.scores.ordinal",
]


@pytest.mark.representatives(but=["pmgp.interface.distributions.bernoulli", "pmgp.models"])
@pytest.mark.parametrize("name", MODULES)
def test_examples_print_what_they_show(name):
    result = doctest.testmod(import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 0
    assert result.failed == 0
