"""Prints the tables of ``make bench`` and writes them as CSV, with version and machine, where --out says."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.table import Table

import pmgp
from benchmarks import efficiency, evidence, iteration, scheme_iterations, schemes, threads, transitions
from benchmarks.problems import load
from pmgp.estimators import AnnealedImportanceSampling, ImportanceSampling

ITERATION = ("synthetic-100", "crabs", "synthetic-200", "synthetic-400", "breast", "banknote")
EFFICIENCY = ("synthetic-100", "synthetic-200", "synthetic-100-ard", "crabs", "breast")
# Of every table, besides its own columns.
ORIGIN = ["version", "machine", "cores"]
# NUTS needs minutes for what takes seconds here: fewer draws of it keep the run within half an hour.
NUTS_DRAWS = {"synthetic-100": 1000, "synthetic-100-ard": 500, "synthetic-200": 300, "crabs": 200, "breast": 50}


def iteration_rows() -> Iterator[dict]:
    """Every data set with both approximations; then what annealing adds at n = 700 with as many draws."""
    for name in ITERATION:
        for approximation in ("laplace", "ep"):
            yield iteration.measure(load(name), approximation)
    for estimator in (ImportanceSampling(draws=10), AnnealedImportanceSampling(draws=10)):
        yield iteration.measure(load("synthetic-700"), "laplace", estimator)


def efficiency_rows(names: list[str], nuts: bool) -> Iterator[dict]:
    for name in names:
        problem = load(name)
        for approximation in ("laplace", "ep"):
            yield efficiency.measure(problem, f"pmgp {approximation}", draws=2000, tune=1000)
        if nuts:
            number = NUTS_DRAWS.get(name, 500)
            yield efficiency.measure(problem, "nuts", draws=number, tune=number)


def schemes_rows(names: list[str], nuts: bool, kept: Path | None) -> Iterator[dict]:
    """Rows of an interrupted run first, where they are to be kept, then those that are missing."""
    known = [] if kept is None or not kept.exists() else pd.read_csv(kept).drop(columns=ORIGIN).to_dict("records")
    yield from known
    methods = schemes.METHODS if nuts else tuple(schemes.SCHEMES)
    yield from schemes.rows(names, methods, {(row["data"], row["method"]) for row in known})


def show(title: str, rows: Iterator[dict], out: Path | None) -> None:
    """Print the rows, and write them as they come so that an interrupted run keeps what it has."""
    console, done = Console(width=140), []
    for row in rows:
        done.append(row)
        console.print("  ".join(f"{key} {_format(value)}" for key, value in row.items()), style="dim")
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            origin = dict(zip(ORIGIN, (pmgp.__version__, platform.machine(), 2), strict=True))
            frame = pd.DataFrame(done).assign(**origin)
            frame.to_csv(out / f"{title.split(':')[0].replace(' ', '_').lower()}.csv", index=False, float_format="%.4g")
    table = Table(title=title, title_justify="left")
    for key in done[0]:
        table.add_column(key, justify="left" if isinstance(done[0][key], str) else "right")
    for row in done:
        table.add_row(*[_format(value) for value in row.values()])
    console.print(table)


def _format(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


TABLES = ("iteration", "evidence", "efficiency", "scheme-iterations", "schemes", "transitions", "threads")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", choices=TABLES, help="one of the tables")
    parser.add_argument("--data", nargs="+", help="data sets of the tables of efficiency and of schemes")
    parser.add_argument("--without-nuts", action="store_true", help="leave NUTS out")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a chain of the transitions' efficiency")
    parser.add_argument("--out", type=Path, help="folder for CSV files")
    parser.add_argument("--resume", action="store_true", help="keep the rows of schemes.csv in that folder")
    arguments = parser.parse_args()
    tables = TABLES if arguments.only is None else (arguments.only,)
    nuts, out = not arguments.without_nuts, arguments.out
    if "iteration" in tables:
        show("Iteration: time and O(n^3) operations, one BLAS thread", iteration_rows(), out)
    if "evidence" in tables:
        show("Evidence: one log p(y|theta) from theta on, beside other packages, one BLAS thread", evidence.rows(), out)
    if "efficiency" in tables:
        title = "Efficiency: smallest ESS of the hyper-parameters per second, tuning included"
        show(title, efficiency_rows(arguments.data or list(EFFICIENCY), nuts), out)
    if "scheme-iterations" in tables:
        show("Scheme iterations: time over that of one dpotrf, one BLAS thread", scheme_iterations.rows(), out)
    if "schemes" in tables:
        kept = out / "schemes.csv" if arguments.resume and out is not None else None
        title = "Schemes: smallest ESS of the hyper-parameters per second, tuning included, and per O(n^3) operation"
        show(title, schemes_rows(arguments.data or list(schemes.PROBLEMS), nuts, kept), out)
    if "transitions" in tables:
        show("Transitions: time over that of one triangular product, one BLAS thread", transitions.time_rows(), out)
        title = "Transition efficiency: smallest ESS of f per second of sampling, theta fixed, one thread"
        show(title, transitions.efficiency_rows(seconds=arguments.seconds), out)
    if "threads" in tables:
        show("Threads: the README's ten lines, and again with one BLAS thread set in advance", threads.rows(), out)


if __name__ == "__main__":
    main()
