"""The examples in docstrings run, and show what they print."""

from __future__ import annotations

import doctest
import re
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import pytest

import pmgp

PACKAGE = Path(__file__).parents[1] / "pmgp"
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def names_with_examples() -> list[str]:
    """Modules with a docstring that has an example."""
    found = [path for path in sorted(PACKAGE.rglob("*.py")) if ">>> " in path.read_text(encoding="utf-8")]
    return [".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in found]


@pytest.mark.parametrize("name", names_with_examples())
def test_examples_print_what_they_show(name):
    result = doctest.testmod(import_module(name), optionflags=OPTIONS)
    assert result.attempted > 0
    assert result.failed == 0


def test_no_example_is_skipped():
    skipping = "doctest: +" + "SKIP"
    assert [path for path in PACKAGE.rglob("*.py") if skipping in path.read_text(encoding="utf-8")] == []


RETURNED = "interface."
"""Where the API's page lists classes that functions return."""
WITHOUT = {
    "deep.JaxLikelihood",
    "gp.OptimizedInducing",
    "gp.compare_with_exact",
    "gp.optimize_inducing",
    "marginal.correct",
}
"""Names whose example is on a page of the documentation, since it takes longer than a docstring's may."""


def names_of_users() -> list[str]:
    """Return the names on the API's page, without results of functions and the numerical core."""
    text = (
        (PACKAGE.parent / "docs" / "api" / "index.md").read_text(encoding="utf-8").partition("## The numerical core")[0]
    )
    names = re.findall(r"^   ([\w.]+)$", text, flags=re.MULTILINE)
    return [name for name in names if not name.startswith(RETURNED)]


@pytest.mark.parametrize("name", names_of_users())
def test_what_users_call_has_an_example(name):
    documented = attrgetter(name)(pmgp).__doc__
    assert (">>> " in documented) == (name not in WITHOUT)
