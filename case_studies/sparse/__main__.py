"""Run the study: ``python -m case_studies.sparse --scale quick``; a run that is stopped can be resumed."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

from case_studies.sparse import data, results, study
from case_studies.sparse.study import SCALES, Convergence, Fit, HeldOut, Scale, Unit
from case_studies.tools.command_line import Kinds, to_run
from case_studies.tools.grid import Grid
from case_studies.tools.spread import spread, workers_of

KINDS = Kinds(
    {"fits": Fit, "convergence": Convergence, "held_out": HeldOut},
    {"problem": str, "split": int, "kernel": str, "inducing": str, "points": int, "method": str},
)


def timed(scale: Scale, runs: Path, unit: Unit) -> tuple[dict[str, Any], float]:
    """Return the result of a unit, and the processor seconds that it took."""
    clock = time.process_time()
    result = study.run(scale, Grid(runs / scale.name, results.settings(scale, unit)), unit)
    return result, time.process_time() - clock


def main() -> None:
    """Run what the command line asks for."""
    given = KINDS.arguments("sparse", __doc__, SCALES)
    scale = SCALES[given.scale]
    possible = [unit for unit in KINDS.asked_for(given, study.units(scale)) if data.available(unit.problem)]
    places = results.tables(given.out, scale.name)

    def keep(unit: Unit, found: tuple[dict[str, Any], float]) -> None:
        result, seconds = found
        places[type(unit)].merge(results.rows(scale, unit, result))
        results.keep_picture(given.out, scale, unit, result)
        print(f"{unit.name:60s} {seconds:7.1f} s", flush=True)

    new = to_run(given, possible, lambda chosen: results.missing(scale, chosen, places))
    spread(new, partial(timed, scale, given.runs), keep, workers_of(given))


if __name__ == "__main__":
    main()
