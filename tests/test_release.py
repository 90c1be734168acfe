"""Several files describe a release; they must agree."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import pmgp

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RECIPE = (ROOT / "conda" / "recipe.yaml").read_text()
CONDA_NAMES = {"matplotlib": "matplotlib-base", "qdldl": "qdldl-python"}


def requirements(lines: list[str]) -> dict[str, str]:
    """Versions by name, of requirements such as ``numpy>=2.1``."""
    return dict(re.fullmatch(r"([\w-]+)(.*)", line).groups() for line in lines)


def recipe_requirements() -> dict[str, str]:
    """Versions by name, of the recipe's packages for a run."""
    run = RECIPE.split("  run:\n")[1].split("\ntests:")[0]
    return dict(re.findall(r"- ([\w-]+) (\S+)$", run, re.MULTILINE))


@pytest.mark.parametrize("file", ["CITATION.cff", "conda/recipe.yaml", "CHANGELOG.md"])
def test_the_version_is_the_same_everywhere(file):
    assert re.search(rf'(version: "?|## ){re.escape(pmgp.__version__)}\b', (ROOT / file).read_text())


def test_the_recipe_asks_for_what_the_package_and_its_command_need():
    needed = requirements([*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["cli"]])
    assert recipe_requirements() == {CONDA_NAMES.get(name, name): version for name, version in needed.items()}


def test_the_workflows_run_the_pythons_that_the_package_names():
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    assert re.findall(r'"(3\.\d+)"', re.search(r"python: \[(.*)\]", workflow).group(1)) == named
    assert f'python_min: "{named[0]}"' in RECIPE
    assert PROJECT["requires-python"] == f">={named[0]}"


def test_the_installation_page_names_what_conda_has_to_bring():
    """All that the command needs; PyMC brings the library's other dependencies, in versions that are new enough."""
    page = (ROOT / "docs" / "installation.md").read_text(encoding="utf-8")
    command = re.search(r"conda create -n pmgp -c conda-forge (.*?)\nconda activate", page, re.DOTALL).group(1)
    named = {re.match(r"[\w-]+", word).group() for word in command.replace("\\", "").replace('"', "").split()}
    needed = requirements(PROJECT["optional-dependencies"]["cli"])
    assert named - set(recipe_requirements()) == {"python", "pip"}
    versions = dict(re.findall(r'"([\w-]+)([<>=].*?)"', command))
    assert versions.items() <= recipe_requirements().items()
    assert {CONDA_NAMES.get(name, name) for name in [*needed, "qdldl", "pymc", "pytensor", "arviz"]} <= named
