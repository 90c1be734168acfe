"""The page on the architecture: its picture shows the folders' statements, and the names that it follows are there."""

from __future__ import annotations

import ast
import importlib.util
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest

from tests.exercises.loading import exercise
from tests.test_layers import FOLDERS, PACKAGE, allowed_in, name_of, refused

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "architecture.md").read_text(encoding="utf-8")


@cache
def layers() -> ModuleType:
    """The script that draws the picture; docs/ is no package."""
    spec = importlib.util.spec_from_file_location("layers", DOCS / "layers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_folder_is_in_the_picture():
    """But for bands, and folders that are part of another one."""
    names = {name_of(folder / "__init__.py") for folder in FOLDERS}
    shown = {name for folders in layers().bands().values() for name in folders}
    assert shown == {name for name in names - {"core", "interface"} if name.rpartition(".")[0] in layers().BANDS}


def test_arrows_say_what_the_statements_say():
    """In a band, arrows go to what may be imported, and lead to all of it."""
    for band, folders in layers().bands().items():
        reduced = layers().needed(folders)
        for name in folders:
            allowed = allowed_in(PACKAGE.joinpath(*name.split(".")))
            expected = {other for other in folders if other != name and not refused({other}, allowed)}
            assert set(reduced[name]) & set(folders) <= expected, (band, name)
            assert expected <= reached(reduced, name), (band, name)


def reached(arrows: dict[str, list[str]], name: str) -> set[str]:
    return {below for other in arrows.get(name, []) for below in {other, *reached(arrows, other)}}


def test_what_is_imported_stands_lower():
    bands = layers().bands()
    for position, folders in enumerate(bands.values()):
        heights = {name: height for height, row in enumerate(layers().rows(folders)) for name in row}
        assert set(heights) == set(folders)
        for name, others in folders.items():
            assert all(heights[other] < heights[name] for other in others if other in heights)
            assert all(list(bands).index(other) < position for other in others if other not in heights)


def test_boxes_stand_apart_and_inside_of_their_band():
    for number in range(1, 6):
        places = layers()._centered(number)
        assert max(places) + layers().BOX[0] / 2 < layers().HALF
        assert all(right - left > layers().BOX[0] for left, right in pairwise(places))
    assert max(len(row) for folders in layers().bands().values() for row in layers().rows(folders)) <= 5


def test_what_follows_from_other_arrows_is_left_out():
    assert layers().needed({"a": ["b", "c"], "b": ["c"], "c": []}) == {"a": ["b"], "b": ["c"], "c": []}


def test_the_picture_is_the_same_every_time(tmp_path):
    for name in ("one.svg", "two.svg"):
        layers().draw(tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert (tmp_path / "one.svg").stat().st_size > 10_000


SECTION = PAGE.partition("## One iteration followed through the files")[2].partition("\n## ")[0]
ROWS = [line for line in SECTION.splitlines() if line.startswith("| ")][1:]


def defined(path: Path) -> set[str]:
    """Functions and classes of a file, and methods with their class."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return found


def missing(row: str) -> set[str]:
    """Files that are not there, and names that none of the row's files defines."""
    mentioned = set(re.findall(r"`([^`]+)`", re.sub(r"\{math\}`[^`]+`", "", row)))
    paths = {name for name in mentioned if name.endswith(".py")}
    there = {name for name in paths if (PACKAGE / name).is_file()}
    known = {name for path in there for name in defined(PACKAGE / path)}
    return (paths - there) | (mentioned - paths - known)


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_what_an_iteration_passes_through_is_where_the_page_says(number):
    assert ".py" in ROWS[number]
    assert missing(ROWS[number]) == set()


def test_the_iteration_has_all_its_parts():
    assert len(ROWS) >= 16
    assert [part for part in "123" if any(row.startswith(f"| **{part}**") for row in ROWS)] == ["1", "2", "3"]


def test_a_name_that_is_gone_is_noticed():
    assert missing("`core/marginal/evaluation.py`, `Evaluator.prepare`") == set()
    assert missing("`core/marginal/evaluation.py`, `Evaluator.vanish`, `core/no.py`") == {
        "Evaluator.vanish",
        "core/no.py",
    }


@pytest.mark.parametrize("name", ["negative_binomial", "control_variate"])
def test_an_exercise_is_one_short_file_that_the_page_shows(name):
    path = Path(str(exercise(name).__file__))
    assert len(path.read_text(encoding="utf-8").splitlines()) < 80
    page = (DOCS / "exercises.md").read_text(encoding="utf-8")
    assert f"{{literalinclude}} {path.relative_to(DOCS)}" in page
    assert f"`tests/exercises/test_{name}.py`" in page
    assert (DOCS.parent / "tests" / "exercises" / f"test_{name}.py").is_file()
