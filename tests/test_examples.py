"""The examples in docstrings run, and show what they print."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "pmgp"
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def names_with_examples() -> list[str]:
    """Modules with a docstring that has an example."""
    found = [path for path in sorted(PACKAGE.rglob("*.py")) if ">>> " in path.read_text(encoding="utf-8")]
    return [".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in found]


@pytest.mark.representatives("pmgp.core.numerics.ledger", "pmgp.interface.description", "pmgp.scores.binary")
@pytest.mark.parametrize("name", names_with_examples())
def test_examples_print_what_they_show(name):
    result = doctest.testmod(import_module(name), optionflags=OPTIONS)
    assert result.attempted > 0
    assert result.failed == 0


def test_no_example_is_skipped():
    skipping = "doctest: +" + "SKIP"
    assert [path for path in PACKAGE.rglob("*.py") if skipping in path.read_text(encoding="utf-8")] == []
