"""Prints the tables of ``make bench`` and writes them as CSV, with version and machine, where --out says."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from rich import table as rich_table
from rich.console import Console

import pmgp
from benchmarks import (
    accelerator,
    classes,
    cluster,
    efficiency,
    evidence,
    first_draw,
    gradient,
    iteration,
    maps,
    memory,
    orthants,
    peers,
    posterior,
    scheme_iterations,
    schemes,
    solutions,
    sparse,
    threads,
    tiles,
    time_series,
    transitions,
    workers,
)
from benchmarks.problems import load
from pmgp.core.estimators import AnnealedImportanceSampling, ImportanceSampling

ITERATION = ("synthetic-100", "crabs", "synthetic-200", "synthetic-400", "breast", "banknote")
LARGE = "synthetic-700"
# Columns of every table, besides its own.
ORIGIN = ["version", "machine", "cores"]
# Data sets of the efficiency. NUTS needs minutes for what takes seconds here: fewer draws keep the run within half an
# hour.
NUTS_DRAWS = {"synthetic-100": 1000, "synthetic-200": 300, "synthetic-100-ard": 500, "crabs": 200, "breast": 50}
# These take hours, and are made only where they are asked for by name.
ALONE = ("peers", "classes")


class Table(NamedTuple):
    """A table of figures: its title, whose words before the colon name the file, and the data sets it has.

    Attributes
    ----------
    title : str
    data : tuple of str
        Names for :func:`benchmarks.problems.load`; none where what is measured has no data sets of a name.
    rows : callable
        Makes the rows of some of them, with the arguments of the command line.
    """

    title: str
    data: tuple[str, ...]
    rows: Callable[[list[str], argparse.Namespace], Iterator[dict]]


def iteration_rows(names: list[str]) -> Iterator[dict]:
    """Every data set with both approximations; then what annealing adds at n = 700 with as many draws."""
    for name in names:
        if name == LARGE:
            for estimator in (ImportanceSampling(draws=10), AnnealedImportanceSampling(draws=10)):
                yield iteration.measure(load(name), "laplace", estimator)
        else:
            for approximation in ("laplace", "ep"):
                yield iteration.measure(load(name), approximation)


def efficiency_rows(names: list[str], nuts: bool) -> Iterator[dict]:
    for name in names:
        problem = load(name)
        for approximation in ("laplace", "ep"):
            yield efficiency.measure(problem, f"pmgp {approximation}", draws=2000, tune=1000)
        if nuts:
            number = NUTS_DRAWS[name]
            yield efficiency.measure(problem, "nuts", draws=number, tune=number)


def schemes_rows(names: list[str], arguments: argparse.Namespace) -> Iterator[dict]:
    """Rows of an interrupted run first, where they are to be kept, then those that are missing."""
    known = _kept(arguments, "schemes")
    yield from known
    methods = tuple(schemes.SCHEMES) if arguments.without_nuts else schemes.METHODS
    yield from schemes.rows(names, methods, {(row["data"], row["method"]) for row in known})


def peers_rows(names: list[str], arguments: argparse.Namespace) -> Iterator[dict]:
    """The same for the tools; what was not installed, had no data, failed or had a smaller budget is tried again."""
    known = _known_peers(arguments, "peers")
    yield from known
    tools = [tool for tool in peers.TOOLS if not (arguments.without_nuts and tool in peers.NUTS)]
    yield from peers.rows(names, tools, arguments.budget, {(row["data"], row["tool"]) for row in known})


def classes_rows(names: list[str], arguments: argparse.Namespace) -> Iterator[dict]:
    """The same for several classes."""
    known = _known_peers(arguments, "classes")
    yield from known
    done = {(row["data"], row["tool"]) for row in known}
    yield from classes.rows(names, arguments.budget, arguments.without_nuts, done)


def _known_peers(arguments: argparse.Namespace, table: str) -> list[dict]:
    budget = arguments.budget
    return [row for row in _kept(arguments, table) if row["status"] not in peers.MISSING and row["budget"] >= budget]


def sparse_rows(arguments: argparse.Namespace) -> Iterator[dict]:
    """The same for processes on inducing inputs."""
    known = _kept(arguments, "sparse")
    yield from known
    methods = [method for method in sparse.METHODS if not (arguments.without_nuts and method == "NUTS")]
    yield from sparse.rows({(row["data"], row["method"]) for row in known}, methods)


def _kept(arguments: argparse.Namespace, table: str) -> list[dict]:
    """Rows of a table that are there and to be kept."""
    path = None if arguments.out is None else arguments.out / f"{table}.csv"
    if not arguments.resume or path is None or not path.exists():
        return []
    return pd.read_csv(path).drop(columns=ORIGIN).to_dict("records")


TABLES: dict[str, tuple[Table, ...]] = {
    "iteration": (
        Table(
            "Iteration: time and O(n^3) operations, one BLAS thread",
            (*ITERATION, LARGE),
            lambda names, _: iteration_rows(names),
        ),
    ),
    "evidence": (
        Table(
            "Evidence: one log p(y|theta) from theta on, beside other packages, one BLAS thread",
            evidence.PROBLEMS,
            lambda names, _: evidence.rows(names),
        ),
    ),
    "gradient": (
        Table(
            "Gradient: log-evidence with its gradient in theta over the fit alone, one BLAS thread",
            gradient.PROBLEMS,
            lambda names, _: gradient.rows(names),
        ),
    ),
    "orthants": (
        Table(
            "Orthants: spread and time of estimates of log p(y|theta) for probit labels, one BLAS thread",
            (),
            lambda *_: orthants.rows(),
        ),
    ),
    "efficiency": (
        Table(
            "Efficiency: smallest ESS of the hyper-parameters per second, tuning included",
            tuple(NUTS_DRAWS),
            lambda names, arguments: efficiency_rows(names, not arguments.without_nuts),
        ),
    ),
    "scheme-iterations": (
        Table(
            "Scheme iterations: time over that of one dpotrf, one BLAS thread",
            scheme_iterations.PROBLEMS,
            lambda names, _: scheme_iterations.rows(names),
        ),
    ),
    "schemes": (
        Table(
            "Schemes: smallest ESS of the hyper-parameters per second, tuning included, and per O(n^3) operation",
            schemes.PROBLEMS,
            schemes_rows,
        ),
    ),
    "transitions": (
        Table(
            "Transitions: time over that of one triangular product, one BLAS thread",
            (),
            lambda *_: transitions.time_rows(),
        ),
        Table(
            "Transition efficiency: smallest ESS of f per second of sampling, theta fixed, one thread",
            (),
            lambda _, arguments: transitions.efficiency_rows(seconds=arguments.seconds),
        ),
    ),
    "peers": (
        Table(
            "Peers: smallest ESS of the hyper-parameters per second, tuning included, one core, a budget for each tool",
            peers.PROBLEMS,
            peers_rows,
        ),
    ),
    "classes": (
        Table(
            "Classes: smallest ESS of the hyper-parameters per second with a softmax, tuning included, one core",
            classes.PROBLEMS,
            classes_rows,
        ),
        Table(
            "Classes spread: of estimates of log p(y|theta) with 64 importance samples, at points of the posterior",
            classes.PROBLEMS,
            lambda names, _: classes.spread_rows(names),
        ),
    ),
    "sparse": (
        Table(
            "Sparse: smallest ESS of all variables per second of one core, tuning included, on inducing inputs",
            (),
            lambda _, arguments: sparse_rows(arguments),
        ),
        Table(
            "Sparse gradient: processor time over that of its LAPACK and BLAS calls, one thread, and memory",
            (),
            lambda *_: iter([sparse.gradient()]),
        ),
        Table(
            "Sparse first draw: seconds from pm.sample to it, with an empty cache of compiled functions and a full one",
            (),
            lambda *_: sparse.first_draw_rows(),
        ),
    ),
    "time-series": (
        Table(
            "Time series: smallest ESS of the hyper-parameters per processor second, tuning included, one core",
            (),
            lambda *_: time_series.rows(),
        ),
        Table("Prices of time series: processor time, constant per point", (), lambda *_: time_series.prices()),
        Table("Memory of time series: peak of a process above that of compiling", (), lambda *_: memory.rows()),
    ),
    "maps": (
        Table(
            "Maps: processor time for an independent draw of the hyper-parameters, tuning included, one core",
            (),
            lambda *_: maps.rows(),
        ),
        Table(
            "Sweeps on maps: processor time of one, and its ratio to that of a factorization and a selected inverse",
            (),
            lambda *_: maps.sweeps(),
        ),
    ),
    "tiles": (
        Table("Tiles: processor time of a product with K by JAX over NumPy's, one core", (), lambda *_: tiles.rows()),
        Table("Devices: a product with K on two devices of one host", (), lambda *_: tiles.device_rows()),
    ),
    "solutions": (
        Table(
            "Solutions: processor time of a gradient without a factorization over that of one with it, one core",
            solutions.PROBLEMS,
            lambda names, _: solutions.rows(names),
        ),
    ),
    "posterior": (
        Table(
            "Posterior: theta's for thousands of normal observations, time in units of a value, one core",
            posterior.CASES,
            lambda names, _: posterior.rows(names),
        ),
    ),
    "accelerator": (
        Table(
            "Accelerator: a sweep, the chain, inducing inputs, products and depth on JAX's device, beside NumPy",
            (),
            lambda *_: accelerator.rows(),
        ),
    ),
    "threads": (
        Table(
            "Threads: the README's ten lines, and again with one BLAS thread set in advance",
            (),
            lambda *_: threads.rows(),
        ),
    ),
    "first-draw": (
        Table(
            "First draw: seconds from pm.sample to it, with an empty cache of compiled functions and with a full one",
            (),
            lambda *_: first_draw.rows(),
        ),
    ),
    "cluster": (
        Table(
            "Cluster: seconds of chains, cells of a study and importance weights on one worker process and on two",
            (),
            lambda *_: cluster.rows(),
        ),
        Table(
            "Cluster constants: what a model of cost needs besides",
            (),
            lambda *_: cluster.constants(),
        ),
    ),
    "workers": (
        Table(
            "Workers: seconds of a script that draws two chains of 100 points, forked and spawned",
            (),
            lambda *_: workers.rows(),
        ),
    ),
}


BY_DEFAULT = tuple(name for name in TABLES if name not in ALONE)


def data_sets(tables: Iterable[Table]) -> list[str]:
    """Names of all data sets of some tables, each once."""
    return list(dict.fromkeys(name for table in tables for name in table.data))


def chosen(tables: Iterable[Table], names: Collection[str] | None) -> Iterator[tuple[Table, list[str]]]:
    """The tables that have some of the data sets, with those; all of everything where no names are given."""
    for table in tables:
        kept = [name for name in table.data if names is None or name in names]
        if kept or names is None:
            yield table, kept


def show(title: str, rows: Iterator[dict], out: Path | None) -> None:
    """Print the rows, and write them as they come so that an interrupted run keeps what it has."""
    console, done = Console(width=140), []
    for row in rows:
        done.append(row)
        console.print("  ".join(f"{key} {_format(value)}" for key, value in row.items()), style="dim")
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            origin = dict(zip(ORIGIN, (pmgp.__version__, platform.machine(), os.cpu_count()), strict=True))
            frame = pd.DataFrame(done).assign(**origin)
            frame.to_csv(out / f"{title.split(':')[0].replace(' ', '_').lower()}.csv", index=False, float_format="%.4g")
    table = rich_table.Table(title=title, title_justify="left")
    for key in done[0]:
        table.add_column(key, justify="left" if isinstance(done[0][key], str) else "right")
    for row in done:
        table.add_row(*[_format(value) for value in row.values()])
    console.print(table)


def _format(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    result = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    result.add_argument("--only", choices=TABLES, help="one of the tables")
    result.add_argument("--data", nargs="+", metavar="NAME", help="of the tables that have data sets, these only")
    result.add_argument("--without-nuts", action="store_true", help="leave NUTS out")
    result.add_argument("--seconds", type=float, default=5.0, help="length of a chain of the transitions' efficiency")
    result.add_argument("--budget", type=float, default=peers.BUDGET, help="seconds of a tool among its peers")
    result.add_argument("--out", type=Path, help="folder for CSV files")
    result.add_argument(
        "--resume", action="store_true", help="keep the rows of schemes, peers, classes and sparse in that folder"
    )
    return result


def main(words: list[str] | None = None) -> None:
    command_line = parser()
    arguments = command_line.parse_args(words)
    tables = [table for name in ([arguments.only] if arguments.only else BY_DEFAULT) for table in TABLES[name]]
    known = data_sets(tables)
    unknown = [name for name in arguments.data or () if name not in known]
    if unknown:
        has = f"there are {', '.join(known)}" if known else "this table has none to choose from"
        command_line.error(f"--data: no data set {', '.join(unknown)}; {has}")
    for table, names in chosen(tables, arguments.data):
        show(table.title, table.rows(names, arguments), arguments.out)


if __name__ == "__main__":
    main()
