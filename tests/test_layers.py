"""The numerical core never loads PyMC or PyTensor, and imports point one way."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import pmgp

PACKAGE = Path(pmgp.__file__).parent
# Design, section 2: a module may import what stands before it; the members of a group may use each other.
CORE = [
    {"linalg", "quadrature", "threads"},
    {"likelihoods"},
    {"latent"},
    {"approximations"},
    {"operators"},
    {"estimators"},
    {"schemes"},
]
SHELL = {
    "model",
    "compilation",
    "elementwise_graph",
    "graph_likelihood",
    "conjugacy",
    "covariance",
    "covariance_program",
    "derivatives",
    "distributions",
    "evidence",
    "latent_variable",
    "likelihood_terms",
    "maximum",
    "model_checks",
    "numpy_graph",
    "observations",
    "points",
    "prediction",
    "step_methods",
    "theta_function",
}
TOOLS = {"datasets", "diagnostics", "models", "plots", "scores", "recommendation", "app", "cli"}
LAYERS = [*CORE, SHELL, TOOLS]
CORE_NAMES = sorted(set.union(*CORE))
NEEDED_BY_ALL = {"_version"}


def modules() -> list[Path]:
    """Files of the package below its `__init__`."""
    return sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or path.stem[0] != "_")


def family(path: Path) -> str:
    """First part of the module's name: the folder or the file under pmgp/."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def layer_of(name: str) -> int:
    return next(rank for rank, layer in enumerate(LAYERS) if name in layer)


def imported_families(path: Path) -> set[str]:
    """What the file imports of pmgp, anywhere in it, relative imports included."""
    package = ("pmgp", *path.relative_to(PACKAGE).parts[:-1])
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*start, *([node.module] if node.module else [])])
            names += [f"{base}.{alias.name}" for alias in node.names]
    parts = [name.split(".") for name in names]
    return {part[1] for part in parts if part[0] == "pmgp" and len(part) > 1}


def loaded_by(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after a statement."""
    code = f"import sys; {statement}; print(' '.join({{m.split('.')[0] for m in sys.modules}}))"
    command = [sys.executable, "-c", code]
    output = subprocess.run(command, check=True, capture_output=True, text=True, cwd=PACKAGE.parent)
    return set(output.stdout.split())


def test_every_module_has_its_layer():
    assert {family(path) for path in modules()} == set.union(*LAYERS)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    rank = layer_of(family(path))
    known = imported_families(path) & set.union(*LAYERS)
    assert {name for name in known if layer_of(name) > rank} == set()


def test_families_of_the_core_do_not_reach_into_their_own_package_from_below():
    """The rule above would miss a cycle inside a layer: only the lowest one has several families."""
    assert imported_families(PACKAGE / "linalg.py") == set()
    assert imported_families(PACKAGE / "quadrature.py") == set()
    assert imported_families(PACKAGE / "threads.py") == set()


def test_the_core_imports_without_pymc():
    loaded = loaded_by("import " + ", ".join(f"pmgp.{name}" for name in CORE_NAMES))
    assert "pmgp" in loaded
    assert not loaded & {"pymc", "pytensor", "numba", "arviz", "xarray"}


def test_every_file_of_the_core_imports_without_pymc():
    files = [path for path in modules() if family(path) in CORE_NAMES]
    names = [".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in files]
    loaded = loaded_by("import " + ", ".join(name.removesuffix(".__init__") for name in names))
    assert not loaded & {"pymc", "pytensor"}


def test_importing_pmgp_alone_loads_neither():
    assert not loaded_by("import pmgp") & {"pymc", "pytensor", "numpy"}


@pytest.mark.parametrize("name", pmgp.__all__)
def test_every_public_name_resolves(name):
    assert getattr(pmgp, name) is not None
    assert name in dir(pmgp)


def test_other_names_do_not():
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        pmgp.Nonsense  # noqa: B018
