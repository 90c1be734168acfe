"""Signatures and docstrings of the step methods are complete, though what they have in common is written once."""

from __future__ import annotations

import inspect
import re

import pytest
from pymc.step_methods.compound import BlockedStep

import pmgp
from pmgp.core.latent_updates import MetropolisUpdate
from pmgp.interface.steps.base import GaussianProcessStep
from pmgp.interface.steps.public import TEXTS, public_step

PUBLIC = [getattr(pmgp.steps, name) for name in pmgp.steps.__all__]
METHODS = [value for value in PUBLIC if isinstance(value, type) and issubclass(value, BlockedStep)]
OF_PYMC = {"model": None, "rng": None, "initial_point": None, "compile_kwargs": None, "blocked": True}
REQUIRED = {pmgp.steps.LatentStep: {"update": MetropolisUpdate()}}
every_method = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)


def parameters(method) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(method).parameters)


@every_method
def test_every_argument_is_in_the_signature(method):
    found = parameters(method)
    assert next(iter(found)) == "vars"
    assert found.pop("vars").default is None
    assert {parameter.kind for parameter in found.values()} == {inspect.Parameter.KEYWORD_ONLY}
    assert {name: found[name].default for name in OF_PYMC} == OF_PYMC
    assert list(found)[-5:] == list(OF_PYMC)
    if issubclass(method, GaussianProcessStep):
        assert found["latent"].default is None


@every_method
def test_every_argument_is_in_the_docstring(method):
    section = re.search(r"^Parameters\n-+\n(.*?)\n\n\w+\n---", inspect.getdoc(method), re.DOTALL | re.MULTILINE)
    documented = re.findall(r"^(\w[\w, ]*?)(?: : .+)?$", section.group(1), re.MULTILINE)
    assert [name for names in documented for name in names.split(", ")] == list(parameters(method))


@every_method
def test_the_docstring_has_its_sections_and_nothing_is_left_to_fill_in(method):
    text = inspect.getdoc(method)
    headings = re.findall(r"^(\w+)\n-+$", text, re.MULTILINE)
    assert headings[:4] == ["Parameters", "Raises", "Notes", "References"]
    assert "$" not in text
    assert max(map(len, text.splitlines())) <= 120
    for name in method.stats_dtypes_shapes:
        assert f"``{name}``" in text or name == "tune"


@every_method
def test_an_unknown_argument_is_named(probit_model, method):
    message = rf"^{method.__name__}.__init__\(\) got an unexpected keyword argument 'operators'$"
    with pytest.raises(TypeError, match=message):
        method(model=probit_model, operators="hmc", **REQUIRED.get(method, {}))


def test_no_text_is_unused():
    # Each class's own source, before the texts are put in.
    source = "".join(inspect.getsource(method) for method in METHODS)
    assert set(re.findall(r"\$(\w+)", source)) == set(TEXTS)


def test_an_unknown_text_is_refused():
    with pytest.raises(KeyError, match="nonsense"):

        @public_step
        class Some(GaussianProcessStep):
            """A $nonsense."""


def test_without_docstrings():
    """As under `python -OO`."""

    class Some(GaussianProcessStep):
        def __init__(self, vars=None, *, size=1, **others):
            super().__init__(vars, **others)

    assert public_step(Some).__doc__ is None
    assert list(parameters(Some)) == ["vars", "size", "latent", *OF_PYMC]
