"""Run the study: ``python -m case_studies.sparse --scale quick``; a run that is stopped can be resumed."""

from __future__ import annotations

import time

from case_studies.sparse import data, results, study
from case_studies.sparse.study import SCALES, Convergence, Fit, HeldOut
from case_studies.tools.command_line import Kinds, to_run
from case_studies.tools.grid import Grid

KINDS = Kinds(
    {"fits": Fit, "convergence": Convergence, "held_out": HeldOut},
    {"problem": str, "split": int, "kernel": str, "inducing": str, "points": int, "method": str},
    results.FOLDER,
)


def main() -> None:
    """Run what the command line asks for."""
    given = KINDS.arguments("sparse", __doc__, SCALES)
    scale = SCALES[given.scale]
    possible = [unit for unit in KINDS.asked_for(given, study.units(scale)) if data.available(unit.problem)]
    places = results.tables(given.out, scale.name)
    for unit in to_run(given, possible, lambda chosen: results.missing(scale, chosen, places)):
        grid = Grid(given.runs / scale.name, results.settings(scale, unit))
        clock = time.process_time()
        result = study.run(scale, grid, unit)
        places[type(unit)].merge(results.rows(scale, unit, result))
        results.keep_picture(given.out, scale, unit, result)
        print(f"{unit.name:60s} {time.process_time() - clock:7.1f} s", flush=True)


if __name__ == "__main__":
    main()
