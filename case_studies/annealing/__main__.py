"""Run the study: ``python -m case_studies.annealing --scale quick``; a run that is stopped can be resumed."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

# One core a process: set before NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pandas as pd

from case_studies.annealing import results, study
from case_studies.annealing.study import SCALES, Block, Chain, Scale
from case_studies.tools.grid import Grid
from case_studies.tools.table import Table

RUNS = Path("runs") / "annealing"
FILTERS: dict[str, type] = {
    "data": str,
    "kernel": str,
    "q": str,
    "estimator": str,
    "n_imp": int,
    "chain": int,
    "n": int,
}
PARTS: dict[str, type] = {"table": Chain, "figure": Block}


def rows(scale: Scale, chosen: Iterable[Chain | Block], grid: Grid) -> Iterator[tuple[Chain | Block, pd.DataFrame]]:
    """Units and their lines of the tables, as they are finished."""
    for unit in chosen:
        yield unit, results.rows(scale, unit, study.run(scale, grid, unit))


def write(finished: Iterable[tuple[Chain | Block, pd.DataFrame]], places: dict[type, Table]) -> None:
    """Merge lines into the tables and report each unit."""
    for unit, lines in finished:
        places[type(unit)].merge(lines)
        measure = "acceptance" if isinstance(unit, Chain) else "r"
        print(f"{unit.name:50s} {measure} {lines[measure].median():7.4f}  {lines['seconds'].sum():7.1f} s", flush=True)


def arguments() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m case_studies.annealing", description=__doc__)
    parser.add_argument("--scale", choices=SCALES, default="quick")
    parser.add_argument("--part", choices=PARTS, help="Table I or Figure 2 only")
    for name, kind in FILTERS.items():
        parser.add_argument(f"--{name}", type=kind, nargs="+", metavar=name.upper(), help="only units with these")
    parser.add_argument("--again", action="store_true", help="also what the tables have already")
    parser.add_argument("--runs", type=Path, default=RUNS, help="where finished units are kept")
    parser.add_argument("--out", type=Path, default=results.FOLDER, help="folder of the tables")
    return parser.parse_args()


def selected(units: Iterable[Chain | Block], wanted: dict[str, list | None]) -> list[Chain | Block]:
    """Those units whose fields are among the wanted ones; a unit without such a field is not."""
    given = {name: values for name, values in wanted.items() if values}
    return [unit for unit in units if all(getattr(unit, name, None) in values for name, values in given.items())]


def main() -> None:
    """Run what the command line asks for."""
    given = arguments()
    scale = SCALES[given.scale]
    kinds = (PARTS[given.part],) if given.part else tuple(PARTS.values())
    every = [unit for unit in study.units(scale) if isinstance(unit, kinds)]
    chosen = selected(every, {name: getattr(given, name) for name in FILTERS})
    places = results.tables(given.out, scale.name)
    new = chosen if given.again else results.missing(scale, chosen, places)
    print(f"{len(new)} chains and blocks to run; {len(chosen) - len(new)} of {len(chosen)} are there", flush=True)
    write(rows(scale, new, Grid(given.runs / scale.name, scale.settings())), places)


if __name__ == "__main__":
    main()
