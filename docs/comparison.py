"""The table of the front page: speed beside NUTS, read from what ``make bench`` wrote."""

from __future__ import annotations

import csv
from pathlib import Path

__all__ = ["table"]

FIGURES = Path(__file__).parents[1] / "benchmarks" / "results" / "schemes.csv"
METHODS = {"`pmgp.PseudoMarginal()`": "PM EP", "PyMC's NUTS": "NUTS", "nutpie": "nutpie"}
PROBLEMS = (
    ("n = 100, d = 2", "synthetic n=100 d=2"),
    ("the same, a length-scale for each feature", "synthetic n=100 d=2 ARD"),
    ("n = 100, d = 2, counts", "synthetic n=100 d=2 Poisson"),
    ("n = 100, d = 10", "synthetic n=100 d=10"),
    ("the same, a length-scale for each feature", "synthetic n=100 d=10 ARD"),
    ("n = 400, d = 2", "synthetic n=400 d=2"),
    ("n = 400, d = 10", "synthetic n=400 d=10"),
    ("the same, a length-scale for each feature", "synthetic n=400 d=10 ARD"),
)
CONVERGED = 1.01
"""Largest R-hat of a figure that stands without a remark."""
FEWEST = 100
"""Fewest iterations of tuning after which a figure is shown at all."""
SHORT = "too short"


def table(path: Path = FIGURES) -> str:
    """Markdown table of the smallest effective sample size of the hyper-parameters per second, and its notes."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = {(row["data"], row["method"]): row for row in csv.DictReader(file)}
    lines = ["| labels, or counts, from the model | " + " | ".join(METHODS) + " |", "|---|" + "---:|" * len(METHODS)]
    for label, problem in PROBLEMS:
        cells = [_cell(rows.get((problem, method))) for method in METHODS.values()]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", _notes(list(rows.values()))]) + "\n"


def _notes(rows: list[dict[str, str]]) -> str:
    """Explain R-hat, the dash, and the words for runs that were too short to be compared."""
    notes = [
        f"R-hat is given where it exceeds {CONVERGED}.",
        "A dash: the run did not finish 80 iterations in twenty minutes.",
    ]
    short = sorted({(int(row["tune"]), int(row["draws"])) for row in rows if _is_short(row)})
    if short:
        lengths = " or ".join(f"{tune} + {draws}" for tune, draws in short)
        notes.append(
            f"*{SHORT.capitalize()}*: only {lengths} iterations (tuning + draws) of each chain were run. After so few\n"
            "a sampler's step size is hardly tuned, so this table does not say what it would do with more."
        )
    return "\n".join(notes)


def _is_short(row: dict[str, str]) -> bool:
    return int(row["tune"]) < FEWEST and row["method"] in METHODS.values()


def _cell(row: dict[str, str] | None) -> str:
    """Return the speed, with R-hat where chains have not converged; a dash for what took more than twenty minutes."""
    if row is None:
        return "-"
    if _is_short(row):
        return SHORT
    speed, rhat = float(row["ESS/s"]), float(row["R-hat"])
    shown = f"{speed:.0f}" if speed >= 9.95 else f"{speed:.2g}"
    return shown if rhat <= CONVERGED else f"{shown}, R-hat {rhat:.2f}"
