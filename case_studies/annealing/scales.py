"""How large the study is: a quick version of it, and the article's."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["PARTICLES", "SCALES", "Scale"]

PARTICLES = 4
"""N_imp of Figure 2."""


@dataclass(frozen=True)
class Scale:
    """How large the study is.

    Parameters
    ----------
    name : str
    seed : int
    chains : int
        For each cell of Table I.
    preliminary, discarded, draws : int
        Iterations of the preliminary run, and of a chain before those that count, and those.
    sizes : tuple of int
        Numbers n of synthetic data.
    thetas, repetitions : int
        Posterior draws for each n, and estimates of p(y|theta) at each of them.
    tune, thin : int
        Iterations of the chain that the posterior draws are from: for tuning, and for each draw.
    """

    name: str
    seed: int
    chains: int
    preliminary: int
    discarded: int
    draws: int
    sizes: tuple[int, ...]
    thetas: int
    repetitions: int
    tune: int
    thin: int

    def settings(self) -> dict[str, Any]:
        """Settings that a finished unit depends on besides its own fields."""
        return asdict(self) | {"particles": PARTICLES}


SCALES = {
    "quick": Scale("quick", 2014, 2, 400, 100, 300, (10, 50, 100), 20, 50, 300, 10),
    "paper": Scale("paper", 2014, 5, 2000, 500, 1500, (10, 50, 100, 500, 1000), 50, 50, 1000, 20),
}
