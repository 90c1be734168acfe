"""How near statistical tests come to their bounds on other machines: ``python -m tests.margins [FILE...]``.

Draws depend on rounding, and so on the kernels that OpenBLAS chooses for a processor and on its threads. Each file of
tests is run under several of these, with every comparison of numbers in an ``assert`` recorded. The comparisons whose
values differ between the runs are those that another machine may fail; ``margins.csv`` keeps their worst values. An
agreement should stay within three quarters of its bound, and a broken twin should be rejected by twice its bound.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import csv
import json
import operator
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from _pytest.assertion import rewrite

ROOT = Path(__file__).parents[1]
STORED = Path(__file__).with_name("margins.csv")
KERNELS = {
    "SkylakeX, 1 thread": ("SkylakeX", 1),
    "Haswell, 2 threads": ("Haswell", 2),
    "Nehalem, 1 thread": ("Nehalem", 1),
}
"""OpenBLAS has no kernels of its own for Zen: it takes Haswell's."""
STATISTICAL = ("z_score", "distance", "geweke", "twin", "broken", "mcse", "standard_error", "standardized", "worst_")
"""Words in the source of a file that has statistical tests."""
SAME = 1e-6
"""Values that differ by less than this share between runs are no random numbers."""
MOST, LEAST = 0.75, 2.0
"""What agreements should keep to, and twins exceed, in units of their bounds."""
TWICE = "> 2.0 * "
"""A twin that is compared with twice the bound."""


OPERATORS = {"Lt": "lt", "LtE": "le", "Gt": "gt", "GtE": "ge"}


class Margin(NamedTuple):
    """A comparison in a test: its worst value over all cases and runs, in units of the bound."""

    file: str
    line: int
    comparison: str
    worst: float
    bound: float
    ratio: float
    case: str
    run: str

    @property
    def narrow(self) -> bool:
        """Whether another machine may fail it; "<" is an agreement, and ">" with a bound above one rejects a twin."""
        if "<" in self.comparison:
            return self.ratio > MOST
        return self.ratio < (1.0 if TWICE in self.comparison else LEAST) and self.bound > 1.0


# In the process that runs one file of tests ---------------------------------------------------------------------------


