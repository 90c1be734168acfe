"""How large the study is: quick, for an hour and a half of one core, or the article's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from case_studies.sparse.chains import Size

__all__ = ["SCALES", "Cell", "Scale"]

SAMPLERS = ("Gibbs", "HMC")
CLIFFS = ("HMC", "tempered")
"""Samplers for the toy, whose likelihood has cliffs."""


class Cell(NamedTuple):
    """Chains for R-hat: of a problem with a kernel, on which inducing inputs, by which samplers, and how long."""

    problem: str
    kernel: str
    inducing: str
    points: int
    methods: tuple[str, ...]
    size: Size


@dataclass(frozen=True)
class Scale:
    """How large the study is.

    Parameters
    ----------
    name : str
    seed : int
    splits : dict
        Numbers of splits of the data sets of which part is held out.
    seen, held_out : dict
        Points of those data sets of which part is taken.
    points : tuple of int
        Numbers M of inducing inputs for image.
    sizes : dict
        Chains of each data set; "exact" and "pines exact" are those without inducing inputs.
    cells : tuple of Cell
        For R-hat.
    checkpoints : tuple of int
        Numbers of draws at which it is taken, as far as chains are as long.
    iterations : dict
        Steps of L-BFGS in each stage, where they are not 300.
    kept : int
        Draws that predictions average.
    """

    name: str
    seed: int
    splits: dict[str, int]
    seen: dict[str, int]
    held_out: dict[str, int]
    points: tuple[int, ...]
    sizes: dict[str, Size]
    cells: tuple[Cell, ...]
    checkpoints: tuple[int, ...]
    iterations: dict[str, int]
    kept: int

    def settings(self) -> dict[str, Any]:
        """Settings that all units share; :meth:`of` adds those of a data set."""
        return {"seed": self.seed, "kept": self.kept}

    def of(self, name: str, method: str = "") -> dict[str, Any]:
        """Settings that a unit of a data set depends on."""
        size = self.size(name, method)
        return {"seen": self.seen.get(name, 0), "held_out": self.held_out.get(name, 0)} | size._asdict()

    def cell(self, problem: str, kernel: str) -> Cell:
        """The chains for R-hat of a problem with a kernel."""
        return next(cell for cell in self.cells if (cell.problem, cell.kernel) == (problem, kernel))

    def steps(self, name: str) -> int:
        """Return the number of iterations of each stage of an optimization."""
        return self.iterations.get(name, 300)

    def size(self, name: str, method: str = "") -> Size:
        """Chains of a method on a data set."""
        kind = name.split()[0]
        tried = (f"{kind} exact", "exact") if method == "exact" else (name, kind)
        return next(self.sizes[one] for one in tried if one in self.sizes)


SCALES = {
    "quick": Scale(
        name="quick",
        seed=2015,
        splits={"coal": 10, "image": 1, "toy": 1, "banknote": 1, "pima": 1, "eeg": 1},
        seen={"image": 1000, "toy": 750, "banknote": 400, "pima": 400, "eeg": 400, "mnist": 1000},
        held_out={"image": 1000, "banknote": 600, "pima": 300, "eeg": 600, "mnist": 1000},
        points=(5, 20, 50, 100),
        sizes={
            "coal": Size(2, 200, 500),
            "pines": Size(2, 200, 400),
            "pines 64": Size(1, 100, 200),
            "pines exact": Size(1, 40, 80),
            "toy": Size(1, 150, 300),
            "image": Size(1, 100, 200),
            "banknote": Size(1, 200, 500),
            "pima": Size(1, 200, 500),
            "eeg": Size(1, 200, 500),
            "exact": Size(1, 150, 400),
            "mnist": Size(1, 40, 80),
        },
        cells=(
            Cell("coal", "isotropic", "grid", 30, SAMPLERS, Size(10, 200, 500)),
            Cell("image", "isotropic", "optimized", 20, SAMPLERS, Size(10, 100, 200)),
            Cell("image", "ARD", "optimized", 20, ("HMC",), Size(10, 100, 200)),
            Cell("toy", "isotropic", "optimized", 50, CLIFFS, Size(10, 200, 1000)),
        ),
        checkpoints=(50, 100, 200, 350, 500, 1000),
        iterations={"mnist": 60},
        kept=300,
    ),
    "paper": Scale(
        name="paper",
        seed=2015,
        splits={"coal": 10, "image": 10, "toy": 1, "banknote": 10, "pima": 10, "eeg": 10},
        seen={"image": 1000, "toy": 750, "banknote": 1000, "pima": 500, "eeg": 1000, "mnist": 60_000},
        held_out={"image": 1019, "banknote": 372, "pima": 268, "eeg": 2000, "mnist": 10_000},
        points=(5, 10, 20, 50, 100),
        sizes={
            "coal": Size(2, 500, 1500),
            "pines": Size(4, 500, 2000),
            "pines exact": Size(1, 300, 1000),
            "toy": Size(4, 1000, 2500),
            "image": Size(2, 1000, 4500),
            "banknote": Size(4, 500, 1500),
            "pima": Size(4, 500, 1500),
            "eeg": Size(4, 500, 1500),
            "exact": Size(4, 500, 1000),
            "mnist": Size(1, 300, 1000),
        },
        cells=(
            Cell("coal", "isotropic", "grid", 30, SAMPLERS, Size(10, 1000, 5000)),
            Cell("toy", "isotropic", "optimized", 50, CLIFFS, Size(10, 1000, 5000)),
            Cell("toy", "ARD", "optimized", 50, CLIFFS, Size(10, 1000, 5000)),
            Cell("image", "isotropic", "optimized", 100, SAMPLERS, Size(10, 1000, 5000)),
            Cell("image", "ARD", "optimized", 100, SAMPLERS, Size(10, 1000, 5000)),
        ),
        checkpoints=(500, 1000, 2000, 3500, 5000),
        iterations={},
        kept=1000,
    ),
}
