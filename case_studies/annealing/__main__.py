"""Run the study: ``python -m case_studies.annealing --scale quick``; a run that is stopped can be resumed."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from case_studies.annealing import results, study
from case_studies.annealing.study import SCALES, Block, Chain, Scale
from case_studies.tools.command_line import Kinds, to_run
from case_studies.tools.grid import Grid
from case_studies.tools.spread import spread, workers_of
from case_studies.tools.table import Table
from pmgp.interface.executors import Executors

KINDS = Kinds(
    {"table": Chain, "figure": Block},
    {
        "data": str,
        "kernel": str,
        "q": str,
        "estimator": str,
        "n_imp": int,
        "chain": int,
        "n": int,
    },
)


def run(
    scale: Scale,
    chosen: Iterable[Chain | Block],
    grid: Grid,
    places: dict[type, Table],
    executor: Executors | None = None,
) -> None:
    """Run units, merge their lines into the tables as they end, and report each."""

    def keep(unit: Chain | Block, result: dict[str, Any]) -> None:
        lines = results.rows(scale, unit, result)
        places[type(unit)].merge(lines)
        measure = "acceptance" if isinstance(unit, Chain) else "r"
        print(f"{unit.name:50s} {measure} {lines[measure].median():7.4f}  {lines['seconds'].sum():7.1f} s", flush=True)

    spread(chosen, partial(study.run, scale, grid), keep, executor)


def main() -> None:
    """Run what the command line asks for."""
    given = KINDS.arguments("annealing", __doc__, SCALES)
    scale = SCALES[given.scale]
    places = results.tables(given.out, scale.name)
    chosen = KINDS.asked_for(given, study.units(scale))
    new = to_run(given, chosen, lambda chosen: results.missing(scale, chosen, places))
    run(scale, new, Grid(given.runs / scale.name, scale.settings()), places, workers_of(given))


if __name__ == "__main__":
    main()
