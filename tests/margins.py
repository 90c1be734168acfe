"""How near statistical tests come to their bounds on other machines: ``python -m tests.margins [FILE...]``.

Draws depend on rounding, and so on the kernels that OpenBLAS chooses for a processor and on its threads. Each file of
tests is run under several of these, with every ``<`` and ``>`` in an ``assert`` recorded. The comparisons whose values
differ between the runs are those that another machine may fail; ``margins.csv`` keeps their worst values, and
``margins_runs.csv`` the runs of each file. An agreement should stay within three quarters of its bound, and a broken
twin should be rejected by twice its bound.

``<=`` and ``>=`` are not recorded: tests write these where equality may occur, which is where a law is checked, such as
that a count does not decrease. A random number with a density equals its bound with probability zero.
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
RUNS = Path(__file__).with_name("margins_runs.csv")
KERNELS = {
    "SkylakeX, 1 thread": ("SkylakeX", 1),
    "Haswell, 1 thread": ("Haswell", 1),
    "Haswell, 2 threads": ("Haswell", 2),
    "SkylakeX, 2 threads": ("SkylakeX", 2),
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


OPERATORS = {"Lt": operator.lt, "Gt": operator.gt}


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


def recordable(node: ast.Compare) -> bool:
    """Whether a comparison is a single strict one by size."""
    return len(node.ops) == 1 and isinstance(node.ops[0], ast.Lt | ast.Gt)


class Comparisons(ast.NodeTransformer):
    """Puts calls of a recorder in the place of the strict comparisons by size in a condition."""

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        if not recordable(node):
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
            for number, limit, ratio in worst_of(name == "Lt", value, bound):
                place = self.item.nodeid.partition("::")
                row = {"file": place[0], "case": place[2], "line": line, "comparison": source}
                with self.path.open("a") as file:
                    file.write(json.dumps(row | {"worst": number, "bound": limit, "ratio": ratio}) + "\n")
        return OPERATORS[name](value, bound)


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
    """Return the files of tests with words of `STATISTICAL` in them, relative to the root, those with most first."""
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    counts = {path.relative_to(ROOT).as_posix(): words(path) for path in paths}
    return sorted(filter(counts.get, counts), key=lambda file: -counts[file])


def words(path: Path) -> int:
    """Return the number of times that words of `STATISTICAL` stand in a file."""
    text = path.read_text().lower()
    return sum(map(text.count, STATISTICAL))


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
    """Return the worst of each comparison whose values differ between runs."""
    found: dict[tuple[str, str], dict[tuple[str, int], list[Margin]]] = defaultdict(lambda: defaultdict(list))
    for name, path in paths:
        for text in path.read_text().splitlines():
            margin = Margin(run=name, **json.loads(text))
            found[margin.file, margin.comparison][margin.case, margin.line].append(margin)
    return [worst(cases.values()) for cases in found.values() if any(map(differ, cases.values()))]


def differ(values: list[Margin]) -> bool:
    """Return whether what one line compared, in the order in which it did, differs between the runs."""
    ratios: dict[str, list[float]] = defaultdict(list)
    for value in values:
        ratios[value.run].append(value.ratio)
    first, *others = ratios.values()
    return any(len(other) != len(first) or not np.allclose(other, first, rtol=SAME, atol=0.0) for other in others)


def worst(cases: Iterable[list[Margin]]) -> Margin:
    rows = [row for values in cases for row in values]
    return (max if "<" in rows[0].comparison else min)(rows, key=lambda row: row.ratio)


def comparisons(file: str) -> set[str]:
    """Return the strict comparisons in a file of tests, as they are recorded."""
    nodes = ast.walk(ast.parse((ROOT / file).read_text()))
    return {ast.unparse(node) for node in nodes if isinstance(node, ast.Compare) and recordable(node)}


def kept(files: set[str]) -> list[Margin]:
    """Return the stored rows of other files than those, where the file still has the comparison."""
    with STORED.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["file"] not in files and (ROOT / row["file"]).exists()]
    rows = [row for row in rows if row["comparison"] in comparisons(row["file"])]
    return [
        Margin(
            row["file"],
            int(row["line"]),
            row["comparison"],
            float(row["worst"]),
            float(row["bound"]),
            float(row["ratio"]),
            row["case"],
            row["run"],
        )
        for row in rows
    ]


def write(rows: list[Margin]) -> None:
    """Write `margins.csv`, narrow rows first."""
    with STORED.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow([*Margin._fields, "narrow"])
        for row in sorted(rows, key=lambda row: (not row.narrow, row.file, row.line)):
            figures = [f"{value:.3g}" for value in (row.worst, row.bound, row.ratio)]
            table.writerow([*row[:3], *figures, *row[6:], "yes" if row.narrow else ""])


def record(runs: dict[str, list[str]]) -> None:
    """Write which files have been run under which kernels, beside those that are on record."""
    with RUNS.open(newline="") as file:
        before = {row["file"]: row["runs"] for row in csv.DictReader(file)}
    with RUNS.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["file", "runs"])
        table.writerows(sorted((before | {name: "; ".join(under) for name, under in runs.items()}).items()))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.margins", description=__doc__)
    parser.add_argument("files", nargs="*", help="of tests; all statistical ones by default")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "margins", help="where finished runs are kept")
    parser.add_argument("--finished", action="store_true", help="run nothing; write what has been run")
    parser.add_argument("--workers", type=int, default=2, help="files that run at a time")
    parser.add_argument("--kernels", type=int, default=len(KERNELS), help="how many of the kernels, two at least")
    given = parser.parse_args()
    names, files = [*KERNELS][: given.kernels], given.files or statistical_files()
    folder = given.folder.resolve()
    if not given.finished:
        with ThreadPoolExecutor(given.workers) as pool:
            list(pool.map(lambda job: run(job[0], job[1], folder), [(file, name) for file in files for name in names]))
    paths = {
        file: {name: path for name in KERNELS if (path := finished(file, name, folder)).exists()} for file in files
    }
    compared = {file: found for file, found in paths.items() if len(found) > 1}
    rows = margins(item for found in compared.values() for item in found.items())
    write([*rows, *kept(set(compared))])
    record({file: [*found] for file, found in compared.items()})
    for row in rows:
        if row.narrow:
            print(
                f"{row.file}:{row.line} {row.comparison}: {row.worst:.3g} is {row.ratio:.2f} of its bound ({row.run})"
            )


if __name__ == "__main__":
    main()
