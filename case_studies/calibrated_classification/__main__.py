"""Run the study: ``python -m case_studies.calibrated_classification``; a run that is stopped can be resumed."""

from __future__ import annotations

from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from itertools import groupby

import pandas as pd

from case_studies.calibrated_classification import data, results, study
from case_studies.calibrated_classification.results import Tables
from case_studies.calibrated_classification.study import SCALES, Block, Scale, Unit
from case_studies.tools.command_line import parser
from case_studies.tools.grid import Finished, Grid, Result
from case_studies.tools.spread import spread, workers_of
from pmgp.interface.executors import Executors


def run(scale: Scale, chosen: Iterable[Block], grid: Grid, tables: Tables, executor: Executors | None = None) -> None:
    """Run the blocks round by round; the rows of a block are written after each of its rounds."""
    known: dict[Block, dict[Unit, Result]] = defaultdict(dict)
    for _, blocks in groupby(study.rounds(scale, chosen), key=lambda one: one[1]):
        wanted = {block: study.units(block, splits) for block, splits in blocks}

        def keep(unit: Unit, one: Finished, wanted: dict[Block, list[Unit]] = wanted) -> None:
            block = Block(unit.data, unit.n)
            known[block][unit] = one.result
            if all(each in known[block] for each in wanted[block]):
                write(scale, block, known[block], tables)

        units = [unit for block in wanted for unit in wanted[block]]
        spread(units, partial(grid.complete, partial(study.run_unit, scale)), keep, executor)


def write(scale: Scale, block: Block, found: dict[Unit, Result], tables: Tables) -> None:
    """Merge the rows of a block into the tables: what each classifier gave on all splits so far."""
    grouped = by_method(found)
    rows = results.rows(scale, block, grouped)
    tables.scores.merge(pd.DataFrame(rows))
    tables.histograms.merge(pd.DataFrame(results.histograms(block, grouped)))
    capacities = "  ".join(f"{row['method']} {row['capacity_accuracy']:.4f}" for row in rows)
    print(f"{block.data:10s} n = {block.n:3d} {rows[0]['splits']:3d} splits: {capacities}", flush=True)


def by_method(found: dict[Unit, Result]) -> dict[str, list[Result]]:
    """Return the results of each classifier, in the order of the splits."""
    units = sorted(found, key=lambda unit: unit.split)
    return {method: [found[unit] for unit in units if unit.method == method] for method in study.CLASSIFIERS}


def arguments() -> Namespace:
    """Command line."""
    line = parser("calibrated_classification", __doc__, SCALES)
    line.add_argument("--data", choices=data.NAMES, nargs="+", default=list(data.NAMES), help="only these data sets")
    line.add_argument("--n", type=int, choices=data.SIZES, nargs="+", default=data.SIZES, help="only these sizes")
    return line.parse_args()


def missing(scale: Scale, chosen: Iterable[Block], tables: Tables) -> list[Block]:
    """Blocks of which the table does not have all splits of all classifiers."""
    cells = [(*block, method) for block in chosen for method in study.CLASSIFIERS]
    return list(dict.fromkeys(Block(*cell[:2]) for cell in tables.scores.missing(cells, results.settings(scale))))


def main() -> None:
    """Run what the command line asks for."""
    given = arguments()
    scale = SCALES[given.scale]
    absent = [name for name in given.data if not data.available(name)]
    if absent:
        print(f"left out, as PMGP_DATA does not name a folder with its files: {', '.join(absent)}", flush=True)
    chosen = [block for block in study.blocks(given.data) if block.n in given.n]
    tables = results.tables_of(given.out / f"{scale.name}.csv")
    new = chosen if given.again else missing(scale, chosen, tables)
    print(f"{len(new)} of {len(chosen)} data sets and sizes to run; the others are in {tables.scores.path.name}")
    run(scale, new, Grid(given.runs / scale.name, scale.settings()), tables, workers_of(given))


if __name__ == "__main__":
    main()
