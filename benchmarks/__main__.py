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
from benchmarks import efficiency, iteration
from benchmarks.problems import load

ITERATION = ("synthetic-100", "crabs", "synthetic-200", "synthetic-400", "breast", "banknote")
EFFICIENCY = ("synthetic-100", "synthetic-200", "synthetic-100-ard", "crabs", "breast")
# NUTS needs minutes for what takes seconds here: fewer draws of it keep the run within half an hour.
NUTS_DRAWS = {"synthetic-100": 1000, "synthetic-100-ard": 500, "synthetic-200": 300, "crabs": 200, "breast": 50}


def iteration_rows() -> Iterator[dict]:
    for name in ITERATION:
        for approximation in ("laplace", "ep"):
            yield iteration.measure(load(name), approximation)


def efficiency_rows(names: list[str], nuts: bool) -> Iterator[dict]:
    for name in names:
        problem = load(name)
        for approximation in ("laplace", "ep"):
            yield efficiency.measure(problem, f"pmgp {approximation}", draws=2000, tune=1000)
        if nuts:
            number = NUTS_DRAWS.get(name, 500)
            yield efficiency.measure(problem, "nuts", draws=number, tune=number)


def show(title: str, rows: Iterator[dict], out: Path | None) -> None:
    """Print the rows, and write them as they come so that an interrupted run keeps what it has."""
    console, done = Console(width=140), []
    for row in rows:
        done.append(row)
        console.print("  ".join(f"{key} {_format(value)}" for key, value in row.items()), style="dim")
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            frame = pd.DataFrame(done).assign(version=pmgp.__version__, machine=platform.machine(), cores=2)
            frame.to_csv(out / f"{title.split(':')[0].replace(' ', '_').lower()}.csv", index=False, float_format="%.4g")
    table = Table(title=title, title_justify="left")
    for key in done[0]:
        table.add_column(key, justify="left" if isinstance(done[0][key], str) else "right")
    for row in done:
        table.add_row(*[_format(value) for value in row.values()])
    console.print(table)


def _format(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", choices=("iteration", "efficiency"), help="one of the two tables")
    parser.add_argument("--data", nargs="+", default=list(EFFICIENCY), help="data sets of the efficiency table")
    parser.add_argument("--without-nuts", action="store_true", help="leave NUTS out")
    parser.add_argument("--out", type=Path, help="folder for CSV files")
    arguments = parser.parse_args()
    if arguments.only != "efficiency":
        show("Iteration: time and O(n^3) operations, one BLAS thread", iteration_rows(), arguments.out)
    if arguments.only != "iteration":
        title = "Efficiency: smallest ESS of the hyper-parameters per second, tuning included"
        show(title, efficiency_rows(arguments.data, not arguments.without_nuts), arguments.out)


if __name__ == "__main__":
    main()
