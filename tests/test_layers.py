"""Folders say what may be imported in them, and no modules import each other in a circle; the core never loads PyMC.

The last paragraph of a folder's docstring is its statement: "May import: core.numerics, core.likelihoods." Names are
those of folders or modules of the package; what lies below a folder comes with it, and a folder's own modules may
always use each other.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import pmgp

PACKAGE = Path(pmgp.__file__).parent
FOLDERS = sorted(path.parent for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE)
STATEMENT = re.compile(r"May import: ([\w\s,.]+)\.\s*$")
NEEDED_BY_ALL = {"_version"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path, root: Path = PACKAGE) -> str:
    """As it is imported, without the name of the package."""
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix("__init__").removesuffix(".")


def allowed_in(folder: Path) -> list[str]:
    """What the folder's statement lists, and the folder itself."""
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    found = STATEMENT.search(docstring)
    assert found is not None, f"{folder.name} does not say what it may import"
    stated = found.group(1)
    names = [] if stated.startswith("nothing") else [name.strip() for name in stated.split(",")]
    return [*names, name_of(folder / "__init__.py")]


def refused(names: set[str], allowed: list[str]) -> set[str]:
    return {name for name in names if not any(f"{name}.".startswith(f"{one}.") for one in allowed)}


def imported(path: Path, root: Path = PACKAGE) -> set[str]:
    """Modules of the package that the file imports, anywhere in it, relative imports included."""
    package = (root.name, *path.relative_to(root).parts[:-1])
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*start, *([node.module] if node.module else [])])
            names += [f"{base}.{alias.name}" for alias in node.names]
    own = [name.split(".")[1:] for name in names if name.split(".")[0] == root.name]
    return {_module(parts, root) for parts in own} - {""} - NEEDED_BY_ALL


def _module(parts: list[str], root: Path = PACKAGE) -> str:
    """The longest part of a dotted name that is a module."""
    while parts and not (root.joinpath(*parts).is_dir() or root.joinpath(*parts).with_suffix(".py").is_file()):
        parts = parts[:-1]
    return ".".join(parts)


def run_by_import(path: Path, root: Path = PACKAGE) -> set[str]:
    """Modules that the file imports, and the packages that Python runs first: those that the file does not lie in.

    The package as a whole is none of them, since its `__init__` loads names when they are first used.
    """
    modules = imported(path, root)
    packages = {".".join(name.split(".")[:depth]) for name in modules for depth in range(1, name.count(".") + 1)}
    own = name_of(path, root)
    return modules | {name for name in packages if not f"{own}.".startswith(f"{name}.")}


def import_order(root: Path) -> list[str]:
    """All modules of a package, each after those that it imports: also for types alone, or inside a function.

    Raises
    ------
    CycleError
        Where modules import each other in a circle.
    """
    paths = {name_of(path, root): path for path in root.rglob("*.py")}
    graph = {name: run_by_import(path, root) - {name} for name, path in paths.items() if name}
    return list(TopologicalSorter(graph).static_order())


def loaded_by(*statements: str) -> list[set[str]]:
    """Top-level modules that a fresh interpreter has loaded after each of some statements, those before it included."""
    after = "print(*{m.split('.')[0] for m in sys.modules})"
    command = [sys.executable, "-c", "\n".join(["import sys", *(f"{one}; {after}" for one in statements)])]
    output = subprocess.run(command, check=True, capture_output=True, text=True, cwd=PACKAGE.parent)
    return [set(line.split()) for line in output.stdout.splitlines()]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_statements_name_what_is_there(folder):
    for name in allowed_in(folder):
        assert _module(name.split(".")) == name


