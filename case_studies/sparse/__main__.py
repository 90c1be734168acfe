"""Run the study: ``python -m case_studies.sparse --scale quick``; a run that is stopped can be resumed."""

from __future__ import annotations

import time
from argparse import Namespace
from pathlib import Path

from case_studies.sparse import data, results, study
from case_studies.sparse.study import SCALES, Convergence, Fit, HeldOut
from case_studies.tools.command_line import parser, selected
from case_studies.tools.grid import Grid

FILTERS: dict[str, type] = {"problem": str, "split": int, "kernel": str, "inducing": str, "points": int, "method": str}
KINDS: dict[str, type] = {"fits": Fit, "convergence": Convergence, "held_out": HeldOut}


def arguments() -> Namespace:
    """Command line."""
    line = parser("sparse", __doc__, SCALES, FILTERS)
    line.add_argument("--kind", choices=KINDS, help="one of the tables only")
    line.add_argument("--out", type=Path, default=results.FOLDER, help="folder of the tables")
    return line.parse_args()


def main() -> None:
    """Run what the command line asks for."""
    given = arguments()
    scale = SCALES[given.scale]
    every = [unit for unit in study.units(scale) if not given.kind or isinstance(unit, KINDS[given.kind])]
    chosen = selected(every, {name: getattr(given, name) for name in FILTERS})
    possible = [unit for unit in chosen if data.available(unit.problem)]
    places = results.tables(given.out, scale.name)
    new = possible if given.again else results.missing(scale, possible, places)
    print(f"{len(new)} units to run; {len(possible) - len(new)} of {len(chosen)} are there", flush=True)
    for unit in new:
        grid = Grid(given.runs / scale.name, results.settings(scale, unit))
        clock = time.process_time()
        result = study.run(scale, grid, unit)
        places[type(unit)].merge(results.rows(scale, unit, result))
        results.keep_picture(given.out, scale, unit, result)
        print(f"{unit.name:60s} {time.process_time() - clock:7.1f} s", flush=True)


if __name__ == "__main__":
    main()
