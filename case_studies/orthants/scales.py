"""How large the study is: quick, or the article's, without counts that take long or do not fit in memory."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["CHAINS", "FULL", "SCALES", "Scale"]

FULL = {"factor": 50, "linear": 20}
"""Problems of each size in experiment 1, and runs of each problem in experiment 2."""

LARGEST = 400_000_000
LARGE = 300
"""Labels of experiment 4, above which there are fewer particles."""
CHAINS = {"control variables": 5000, "ESS": 300, "HMC": 100}
"""Draws of its chains: a tenth of the article's for control variables, and for the others what takes about as long."""


@dataclass(frozen=True)
class Scale:
    """How large the study is.

    Parameters
    ----------
    name : str
    seed : int
    sizes : tuple of int
        Dimensions N of experiment 1.
    linear : tuple of int
        Problems of experiment 2.
    figure : int
        The one of these problems on which all methods run, for Figures 1 and 2.
    particles : tuple of int
        Numbers M for the article's counts.
    share : float
        The share of the article's runs that are made.
    work : float
        Runs of the counts for any covariance take at most this many N^2 M in all at one M, but there are at least
        three; and none where three take 200 times as many, or the particles more than :data:`LARGEST` numbers.
    classes : tuple of int
        Problems of experiment 4.
    few, many : int
        Particles for those with more than :data:`LARGE` labels, and for the others.
    longer : int
        Chains of experiment 4 are this many times as long as :data:`CHAINS` has them.
    most : int
        Particles for extinction.
    repetitions : int
        For the mean of an estimate.
    """

    name: str
    seed: int
    sizes: tuple[int, ...]
    linear: tuple[int, ...]
    figure: int
    particles: tuple[int, ...]
    share: float
    work: float
    classes: tuple[int, ...]
    few: int
    many: int
    longer: int
    most: int
    repetitions: int

    def settings(self) -> dict[str, Any]:
        """Settings that a finished unit depends on besides its own fields."""
        return asdict(self)

    def runs(self, part: str, n: int, draws: int, resampled: bool) -> int:
        """How many runs a block of experiment 1 or 2 has."""
        full = max(round(self.share * FULL[part]), 3)
        return max(min(full, int(self.work / (n * n * draws))), 3) if resampled else full

    def draws(self, n: int) -> tuple[int, dict[str, int]]:
        """Particles and draws of the chains, by method, for a problem of experiment 4 with this number of labels."""
        return self.few if n > LARGE else self.many, {name: self.longer * draws for name, draws in CHAINS.items()}

    def feasible(self, n: int, draws: int) -> bool:
        """Whether the counts for any covariance run with this number of draws."""
        return 3.0 * n * n * draws <= 200.0 * self.work and n * draws <= LARGEST


SCALES = {
    "quick": Scale("quick", 2021, (50,), (1,), 1, (1000, 10_000), 0.2, 2.5e8, (1, 7), 1000, 3000, 1, 3000, 2000),
    "paper": Scale(
        "paper", 2021, (50, 200, 500), (1, 2, 3, 4), 3,
        (1000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000),
        1.0, 4e9, (1, 2, 3, 4, 5, 6, 7, 8, 9), 100_000, 300_000, 10, 10_000, 10_000,
    ),
}  # fmt: skip
