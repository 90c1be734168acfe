"""Scripts beside a study that ask why its cells differ from the article's: their lines, written as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from case_studies.tools.provenance import STREAMS
from case_studies.tools.table import Table

__all__ = ["complete", "write"]

NAME = "sensitivity.csv"


def complete(
    folder: Path, fields: Sequence[str], questions: Iterable[tuple], run: Callable[[Any], dict[str, Any]]
) -> None:
    """Answer the questions that ``sensitivity.csv`` has no line for; each line is written at once.

    Parameters
    ----------
    folder : Path
    fields : sequence of str
        Columns that make a question.
    questions : iterable of tuple
    run : callable
        Makes the line of a question.
    """
    key = list(fields)
    table = Table(folder / NAME, key, lambda lines: lines.sort_values(key))
    for question in table.missing(questions, {"streams": STREAMS}):
        line = run(question)
        print(*question, f"acceptance {line['acceptance']:.2f}, ESS {line['ess_ar']:.3g}", flush=True)
        table.merge(pd.DataFrame([line]))


def write(folder: Path, lines: Iterable[dict[str, Any]]) -> None:
    """Write the lines into ``sensitivity.csv``."""
    pd.DataFrame(lines).to_csv(folder / NAME, index=False, float_format="%.6g", lineterminator="\n")
