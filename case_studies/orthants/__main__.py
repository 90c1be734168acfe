"""Run the study: ``python -m case_studies.orthants --scale quick``; a run that is stopped can be resumed."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from case_studies.orthants import classes, results, study
from case_studies.orthants.study import SCALES, Bias, Block, Extinction, Scale, Setting, Unit
from case_studies.tools.command_line import Kinds, to_run
from case_studies.tools.grid import Grid
from case_studies.tools.spread import spread, workers_of
from case_studies.tools.table import Table
from pmgp.interface.executors import Executors

KINDS = Kinds(
    {"runs": Block, "classes": Setting, "bias": Bias, "extinction": Extinction},
    {"part": str, "which": int, "method": str, "draws": int, "problem": int, "n": int},
)


def run(
    scale: Scale, chosen: Iterable[Unit], grid: Grid, places: dict[type, Table], executor: Executors | None = None
) -> None:
    """Run units, merge their lines into the tables as they end, and report each."""

    def keep(unit: Unit, result: dict[str, Any]) -> None:
        lines = results.rows(scale, unit, result)
        places[type(unit)].merge(lines)
        seconds = f"{lines['seconds'].sum():7.1f} s" if "seconds" in lines else ""
        print(f"{unit.name:50s} {len(lines):3d} lines {seconds}", flush=True)

    spread(chosen, partial(study.run, scale, grid), keep, executor)


def main() -> None:
    """Run what the command line asks for."""
    given = KINDS.arguments("orthants", __doc__, SCALES)
    scale = SCALES[given.scale]
    every = [unit for unit in study.units(scale) if not isinstance(unit, Setting) or classes.available(unit.problem)]
    places = results.tables(given.out, scale.name)
    new = to_run(given, KINDS.asked_for(given, every), lambda chosen: results.missing(scale, chosen, places))
    run(scale, new, Grid(given.runs / scale.name, scale.settings()), places, workers_of(given))


if __name__ == "__main__":
    main()
