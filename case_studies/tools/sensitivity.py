"""Scripts beside a study that ask why its cells differ from the article's: their lines, said and written as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

__all__ = ["answered", "write"]


def answered(questions: Iterable[tuple], run: Callable[[Any], dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the line of each question, and print its acceptance rate and its effective sample size."""
    for question in questions:
        line = run(question)
        print(*question, f"acceptance {line['acceptance']:.2f}, ESS {line['ess_ar']:.3g}", flush=True)
        yield line


def write(folder: Path, lines: Iterable[dict[str, Any]], digits: int = 6) -> None:
    """Write the lines into ``sensitivity.csv``."""
    table = pd.DataFrame(lines)
    table.to_csv(folder / "sensitivity.csv", index=False, float_format=f"%.{digits}g", lineterminator="\n")
