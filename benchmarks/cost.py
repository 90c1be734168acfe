"""Predict how much time many machines save, from measured constants, and write the tables of the documentation.

``python -m benchmarks.cost`` rewrites the tables of ``docs/more_than_one_machine.md`` from the constants that
``python -m benchmarks --only cluster --out benchmarks/results`` has stored.

The model. C tasks of t seconds on w workers, each of which needs h more seconds in the worker and g in the process that
asks, take s + ceil(C / w) (t + h) + C g seconds, where s is the start of a worker: results are read when all tasks have
ended. A product of K (n x n) with c columns on k devices takes n^2 e / k seconds, with e an entry's; then each device
receives the 8 n c (k - 1) / k bytes of the others' rows, in log2(k) steps of one latency each.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2
from pathlib import Path

import pandas as pd

__all__ = ["PAGE", "Costs", "main", "page", "stored"]

FOLDER = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "more_than_one_machine.md"
BEGIN, END = "<!-- benchmarks.cost: begin -->", "<!-- benchmarks.cost: end -->"


@dataclass(frozen=True)
class Costs:
    """The constants of the model; in seconds unless stated otherwise.

    Attributes
    ----------
    start : float
        Until a worker has imported the packages.
    in_worker, gathering : float
        For each chain, in the worker and in the calling process, besides its iterations.
    latency : float
        For a message to a worker and back.
    bandwidth : float
        Bytes per second.
    entry : float
        For an entry of K in a product, with as many columns as were measured.
    """

    start: float
    in_worker: float
    gathering: float
    latency: float
    bandwidth: float
    entry: float

    def tasks(self, number: int, seconds: float, workers: int, started: bool = False) -> float:
        """Return the seconds of tasks on workers, which have started before or not."""
        computing = ceil(number / workers) * (seconds + self.in_worker)
        return (0.0 if started else self.start) + computing + number * self.gathering

    def without_workers(self, number: int, seconds: float, cores: int) -> float:
        """Return the seconds of the same tasks in processes that are copies of this one."""
        return ceil(number / cores) * seconds

    def pays_from(self, number: int, workers: int, cores: int) -> float:
        """Return the seconds of a task from which workers are quicker than the cores of this machine, or infinity."""
        low, high = 0.0, 1e6
        if self.tasks(number, high, workers) >= self.without_workers(number, high, cores):
            return float("inf")
        while high - low > 1e-3:
            middle = 0.5 * (low + high)
            quicker = self.tasks(number, middle, workers) < self.without_workers(number, middle, cores)
            low, high = (low, middle) if quicker else (middle, high)
        return high

    def moved(self, n: int, columns: int, devices: int) -> float:
        """Return the bytes that each device receives in a product."""
        return 8.0 * n * columns * (devices - 1) / devices

    def product(self, n: int, columns: int, devices: int) -> float:
        """Return the seconds of a product of K with columns, its rows shared out over devices."""
        return n**2 * self.entry / devices + self.exchange(n, columns, devices)

    def exchange(self, n: int, columns: int, devices: int) -> float:
        """Return the seconds in which devices send each other their rows of a product."""
        return self.latency * log2(devices) + self.moved(n, columns, devices) / self.bandwidth

    def fewest_points(self, columns: int, devices: int) -> int:
        """Return the smallest n for which devices are quicker than one of them."""
        n = 1
        while self.product(n, columns, devices) >= self.product(n, columns, 1):
            n += 1
        return n


def stored(folder: Path = FOLDER) -> tuple[Costs, pd.DataFrame, dict[str, float]]:
    """Return the measured constants, the measured work by its name, and all that was measured by name."""
    work = pd.read_csv(folder / "cluster.csv", index_col="work")
    found = pd.read_csv(folder / "cluster_constants.csv", index_col="constant")["value"].to_dict()
    in_worker = work.loc["chains", "of it in the worker"]
    return (
        Costs(
            start=found["start of a worker, s"],
            in_worker=in_worker,
            gathering=work.loc["chains", "overhead s a task"] - in_worker,
            latency=found["round trip, s"],
            bandwidth=found["bytes a second between processes"],
            entry=found["product with n = 8000, s"] / 8000**2,
        ),
        work,
        found,
    )


def page() -> str:
    """Return the tables of the page."""
    costs, work, _ = stored()
    load = work["load before"].max()
    machine = f"{int(work['cores'].iloc[0])} cores, {work['machine'].iloc[0]}"
    return "\n".join(
        [
            f"Measured on one machine ({machine}), with processes for workers, at a load of up to {load:.1f} from "
            "other programs:",
            "",
            _table(
                ["work", "tasks", "one worker", "two workers", "ratio", "busy on average", "overhead per task"],
                [
                    [
                        name,
                        str(int(row["tasks"])),
                        _seconds(row["s, one worker"]),
                        _seconds(row["s, two workers"]),
                        f"{row['ratio']:.2f}",
                        f"{row['busy, of one worker']:.2f} and {row['busy, of two workers']:.2f}",
                        _seconds(row["overhead s a task"]),
                    ]
                    for name, row in work.iterrows()
                ],
            ),
            "",
            "A worker is busy while it has a task, whatever share of its core other programs leave it. So the ratio "
            "on idle cores is about that of the busy workers. With a load above a few tenths, the seconds, their "
            "ratio (which may then exceed 2) and the constants below differ from those of an idle machine.",
            "",
            _ceiling(work),
            "",
            f"Hence the constants of the model: {_seconds(costs.start)} until a worker has imported the packages, "
            f"{_seconds(costs.in_worker)} per chain in the worker, {_seconds(costs.gathering)} in the calling process, "
            f"{1e3 * costs.latency:.1f} ms and {costs.bandwidth / 1e9:.1f} GB/s between processes, "
            f"{1e9 * costs.entry:.1f} ns for an entry of K in a product with 8 columns. It gives:",
            "",
            _chains(costs),
            "",
            _folds(costs),
            "",
            _products(costs),
            "",
            f"Two devices are quicker than one from n = {costs.fewest_points(8, 2)} on, and 64 from "
            f"n = {costs.fewest_points(8, 64)}.",
        ]
    )


def _ceiling(work: pd.DataFrame) -> str:
    """Return the largest ratio that the tasks' own times allow, where a task takes longer beside another one."""
    longer = work["own s a task, two workers"] / work["own s a task"]
    found = [f"{2.0 / ratio:.2f} for {name}" for name, ratio in longer.items() if ratio > 1.0]
    reached = f"less than 2: {' and '.join(found)}" if found else "2 here"
    return f"Where a task itself takes longer while both cores work, workers that are never idle reach {reached}."


