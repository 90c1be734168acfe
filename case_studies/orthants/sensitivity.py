"""Why cells of Table 4 differ: ``python -m case_studies.orthants.sensitivity`` repeats some with ten times the draws.

The article chose the particles of its method, and the draws of elliptical slices, so that they took as long as another
program: a million particles in its example, whose number for the table it does not give.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from case_studies.orthants import classes, results, study
from case_studies.orthants.study import COUNTS, EXPERIMENT_4, SCALES, Setting
from case_studies.tools.provenance import provenance
from case_studies.tools.sensitivity import write

__all__ = ["METHODS", "lines"]

METHODS = (COUNTS[1], "ESS")
PROBLEMS = (1, 5, 7)
"""Small ones."""
TIMES = (1, 10)


def lines(problems: tuple[int, ...] = PROBLEMS) -> Iterator[dict[str, Any]]:
    """Distances from the median of all methods, whose draws are those of the study or ten times as many."""
    for problem, hyper, times in product(problems, range(len(classes.HYPERS)), TIMES):
        scale = replace(SCALES["paper"], most=SCALES["paper"].most * times)
        found = study.setting(scale, Setting(problem, hyper), EXPERIMENT_4 | {"ESS": EXPERIMENT_4["ESS"] * times})
        for row in found["rows"]:
            if row["method"] in METHODS:
                kept = {name: row[name] for name in ("method", "draws", "mae_median", "mae_reference", "seconds")}
                yield {"problem": problem, "hyper": hyper} | kept | provenance()


if __name__ == "__main__":
    write(results.FOLDER, lines())
