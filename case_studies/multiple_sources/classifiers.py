"""From a training part with several sources to probabilities of the classes at new observations."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from scipy.special import softmax

from case_studies.multiple_sources import models
from case_studies.multiple_sources.data import Matrices, folds
from case_studies.multiple_sources.simple_mkl import SimpleMKL, choose_cost, decisions

__all__ = ["Chain", "Predicted", "Split", "frequencies", "gaussian_process", "simple_mkl"]

PER_DRAW = 4
"""Draws of f at the new observations for each draw of the chain."""


class Chain(NamedTuple):
    """Length of a chain."""

    tune: int
    draws: int


class Split(NamedTuple):
    """A training part, its labels, and new observations."""

    train: Matrices
    y: np.ndarray
    test: Matrices
    classes: int


class Predicted(NamedTuple):
    """Predictions of m new observations.

    Attributes
    ----------
    predicted : (m,) array of int
    probabilities : (m, C) array or None
    weights : (draws, C, S) array or None
        Draws, or the one value of weights that all classes share.
    """

    predicted: np.ndarray
    probabilities: np.ndarray | None
    weights: np.ndarray | None


Classify = Callable[[np.random.Generator, Split, Chain], Predicted]


def gaussian_process(kind: str, source: int | None = None) -> Classify:
    """The article's classifier with weights of this kind, its posterior sampled by NUTS, whitened additively.

    With one source alone the others' factors are zero, so their weights keep their prior and say nothing: the model
    is compiled once for all.
    """

    def classify(rng: np.random.Generator, split: Split, chain: Chain) -> Predicted:
        given = _only(models.factors(split.train, split.test), source)
        sampler = _sampler(kind, given.L.shape, tuple(given.source), split.classes)
        weights, total = [], np.zeros((given.new.shape[0], split.classes))
        for point in sampler.run(rng, given, split.y, chain):
            drawn = point.get("weights", np.ones((split.classes, len(split.train))))
            mean, variance = models.latent(given, drawn, point["nu"], point["b"])
            noise = rng.standard_normal((PER_DRAW, *mean.shape))
            total += softmax(mean + np.sqrt(variance) * noise, axis=-1).mean(axis=0)
            weights.append(drawn)
        probabilities = total / total.sum(axis=1, keepdims=True)
        told = kind != "unweighted" and source is None
        return Predicted(probabilities.argmax(axis=1), probabilities, np.array(weights) if told else None)

    return classify


def _only(given: models.Factors, source: int | None) -> models.Factors:
    """Factors of one source, in a matrix of the same shape."""
    if source is None:
        return given
    its = given.source == source
    rest = np.where(np.arange(len(given.rest))[:, None] == source, given.rest, 0.0)
    return models.Factors(given.L * its, given.source, given.new * its, rest)


def frequencies(rng: np.random.Generator, split: Split, chain: Chain) -> Predicted:
    """The frequencies of the classes in the training part, for all."""
    share = np.bincount(split.y, minlength=split.classes) / len(split.y)
    number = len(next(iter(split.test.values())))
    return Predicted(np.full(number, share.argmax()), np.tile(share, (number, 1)), None)


def simple_mkl(rng: np.random.Generator, split: Split, chain: Chain) -> Predicted:
    """SimpleMKL with C chosen within the training part."""
    kernels = np.stack([X @ X.T for X in split.train.values()])
    cross = np.stack([split.test[name] @ X.T for name, X in split.train.items()])
    cost = choose_cost(kernels, split.y, folds("within", split.y, 3))
    weights, machines = SimpleMKL(cost).fit(kernels, split.y)
    predicted = decisions(machines, weights, cross).argmax(axis=1)
    return Predicted(predicted, None, np.tile(weights, (1, split.classes, 1)))


class _Sampler:
    """NUTS on the additive model, compiled once for all training parts of a shape."""

    def __init__(self, kind: str, shape: tuple[int, int], source: tuple[int, ...], classes: int) -> None:
        blank = models.Factors(np.zeros(shape), np.array(source), np.zeros((0, shape[1])), np.zeros((0, 0)))
        self.model = models.additive(kind, blank, np.arange(shape[0]) % classes, classes)
        with self.model:
            self.step = pm.NUTS()
        self._start = self.step.sampling_state
        names = [variable.name for variable in self.model.free_RVs]
        values = [self.model.rvs_to_values[variable] for variable in self.model.free_RVs]
        constrained = self.model.replace_rvs_by_values(self.model.free_RVs)
        self._constrained = self.model.compile_fn(constrained, inputs=values, on_unused_input="ignore")
        self._names = names

    def run(self, rng: np.random.Generator, given: models.Factors, y: np.ndarray, chain: Chain) -> list[dict[str, Any]]:
        """Draws of all variables on their own scale."""
        pm.set_data({"L": given.L, "labels": y}, model=self.model)
        self.step.sampling_state = self._start
        self.step.setup_chain(rng, chain.tune, chain.draws)
        point, found = self.model.initial_point(), []
        for iteration in range(chain.tune + chain.draws):
            if iteration == chain.tune:
                self.step.stop_tuning()
            point, _ = self.step.step(point)
            if iteration >= chain.tune:
                found.append(dict(zip(self._names, self._constrained(point), strict=True)))
        return found


@cache
def _sampler(kind: str, shape: tuple[int, int], source: tuple[int, ...], classes: int) -> _Sampler:
    return _Sampler(kind, shape, source, classes)