def _chains(costs: Costs) -> str:
    counts = (4, 16, 100, 1000)
    rows = [
        [f"{seconds} s", *[_seconds(costs.tasks(1000, seconds, workers)) for workers in counts]]
        for seconds in (1, 60, 3600)
    ]
    return _table(["1,000 chains of", *[f"{count:,} workers" for count in counts]], rows)


def _folds(costs: Costs) -> str:
    rows = [
        [
            f"{folds} folds, {chains} chains each",
            _seconds(costs.without_workers(folds * chains, 60.0, 4)),
            _seconds(costs.tasks(folds * chains, 60.0, 20)),
            _pays(costs.pays_from(folds * chains, 20, 4)),
        ]
        for folds, chains in ((5, 2), (10, 4), (100, 2))
    ]
    heads = [
        "chains of a minute",
        "four cores, no cluster",
        "20 workers",
        "20 workers are quicker if a chain takes at least",
    ]
    return _table(heads, rows)


def _products(costs: Costs) -> str:
    n, columns = 10**6, 8
    rows = [[str(k), _bytes(costs.moved(n, columns, k)), _seconds(costs.product(n, columns, k))] for k in (1, 2, 8, 64)]
    return _table(["devices, each as fast as one core", "bytes received by each", "a product at n = 1,000,000"], rows)


def _pays(seconds: float) -> str:
    return _seconds(seconds) if seconds < float("inf") else "never"


def _seconds(value: float) -> str:
    for limit, unit, size in ((120.0, "s", 1.0), (7200.0, "min", 60.0), (float("inf"), "h", 3600.0)):
        if value < limit:
            return f"{float(f'{value / size:.2g}'):g} {unit}"
    raise ValueError(f"{value} is no time")


def _bytes(value: float) -> str:
    return f"{float(f'{value / 1e6:.2g}'):g} MB"


def _table(heads: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in [heads, ["---"] * len(heads), *rows])


def main() -> None:
    """Write the tables into the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{page()}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
