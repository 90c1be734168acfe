"""The cells of the study: a data set by one method, with a number of layers and of features."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from case_studies.deep import calibration, composition
from case_studies.deep.rivals import RIVALS, Sizes
from case_studies.deep.training import METHODS, Length, curve, likelihood_of
from case_studies.tools import data
from case_studies.tools.data import LABELS, NUMBERS
from case_studies.tools.provenance import provenance

__all__ = ["SCALES", "Cell", "Scale", "cells", "run"]

TWO = (*NUMBERS, *LABELS)
COMPARED = ("RBF", "ARC")
FEW, MOST, LARGE = 100, 500, 2000
"""Features of a layer; those for MNIST; and those for a single layer there, beyond the article."""
HELD_OUT_DIGITS = 10_000
"""All of them, at any scale."""
DIGITS = Length(30_000, 2000, 250, {0: 0.003, 4000: 0.001, 16_000: 0.0003})


class Cell(NamedTuple):
    """A split of a data set, and a method; layers and features are zero for a method that has none."""

    data: str
    method: str
    layers: int
    features: int
    fold: int

    @property
    def name(self) -> str:
        """File name without ending."""
        return f"{self.data}-{self.method}-{self.layers}-{self.features}-{self.fold}".replace(" ", "_")


@dataclass(frozen=True)
class Scale:
    """How large the study is.

    Parameters
    ----------
    name : str
    seed : int
    folds : int
        Splits of each data set.
    held_out : int
        Rows for which errors are computed, at most, except for MNIST; a tenth of all rows is held out.
    length, digits : Length
        Length of training, and of training on MNIST.
    width : int
        Processes of a hidden layer for MNIST.
    treated : tuple of str
        Data sets on which the frequencies are treated in other ways, and a process is trained as in the article.
    depths, features : tuple of int
        Numbers of layers of figure 4, and of features of figure 2, beside those of the comparison.
    sizes : (int, int)
        Rows for the Gaussian process, as in :mod:`case_studies.deep.rivals`.
    chain : composition.Chain
        Length of the chains of figure 8.
    labels : calibration.Budget
        Rows and iterations for the calibration of probabilities.
    """

    name: str
    seed: int
    folds: int
    held_out: int
    length: Length
    digits: Length
    width: int
    treated: tuple[str, ...]
    depths: tuple[int, ...]
    features: tuple[int, ...]
    sizes: Sizes
    chain: composition.Chain
    labels: calibration.Budget

    def rows(self, cell: Cell) -> int:
        """Return the largest number of rows for which errors are computed."""
        return HELD_OUT_DIGITS if cell.data == "mnist" else self.held_out

    def settings(self, cell: Cell) -> dict[str, Any]:
        """Return the settings with which a finished cell must have been made."""
        length = self.digits if cell.data == "mnist" else self.length
        return {
            "scale": self.name,
            "seed": self.seed,
            "held_out": self.rows(cell),
            "length": " ".join(map(str, length)),
        }


SCALES = {
    "quick": Scale(
        "quick", 39, 1, 1000, Length(4000, 500), DIGITS, 50, ("concrete", "eeg"),
        (3, 5, 10), (10, 30, 300), (800, 3000), composition.Chain(2, 500, 500), calibration.Budget(800, 2, 200, 400),
    ),
    "paper": Scale(
        "paper", 39, 3, 5000, Length(30_000, 1000), DIGITS, 50, TWO, (3, 5, 10, 20, 30),
        (10, 30, 300, 1000), (2000, 10_000), composition.Chain(4, 2000, 2000), calibration.Budget(2000, 4, 500, 2000),
    ),
}  # fmt: skip


def cells(scale: Scale) -> list[Cell]:
    """All cells of a scale, MNIST last."""
    folds = range(scale.folds)
    compared = [Cell(name, method, layers, FEW, k) for name in TWO for method in METHODS for layers in (1, 2)
                for k in folds if method in COMPARED or name in scale.treated]  # fmt: skip
    treatments = ("RBF", "prior-fixed", "var-resampled")
    by_features = [Cell("eeg", method, 1, n, k) for method in treatments for n in scale.features for k in folds]
    by_depth = [Cell("eeg", "RBF", layers, FEW, k) for layers in scale.depths for k in folds]
    rivals = [Cell(name, method, 0, 0, k) for name in TWO for method in RIVALS for k in folds]
    toy = [Cell("composition", method, 2, n, 0) for n in composition.FEATURES for method in composition.METHODS]
    labels = [Cell(name, "calibration", 2, FEW, 0) for name in calibration.NAMES]
    digits = [Cell("mnist", "RBF", layers, n, 0) for layers, n in ((1, MOST), (2, MOST), (1, LARGE))]
    return [*rivals, *compared, *by_features, *by_depth, *toy, *labels, *digits]


def run(scale: Scale, folder: Path, cell: Cell) -> dict[str, Any]:
    """Run one cell, whose blocks of steps go into a folder; fit for JSON.

    Returns
    -------
    dict
        ``curve`` of a deep process, ``scores`` of a rival, ``functions`` of figure 8, or ``bins`` of probabilities.
    """
    if cell.data == "composition":
        return {"functions": composition.run(cell.method, cell.features, scale.chain, scale.seed)} | provenance()
    if cell.method == "calibration":
        return {"bins": calibration.run(cell.data, scale.labels, scale.seed)} | provenance()
    split = data.load(cell.data, cell.fold, scale.seed, 0.9, scale.rows(cell))
    if cell.method in RIVALS:
        found = RIVALS[cell.method](split, cell.data in LABELS, scale.sizes, scale.seed)
        return {"scores": found} | _size(split) | provenance()
    given = {"layers": cell.layers, "features": cell.features, "likelihood": likelihood_of(cell.data)}
    if cell.data == "mnist":
        given["width"] = scale.width
    length = scale.digits if cell.data == "mnist" else scale.length
    found = curve(given | METHODS[cell.method], length, split, scale.seed + cell.fold, folder / cell.name)
    return {"curve": found} | _size(split) | provenance()


def _size(split: data.Data) -> dict[str, int]:
    return {"n": len(split.y), "d": split.X.shape[1], "rows": len(split.y_new)}
