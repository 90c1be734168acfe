"""Case studies import the package and their shared tools, never each other; the tools import no study."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name

import nbformat
import pytest

import case_studies

ROOT = Path(case_studies.__file__).parent
TOOLS = "tools"
FILES = sorted([*ROOT.rglob("*.py"), *ROOT.rglob("*.ipynb")])


def source(path: Path) -> str:
    """Return the source of a module, or of a notebook's code cells without IPython's own syntax."""
    if path.suffix == ".py":
        return path.read_text(encoding="utf-8")
    cells = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    return "\n".join(line for line in "\n".join(cells).splitlines() if not line.startswith("%"))


def imported(code: str, package: tuple[str, ...]) -> Iterator[str]:
    """Dotted names that code in a package imports, anywhere in it; relative imports are counted from there."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            base = [*start, *([node.module] if node.module else [])]
            yield from (".".join([*base, alias.name]) for alias in node.names)


def refused(code: str, folder: str) -> list[str]:
    """What code in a folder of the case studies imports, and must not: anything of another folder but the tools'."""
    parts = [name.split(".") for name in imported(code, ("case_studies", folder))]
    return [".".join(name) for name in parts if name[0] == "case_studies" and name[1:2] not in ([folder], [TOOLS])]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_study_imports_no_other(path):
    folder = path.relative_to(ROOT).parts[0]
    assert refused(source(path), folder) == []


@pytest.mark.parametrize(
    "line",
    [
        "from case_studies.latent_operators import study",
        "from case_studies.latent_operators.study import SCALES",
        "import case_studies.latent_operators.study as other",
        "from case_studies import latent_operators",
        "from ..latent_operators import study",
        "def late():\n    from case_studies.latent_operators import study",
    ],
)
def test_one_that_does_is_refused(line):
    """The rule on lines of a study, and of the tools: the check above would pass if it refused nothing."""
    assert len(refused(line, "annealing")) == len(refused(line, TOOLS)) == 1
    assert refused(line, "latent_operators") == []


def test_the_tools_and_the_package_are_not():
    lines = ["import pmgp", "from case_studies.tools import grid", "from . import study", "from .study import cells"]
    assert refused("\n".join(lines), "annealing") == []


def test_all_studies_are_looked_at():
    studies = {path.relative_to(ROOT).parts[0] for path in FILES if path.suffix == ".py"} - {"__init__.py"}
    assert {"latent_operators", "parameterizations", "pseudo_marginal", "annealing", TOOLS} < studies
    assert any("import" in source(path) for path in FILES if path.suffix == ".ipynb")


@pytest.mark.parametrize("path", [path for path in FILES if path.suffix == ".ipynb"], ids=lambda path: path.stem)
def test_a_notebook_imports_names_that_exist(path):
    for name in imported(source(path), ()):
        if name.startswith(("case_studies.", "pmgp.")):
            resolve_name(name)


def test_a_name_that_is_gone_is_noticed():
    with pytest.raises(AttributeError):
        resolve_name("case_studies.annealing.__main__.gone")
