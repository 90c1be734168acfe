"""One classifier on one split, and the grid of all of them.

All classifiers see the same splits. What is recorded are scores of the probabilities that they predict for the test
points, and how many of the probabilities fell into each hundredth of [0, 1], for each true label.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from case_studies.calibrated_classification import data
from case_studies.calibrated_classification.classifiers import CLASSIFIERS, Chain, Predicted
from case_studies.tools.provenance import provenance
from case_studies.tools.stream import stream
from pmgp import scores

__all__ = [
    "BINS",
    "SCALES",
    "SCORES",
    "Block",
    "Scale",
    "Unit",
    "blocks",
    "labels_and_predictions",
    "run_unit",
    "units",
]

SCORES = ("capacity_accuracy", "capacity_auc", "accuracy", "auc", "log_loss", "brier_score")
"""The article's two first; of the last two, small values are good."""

BINS = 100
ROUNDING = np.finfo(float).eps / 2


@dataclass(frozen=True)
class Scale:
    """How large the study is.

    Parameters
    ----------
    name : str
    seed : int
    tune, draws : int
        Iterations of each chain.
    rounds : tuple of int
        Numbers of splits after which the table is written; each is reached for all data sets and sizes before the next.
    """

    name: str
    seed: int
    tune: int
    draws: int
    rounds: tuple[int, ...]

    def settings(self) -> dict[str, Any]:
        """Settings with which a finished unit must have been made, to count for this scale."""
        return {key: value for key, value in asdict(self).items() if key != "rounds"}


SCALES = {
    "quick": Scale("quick", 5, 200, 500, (3,)),
    "paper": Scale("paper", 2014, 500, 2000, (5, 15, 25, 40)),
}
"""The article has 40 splits; it does not say how long its chains were."""


class Block(NamedTuple):
    """A data set and the number of training points."""

    data: str
    n: int


class Unit(NamedTuple):
    """One classifier on one split."""

    data: str
    n: int
    split: int
    method: str

    @property
    def name(self) -> str:
        """File name without ending."""
        return f"{self.data}-n{self.n}-split{self.split}-{self.method}".replace(" ", "_")


def blocks(names: Iterable[str] = tuple(data.NAMES)) -> list[Block]:
    """Data sets with their sizes, the smallest sizes of all data sets first; data that are not there are left out."""
    there = {name: data.sizes(data.load(name).y) for name in names if data.available(name)}
    return [Block(name, n) for n in data.SIZES for name in there if n in there[name]]


def rounds(scale: Scale, chosen: Iterable[Block]) -> Iterator[tuple[Block, range]]:
    """Blocks with the splits that are new to them, round by round."""
    chosen = list(chosen)
    for first, last in pairwise((0, *scale.rounds)):
        yield from ((block, range(first, last)) for block in chosen)


def units(block: Block, splits: Iterable[int]) -> list[Unit]:
    """All classifiers, split by split."""
    return [Unit(*block, split, method) for split in splits for method in CLASSIFIERS]


def labels_and_predictions(scale: Scale, unit: Unit) -> tuple[np.ndarray, Predicted]:
    """Labels of the test points, and what a classifier says about them."""
    split = data.split(_split_stream(scale, unit), data.load(unit.data), unit.n)
    rng = _classifier_stream(scale, unit)
    return split.test.y, CLASSIFIERS[unit.method](rng, split, Chain(scale.tune, scale.draws))


def _split_stream(scale: Scale, unit: Unit) -> np.random.Generator:
    """All sizes share it: smaller training sets are parts of larger ones."""
    return stream(scale.seed, "split", unit.data, unit.split)


def _classifier_stream(scale: Scale, unit: Unit) -> np.random.Generator:
    """Random numbers of one classifier on one split, independent of those of all others."""
    return stream(scale.seed, "classifier", *unit)


def run_unit(scale: Scale, unit: Unit) -> dict[str, Any]:
    """Fit and test one classifier on one split.

    Returns
    -------
    dict
        Plain numbers: all of :data:`SCORES`, the classifier's notes, the number of ``test_points``, ``seconds`` of
        processor time, and ``histogram``, :data:`BINS` counts of probabilities for label 0 and as many for label 1.
    """
    clock = time.process_time()
    y, predicted = labels_and_predictions(scale, unit)
    seconds = time.process_time() - clock
    return {
        **scored(y, predicted.probability),
        **predicted.notes,
        "test_points": len(y),
        "seconds": seconds,
        "histogram": histogram(y, predicted.probability).tolist(),
        **provenance(),
    }


def scored(y: np.ndarray, probability: np.ndarray) -> dict[str, float]:
    """All of :data:`SCORES`; a probability that was rounded to 0 or 1 is one unit of rounding away from it."""
    probability = np.clip(probability, ROUNDING, 1.0 - ROUNDING)
    summary = scores.summarize(y, probability)
    for name in ("accuracy", "auc"):
        summary[f"capacity_{name}"] = scores.capacity(y, probability, name)
    return {name: summary[name] for name in SCORES}


def histogram(y: np.ndarray, probability: np.ndarray) -> np.ndarray:
    """Numbers of predictions in equal parts of [0, 1], of shape (2, :data:`BINS`): a row for each label."""
    parts = np.minimum((probability * BINS).astype(int), BINS - 1)
    return np.stack([np.bincount(parts[y == label], minlength=BINS) for label in (0, 1)])
