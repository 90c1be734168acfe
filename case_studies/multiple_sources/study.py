"""The units of the study: a classifier on a fold, and a sampler on all observations; what is run, kept and resumed."""

from __future__ import annotations

import os
import time
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from case_studies.multiple_sources import data, one_source, samplers
from case_studies.multiple_sources.classifiers import (
    Chain,
    Classify,
    Predicted,
    Split,
    frequencies,
    gaussian_process,
    simple_mkl,
)
from case_studies.multiple_sources.data import Sourced
from case_studies.multiple_sources.scales import FOLDS, SCALES, Scale
from case_studies.tools.convergence import moments_at, rhat_at
from case_studies.tools.effective_size import effective_sizes
from case_studies.tools.grid import Grid
from case_studies.tools.provenance import provenance
from case_studies.tools.stream import stream

__all__ = ["SCALES", "Fold", "Sampler", "Scale", "Unit", "load", "methods", "run", "units"]

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
JOINT: dict[str, Classify] = {
    "weighted": gaussian_process("weighted"),
    "unweighted": gaussian_process("unweighted"),
    "Dirichlet": gaussian_process("Dirichlet"),
    "SimpleMKL": simple_mkl,
    "frequencies": frequencies,
}
"""Classifiers of all sources together, and of none."""


class Fold(NamedTuple):
    """One classifier, tested on one fold and trained on the others."""

    data: str
    method: str
    fold: int

    @property
    def name(self) -> str:
        """File name without ending."""
        return f"fold-{self.data}-{self.method}-{self.fold}".replace(" ", "_")


class Sampler(NamedTuple):
    """Chains of one sampler on all observations."""

    data: str
    sampler: str

    @property
    def name(self) -> str:
        """File name without ending."""
        return f"sampler-{self.data}-{self.sampler}".replace(" ", "_")


Unit = Fold | Sampler


def load(name: str) -> Sourced:
    """Data with several sources or one."""
    return one_source.load(name) if name in one_source.NAMES else data.load(name)


def methods(name: str) -> dict[str, Classify]:
    """The classifiers of a data set: each source alone and all together, or those of one source."""
    if name in one_source.NAMES:
        return one_source.CLASSIFIERS
    alone = {source: gaussian_process("weighted", place) for place, source in enumerate(data.load(name).matrices)}
    return alone | JOINT


def units(scale: Scale) -> list[Unit]:
    """All units whose data, classifiers and samplers are there, what says most first."""
    named = [name for name in (*scale.data, *scale.one_source) if _there(name)]
    sampled = [name for name in scale.sampled if _there(name)]
    classified = [(name, method) for name in named for method in methods(name) if one_source.available(method)]
    folds = [Fold(name, method, fold) for name, method in classified for fold in range(FOLDS)]
    chains = [Sampler(name, one) for name in sampled for one in samplers.NAMES if samplers.available(one)]
    return [*folds, *chains]


def _there(name: str) -> bool:
    return name in one_source.NAMES or data.available(name)


def run(scale: Scale, grid: Grid, unit: Unit) -> dict[str, Any]:
    """Run a unit, or take what it gave before; fit for JSON."""
    compute = _fold if isinstance(unit, Fold) else _sampler
    [finished] = grid.run([unit], partial(compute, scale))
    return finished.result


def _fold(scale: Scale, unit: Fold) -> dict[str, Any]:
    given = load(unit.data)
    fold = data.folds(unit.data, given.y, FOLDS)
    train, test = given.take(np.flatnonzero(fold != unit.fold)), given.take(np.flatnonzero(fold == unit.fold))
    scaled, new = data.prepared(train.matrices, test.matrices)
    split = Split(scaled, train.y, new, len(given.classes))
    clock = _processor_time()
    found = methods(unit.data)[unit.method](stream(scale.seed, *unit), split, Chain(scale.tune, scale.draws))
    seconds = _processor_time() - clock
    return {"predictions": _predictions(test.y, found), "weights": _weights(given, found), "seconds": seconds} | (
        provenance()
    )


def _processor_time() -> float:
    """Return the seconds of this process, and of its child processes that have ended."""
    ended = os.times()
    return time.process_time() + ended.children_user + ended.children_system


def _predictions(y: np.ndarray, found: Predicted) -> list[dict[str, Any]]:
    """A line for each observation of the test part."""
    lines = []
    for place, (label, predicted) in enumerate(zip(y, found.predicted, strict=True)):
        row = [] if found.probabilities is None else found.probabilities[place]
        named = {f"p{c}": float(value) for c, value in enumerate(row)}
        lines.append({"place": place, "label": int(label), "predicted": int(predicted)} | named)
    return lines


def _weights(given: Sourced, found: Predicted) -> list[dict[str, Any]]:
    """A line for each weight; of one value all quantiles are the same."""
    if found.weights is None:
        return []
    lines = []
    for (c, label), (s, source) in product(enumerate(given.classes), enumerate(given.matrices)):
        drawn = found.weights[:, c, s]
        quantiles = zip(QUANTILES, np.quantile(drawn, QUANTILES), strict=True)
        line = {"class": label, "source": source, "mean": float(drawn.mean()), "sd": float(drawn.std())}
        lines.append(line | {f"q{100 * share:02.0f}": float(value) for share, value in quantiles})
    return lines


def _sampler(scale: Scale, unit: Sampler) -> dict[str, Any]:
    rngs = [stream(scale.seed, "sampler", *unit, number) for number in range(scale.chains)]
    drawn = list(samplers.chains(unit.sampler, load(unit.data), rngs, Chain(scale.chain_tune, scale.chain_draws)))
    sizes = [{"weights": effective_sizes(one.weights), "f": effective_sizes(one.f)} for one in drawn]
    summary: dict[str, Any] = {"seconds": float(np.sum([one.seconds for one in drawn]))}
    for name in ("weights", "f"):
        every = np.sum([size[name] for size in sizes], axis=0)
        summary |= {f"ess_{name}_{what}": float(getattr(every, what)()) for what in ("mean", "min", "max")}
    moments = [moments_at(one.weights, scale.checkpoints) for one in drawn]
    rhat = rhat_at(moments, scale.checkpoints)
    lines = [
        {"iterations": count, "median": float(np.median(values)), "largest": float(values.max())}
        for count, values in zip(scale.checkpoints, rhat, strict=True)
    ]
    return {"rhat": lines, "posterior": _posterior(drawn), **summary, **provenance()}


def _posterior(drawn: list[samplers.Drawn]) -> list[dict[str, float]]:
    """Mean of each weight with its Monte Carlo error, so that samplers can be compared."""
    sizes = np.sum([effective_sizes(one.weights) for one in drawn], axis=0)
    weights = np.concatenate([one.weights for one in drawn])
    errors = weights.std(axis=0, ddof=1) / np.sqrt(sizes)
    pairs = enumerate(zip(weights.mean(axis=0), errors, strict=True))
    return [{"weight": place, "mean": float(mean), "error": float(error)} for place, (mean, error) in pairs]