class Comparisons(ast.NodeTransformer):
    """Puts calls of a recorder in the place of the comparisons by size in a condition."""

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        if len(node.ops) > 1 or not isinstance(node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
            return node
        given = [ast.Constant(node.lineno), ast.Constant(ast.unparse(node)), ast.Constant(type(node.ops[0]).__name__)]
        call = ast.Call(ast.Name("__recorded__", ast.Load()), [*given, node.left, *node.comparators], [])
        return ast.fix_missing_locations(ast.copy_location(call, node))

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node


class InAssertions(ast.NodeTransformer):
    """Looks for comparisons in the conditions of assertions only."""

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        node.test = Comparisons().visit(node.test)
        return node


class Recording:
    """A plug-in of pytest that writes the comparisons of each test to a file, one a line.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path: Path):
        self.path = path
        self.item: pytest.Item | None = None
        builtins.__recorded__ = self.recorded  # type: ignore[attr-defined]
        rewritten = rewrite.rewrite_asserts

        def rewrite_asserts(tree: ast.Module, *arguments: Any, **options: Any) -> None:
            InAssertions().visit(tree)
            rewritten(tree, *arguments, **options)

        rewrite.rewrite_asserts = rewrite_asserts

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self.item = item

    def recorded(self, line: int, source: str, name: str, value: Any, bound: Any) -> Any:
        """Return the comparison's own result."""
        if self.item is not None:
            for number, limit, ratio in worst_of(name.startswith("L"), value, bound):
                place = self.item.nodeid.partition("::")
                row = {"file": place[0], "case": place[2], "line": line, "comparison": source}
                with self.path.open("a") as file:
                    file.write(json.dumps(row | {"worst": number, "bound": limit, "ratio": ratio}) + "\n")
        return getattr(operator, OPERATORS[name])(value, bound)


def worst_of(less: bool, value: Any, bound: Any) -> Iterator[tuple[float, float, float]]:
    """Give the value nearest to its bound, the bound and their ratio; nothing unless both are numbers, and positive."""
    try:
        numbers, limits = np.broadcast_arrays(np.asarray(value, float), np.asarray(bound, float))
    except (TypeError, ValueError):
        return
    if numbers.size == 0 or not (limits > 0).all() or not np.isfinite(numbers).all():
        return
    ratios = numbers / limits
    at = np.unravel_index(np.argmax(ratios) if less else np.argmin(ratios), ratios.shape)
    yield float(numbers[at]), float(limits[at]), float(ratios[at])


def pytest_configure(config: pytest.Config) -> None:
    """Record where the environment says, as a plug-in given by ``-p tests.margins``."""
    if "PMGP_MARGINS" in os.environ:
        config.pluginmanager.register(Recording(Path(os.environ["PMGP_MARGINS"])), "margins")


# In the process that runs all of them ---------------------------------------------------------------------------------


def statistical_files() -> list[str]:
    """Return the files of tests that have a word of `STATISTICAL` in them, relative to the root."""
    found = [
        p for p in sorted((ROOT / "tests").rglob("test_*.py")) if any(w in p.read_text().lower() for w in STATISTICAL)
    ]
    return [path.relative_to(ROOT).as_posix() for path in found]


def finished(file: str, name: str, folder: Path) -> Path:
    """Return the path of a run's comparisons, which is there once the run has ended."""
    return folder / name.replace(", ", "-").replace(" ", "-") / (file.replace("/", ".") + ".jsonl")


def run(file: str, name: str, folder: Path) -> Path:
    """Run one file of tests under some kernels, unless that has been done, and return the path of its comparisons."""
    done = finished(file, name, folder)
    if done.exists():
        return done
    done.parent.mkdir(parents=True, exist_ok=True)
    partial = done.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    kernel, threads = KERNELS[name]
    environment = os.environ | {
        "OPENBLAS_CORETYPE": kernel,
        "OPENBLAS_NUM_THREADS": str(threads),
        "PYTHONPYCACHEPREFIX": str(folder / "pycache"),
        "PMGP_MARGINS": str(partial),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.margins", file]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    print(
        f"{name}: {file}: {ended.stdout.strip().splitlines()[-1] if ended.stdout else ended.stderr}",
        flush=True,
    )
    if ended.returncode not in (0, 1):
        raise RuntimeError(f"pytest ended with {ended.returncode} in {file}:\n{ended.stdout}{ended.stderr}")
    partial.touch()
    return partial.rename(done)


def margins(paths: Iterable[tuple[str, Path]]) -> list[Margin]:
    """Return the worst of each comparison whose value differs between runs, those nearest to their bounds first."""
    found: dict[tuple[str, str], dict[tuple[str, int], list[Margin]]] = defaultdict(lambda: defaultdict(list))
    for name, path in paths:
        for text in path.read_text().splitlines():
            margin = Margin(run=name, **json.loads(text))
            found[margin.file, margin.comparison][margin.case, margin.line].append(margin)
    rows = [worst(cases.values()) for cases in found.values() if any(map(differ, cases.values()))]
    return sorted(rows, key=lambda row: (not row.narrow, row.file, row.line))


def differ(values: list[Margin]) -> bool:
    ratios = [value.ratio for value in values]
    return max(ratios) - min(ratios) > SAME * max(map(abs, ratios))


def worst(cases: Iterable[list[Margin]]) -> Margin:
    rows = [row for values in cases for row in values]
    return (max if "<" in rows[0].comparison else min)(rows, key=lambda row: row.ratio)


def write(rows: list[Margin]) -> None:
    with STORED.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow([*Margin._fields, "narrow"])
        for row in rows:
            figures = [f"{value:.3g}" for value in (row.worst, row.bound, row.ratio)]
            table.writerow([*row[:3], *figures, *row[6:], "yes" if row.narrow else ""])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.margins", description=__doc__)
    parser.add_argument("files", nargs="*", help="of tests; all statistical ones by default")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "margins", help="where finished runs are kept")
    parser.add_argument("--finished", action="store_true", help="run nothing; write what has been run")
    parser.add_argument("--workers", type=int, default=2, help="files that run at a time")
    given = parser.parse_args()
    files = given.files or statistical_files()
    jobs = [(name, file) for name in KERNELS for file in files]
    folder = given.folder.resolve()
    if not given.finished:
        with ThreadPoolExecutor(given.workers) as pool:
            list(pool.map(lambda job: run(job[1], job[0], folder), jobs))
    rows = margins((name, path) for name, file in jobs if (path := finished(file, name, folder)).exists())
    if not given.files:
        write(rows)
    for row in rows:
        if row.narrow:
            print(
                f"{row.file}:{row.line} {row.comparison}: {row.worst:.3g} is {row.ratio:.2f} of its bound ({row.run})"
            )


if __name__ == "__main__":
    main()