@pytest.mark.parametrize(
    "path", [path for path in modules() if path.parent != PACKAGE], ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_files_import_what_their_folder_allows(path):
    assert refused(imported(path), allowed_in(path.parent)) == set()


def test_what_reaches_up_is_refused():
    """The rule on a file of the estimators: the check above would pass if it refused nothing."""
    allowed = allowed_in(PACKAGE / "core" / "estimators")
    assert refused({"core.marginal.tuning", "interface.steps", "core.gaussians.dense"}, allowed) == {
        "core.marginal.tuning",
        "interface.steps",
    }


def test_folders_state_no_circle():
    """Between folders; those that lie in each other are one."""
    graph = {}
    for folder in FOLDERS:
        name = name_of(folder / "__init__.py")
        others = [other for other in allowed_in(folder) if not _nested(other, name)]
        graph[name] = others
    TopologicalSorter(graph).prepare()


def _nested(one: str, other: str) -> bool:
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def test_modules_import_each_other_in_no_circle():
    assert {"app.tasks", "core.gaussians.base", "interface.model.taking_apart"} <= set(import_order(PACKAGE))


CIRCLES = {
    "two modules": {"a": "from pack.b import x", "b": "from pack.a import y"},
    "for types": {
        "a": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pack.b import x",
        "b": "import pack.a",
    },
    "in a function": {"a": "def f():\n    from pack import b", "b": "from . import a"},
    "by a folder's names": {
        "problem": "from pack.tasks import TASKS",
        "tasks/__init__": "from pack.tasks.base import TASKS",
        "tasks/base": "from pack.problem import Problem",
    },
    "by a folder that runs first": {
        "settings": "import pack.tasks.base",
        "tasks/__init__": "from pack.settings import Settings",
        "tasks/base": "",
    },
}
STRAIGHT = {
    "tasks/__init__": "from pack.tasks.base import TASKS",
    "tasks/base": "from pack.tasks.other import x",
    "tasks/other": "",
    "problem": "from pack.tasks import TASKS",
}


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in {"__init__": "from pack import problem", **files}.items():
        path = folder / "pack" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "pack"


@pytest.mark.parametrize("circle", CIRCLES)
def test_a_circle_made_on_purpose_is_found(tmp_path, circle):
    with pytest.raises(CycleError):
        import_order(written(tmp_path, CIRCLES[circle]))


def test_folders_that_collect_names_are_no_circle(tmp_path):
    order = import_order(written(tmp_path, STRAIGHT))
    assert order == ["tasks.other", "tasks.base", "tasks", "problem"]


CORE = [path for path in modules() if path.is_relative_to(PACKAGE / "core")]
# Compiled by numba, and loaded where they are first needed.
COMPILED = {"core.orthants.compiled", "core.orthants.compiled_normal"} | {
    name for name in map(name_of, CORE) if name.startswith(("core.markov.compiled.", "core.numerics.compiled."))
}
# These two load the loops, and name what they return.
COMPILED -= {"core.numerics.compiled.loading", "core.numerics.compiled.outcomes"}


@pytest.fixture(scope="module")
def loaded() -> list[set[str]]:
    """Return the modules that are loaded once the core is imported, and once its compiled loops are as well."""
    core = ", ".join(f"pmgp.{name_of(path)}" for path in CORE if name_of(path) not in COMPILED)
    loops = ", ".join(f"pmgp.{name}" for name in sorted(COMPILED))
    return loaded_by(f"import {core}", f"import {loops}")


def test_importing_pmgp_alone_loads_neither():
    [alone] = loaded_by("import pmgp")
    assert "pmgp" in alone
    assert not alone & {"pymc", "pytensor", "numpy"}


def test_the_core_imports_without_pymc(loaded):
    assert "numpy" in loaded[0]
    assert not loaded[0] & {"pymc", "pytensor", "numba", "arviz", "xarray"}


def test_compiled_loops_need_no_pymc(loaded):
    assert "numba" in loaded[1]
    assert not loaded[1] & {"pymc", "pytensor", "arviz", "xarray"}


def test_what_samples_loads_no_arviz():
    """It takes seconds, twice as many where JAX is, and each spawned worker would pay for it."""
    [sampling] = loaded_by("import pmgp.interface.sampling, pmgp.gp, pmgp.steps")
    assert "pymc" in sampling
    assert not sampling & {"arviz", "matplotlib", "jax"}


# Prints the modules that can be imported where there is no numba.
WITHOUT_NUMBA = """
import importlib, sys
sys.modules["numba"] = None
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        assert error.name == "numba", error
    else:
        print(name)
"""


def test_compiled_loops_need_numba():
    """One module that needs none, and so can be imported, is told from them."""
    other = "pmgp.core.numerics.linalg"
    command = [sys.executable, "-c", WITHOUT_NUMBA, *(f"pmgp.{name}" for name in sorted(COMPILED)), other]
    run = subprocess.run(command, check=True, capture_output=True, text=True, cwd=PACKAGE.parent)
    assert run.stdout.split() == [other]


@pytest.mark.parametrize("name", pmgp.__all__)
def test_every_public_name_resolves(name):
    assert getattr(pmgp, name) is not None
    assert name in dir(pmgp)


@pytest.mark.parametrize("family", ["approximations", "estimators", "likelihoods", "marginal", "orthants", "steps"])
def test_the_api_pages_list_every_name_of_a_family(family):
    listed = set((PACKAGE.parent / "docs" / "api" / "index.md").read_text().split())
    names = getattr(pmgp, family).__all__
    assert [name for name in names if not {name, f"{family}.{name}"} & listed] == []


def test_other_names_do_not():
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        pmgp.Nonsense  # noqa: B018
