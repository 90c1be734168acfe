"""Run the study: ``python -m case_studies.calibrated_classification``; a run that is stopped can be resumed."""

from __future__ import annotations

from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from case_studies.calibrated_classification import data, results, study
from case_studies.calibrated_classification.results import Tables
from case_studies.calibrated_classification.study import SCALES, Block, Scale
from case_studies.tools.command_line import parser
from case_studies.tools.grid import Grid, Result


class Finished(NamedTuple):
    """A block after a round: what each classifier gave on all splits so far."""

    block: Block
    results: dict[str, list[Result]]


def run(scale: Scale, chosen: Iterable[Block], grid: Grid, tables: Tables, processes: int = 1) -> None:
    """Run the blocks round by round; the rows of a block are written after each of its rounds."""
    for finished in blocks(scale, chosen, grid, processes):
        rows = results.rows(scale, *finished)
        tables.scores.merge(pd.DataFrame(rows))
        tables.histograms.merge(pd.DataFrame(results.histograms(*finished)))
        capacities = "  ".join(f"{row['method']} {row['capacity_accuracy']:.4f}" for row in rows)
        print(
            f"{finished.block.data:10s} n = {finished.block.n:3d} {rows[0]['splits']:3d} splits: {capacities}",
            flush=True,
        )


def blocks(scale: Scale, chosen: Iterable[Block], grid: Grid, processes: int = 1) -> Iterator[Finished]:
    """Blocks with their results, as their rounds are finished."""
    known: dict[Block, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for block, splits in study.rounds(scale, chosen):
        for unit, result, _ in grid.run(study.units(block, splits), partial(study.run_unit, scale), processes):
            known[block][unit.method].append(result)
        yield Finished(block, dict(known[block]))


def arguments() -> Namespace:
    """Command line."""
    line = parser("calibrated_classification", __doc__, SCALES)
    line.add_argument("--data", choices=data.NAMES, nargs="+", default=list(data.NAMES), help="only these data sets")
    line.add_argument("--n", type=int, choices=data.SIZES, nargs="+", default=data.SIZES, help="only these sizes")
    line.add_argument("--processes", type=int, default=1, help="units run at a time, one core each")
    line.add_argument("--out", type=Path, help="the table (default: the one in the repository)")
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
    tables = results.tables_of(given.out or results.FOLDER / f"{scale.name}.csv")
    new = chosen if given.again else missing(scale, chosen, tables)
    print(f"{len(new)} of {len(chosen)} data sets and sizes to run; the others are in {tables.scores.path.name}")
    run(scale, new, Grid(given.runs / scale.name, scale.settings()), tables, given.processes)


if __name__ == "__main__":
    main()
