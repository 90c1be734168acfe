"""How large a study of chains is: how many there are, and how long."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["COMPARATIVE_EVALUATION", "Scale"]


@dataclass(frozen=True)
class Scale:
    """How large the study is.

    Parameters
    ----------
    name : str
    seed : int
    chains, tune, draws : int
        Numbers for each cell.
    checkpoints : tuple of int
        Numbers of draws at which R-hat is computed; the last is all of them.
    datasets : int
        How many data sets there are for each n and d.
    """

    name: str
    seed: int
    chains: int
    tune: int
    draws: int
    checkpoints: tuple[int, ...]
    datasets: int

    def settings(self) -> dict[str, Any]:
        """Settings with which a finished cell must have been made, to count for this scale."""
        return {key: value for key, value in asdict(self).items() if key != "datasets"}


COMPARATIVE_EVALUATION = {
    "quick": Scale("quick", 11, 4, 500, 2000, (100, 200, 500, 1000, 2000), 2),
    "paper": Scale("paper", 2013, 10, 5000, 20000, (1000, 2000, 5000, 10000, 20000), 10),
}
"""Scales of the studies that repeat this article; the seed is the same, and so are the data that they simulate."""
