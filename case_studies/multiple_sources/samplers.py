"""Samplers of one posterior, that of the weighted model on all observations: draws and processor time of each chain."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pymc as pm

import pmgp
from case_studies.multiple_sources import models
from case_studies.multiple_sources.classifiers import Chain
from case_studies.multiple_sources.data import Sourced, prepared

__all__ = ["NAMES", "Drawn", "available", "chains"]

NUTPIE = "nutpie additive"
ARTICLE: dict[str, tuple[str, Callable[..., Any]]] = {
    "(a)": ("identity", partial(pmgp.steps.Sufficient, operator="hmc-identity")),
    "(b)": ("fixed", partial(pmgp.steps.Sufficient, operator="hmc-identity")),
    "(c)": ("local", partial(pmgp.steps.Sufficient, operator="hmc-identity")),
    "(d)": ("local", partial(pmgp.steps.Sufficient, operator="rmhmc")),
    "(e)": ("fixed", pmgp.steps.Ancillary),
    "(f)": ("local", pmgp.steps.Ancillary),
}
"""The article's samplers: the metric of the trajectories of f, and what moves the weights."""

NAMES = ("pmgp default", "NUTS additive", "NUTS Cholesky", NUTPIE, *ARTICLE)
"""All on one core, chain after chain."""


class Drawn(NamedTuple):
    """One chain.

    Attributes
    ----------
    weights : (draws, C S) array
    f : (draws, C n) array
    seconds : float
        Processor time, with tuning and without compilation.
    """

    weights: np.ndarray
    f: np.ndarray
    seconds: float


def available(name: str) -> bool:
    """Whether what it needs is installed."""
    return name != NUTPIE or find_spec("nutpie") is not None


def chains(name: str, data: Sourced, rngs: list[np.random.Generator], chain: Chain) -> Iterator[Drawn]:
    """Run a chain for each generator, from weights drawn from their prior."""
    train, _ = prepared(data.matrices, data.matrices)
    classes = len(data.classes)
    if name == "pmgp default":
        model = models.marginal("weighted", train, data.y, classes)
        yield from _by_steps(model, pmgp.PseudoMarginal(model=model), rngs, chain)
        return
    if name in ARTICLE:
        model = models.marginal("weighted", train, data.y, classes)
        yield from _by_steps(model, _of_article(name, model), rngs, chain)
        return
    if name == "NUTS Cholesky":
        model = models.by_cholesky("weighted", train, data.y, classes)
    else:
        model = models.additive("weighted", models.factors(train, train), data.y, classes)
    if name == NUTPIE:
        yield from _by_nutpie(model, rngs, chain)
    else:
        yield from _by_steps(model, pm.NUTS(model=model), rngs, chain)


def _of_article(name: str, model: pm.Model) -> pm.CompoundStep:
    """A move of f given the weights and one of the weights."""
    metric, of_weights = ARTICLE[name]
    return pm.CompoundStep([pmgp.steps.LatentRMHMC(metric=metric, model=model), of_weights(model=model)])


def _by_steps(model: pm.Model, step: Any, rngs: list[np.random.Generator], chain: Chain) -> Iterator[Drawn]:
    """Iterations of a step method of PyMC's."""
    start, read = step.sampling_state, _reader(model)
    step.step(model.initial_point())
    for rng in rngs:
        step.sampling_state = start
        step.setup_chain(rng, chain.tune, chain.draws)
        point = model.initial_point()
        point["weights_log__"] = np.log(rng.gamma(2.0, 0.5, np.shape(point["weights_log__"])))
        kept, begin = [], time.process_time()
        for iteration in range(chain.tune + chain.draws):
            if iteration == chain.tune:
                step.stop_tuning()
            point, _ = step.step(point)
            kept.append(point)
        seconds = time.process_time() - begin
        weights, f = zip(*map(read, kept[chain.tune :]), strict=True)
        yield Drawn(np.array(weights), np.array(f), seconds)


def _reader(model: pm.Model) -> Callable[[dict[str, Any]], tuple[np.ndarray, np.ndarray]]:
    """From a point to weights and f, as vectors; f has the classes in its last axis."""
    if "f" not in model.named_vars:
        names = [v.name for v in model.value_vars if v.name.startswith("f")]
        return lambda point: (
            np.exp(point["weights_log__"]).ravel(),
            np.stack([point[name] for name in names], axis=-1).ravel(),
        )
    [f] = model.replace_rvs_by_values([model["f"]])
    compute = model.compile_fn(f, inputs=model.value_vars, on_unused_input="ignore")
    return lambda point: (np.exp(point["weights_log__"]).ravel(), np.ravel(compute(point)))


def _by_nutpie(model: pm.Model, rngs: list[np.random.Generator], chain: Chain) -> Iterator[Drawn]:
    """The same model by nutpie, which chooses its starts itself."""
    nutpie = import_module("nutpie")
    compiled = nutpie.compile_pymc_model(model)
    for rng in rngs:
        options = {"chains": 1, "cores": 1, "seed": int(rng.integers(2**31)), "progress_bar": False}
        begin = time.process_time()
        idata = nutpie.sample(compiled, draws=chain.draws, tune=chain.tune, **options)
        seconds = time.process_time() - begin
        posterior = idata["posterior"]
        weights, f = (posterior[name].to_numpy()[0].reshape(chain.draws, -1) for name in ("weights", "f"))
        yield Drawn(weights, f, seconds)
