"""How models are sampled for the tables: chains one after another on one core, and the processor time they take."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from time import process_time
from typing import Any, NamedTuple

import arviz as az
import numpy as np
import pymc as pm
import xarray as xr

import pmgp

__all__ = [
    "CHAINS",
    "Clock",
    "OverTimeError",
    "Run",
    "correcting_sampler",
    "nutpie_sampler",
    "pilot_seconds",
    "sample",
    "sample_by_numpyro",
]

CHAINS = 4
PILOT = 40


class Run(NamedTuple):
    """A run of a sampler: iterations of each chain, the step methods, none for NUTS, and where chains start."""

    model: pm.Model
    tune: int
    draws: int
    step: Any = None
    initvals: Any = None


class OverTimeError(Exception):
    """Chains took longer than they are allowed."""


def sample(run: Run, seed: int, most: float = np.inf) -> tuple[float, xr.DataTree]:
    """Processor time from the first draw to the last, tuning included, and what was drawn.

    Raises
    ------
    OverTimeError
        If it exceeds the given number of seconds.
    """
    clock = Clock(most)
    with run.model:
        idata = pm.sample(
            run.draws,
            tune=run.tune,
            chains=CHAINS,
            cores=1,
            step=run.step,
            initvals=run.initvals,
            nuts_sampler="pymc",
            random_seed=seed,
            callback=clock,
            progressbar=False,
            quiet=True,
            compute_convergence_checks=False,
        )
    return clock.seconds, idata


def correcting_sampler(model: pm.Model) -> Callable[[int, int, int], tuple[float, xr.DataTree]]:
    """From tuning iterations, draws and a seed to the draws of the marginalized model by NUTS, with exact weights.

    The seconds are those of both: of NUTS, and of the correction without what is compiled for its first draw.
    """
    marginal = pmgp.marginal.approximate(model)

    def corrected(idata: xr.DataTree, seed: int) -> xr.DataTree:
        with warnings.catch_warnings():
            # Poor weights make the figure of merit smaller, which says it.
            warnings.filterwarnings("ignore", message="the correction", category=UserWarning)
            return pmgp.marginal.correct(idata, model=model, resample=False, random_seed=seed, progressbar=False)

    def sampled(tune: int, draws: int, seed: int) -> tuple[float, xr.DataTree]:
        seconds, idata = sample(Run(marginal, tune, draws), seed)
        corrected(idata.isel(draw=slice(0, 1)), seed)
        start = process_time()
        weighted = corrected(idata, seed)
        return seconds + process_time() - start, weighted

    return sampled


def nutpie_sampler(model: pm.Model) -> Callable[[int, int, int], tuple[float, xr.DataTree]]:
    """From tuning iterations, draws and a seed to the same by nutpie, compiled in advance.

    In its own words, as inside `pymc.sample` it is compiled within the time.
    """
    nutpie = import_module("nutpie")
    compiled = nutpie.compile_pymc_model(model)

    def sampled(tune: int, draws: int, seed: int) -> tuple[float, xr.DataTree]:
        start = process_time()
        idata = nutpie.sample(compiled, draws=draws, tune=tune, chains=CHAINS, cores=1, seed=seed, progress_bar=False)
        return process_time() - start, idata

    return sampled


def sample_by_numpyro(run: Run, seed: int) -> tuple[float, xr.DataTree]:
    """The same by NumPyro, iteration by iteration, so that what is compiled in the first one can be left out.

    The posterior is that of unconstrained values, of which effective sample sizes by rank are the same.
    """
    jax, infer = import_module("jax"), import_module("numpyro.infer")
    potential = import_module("pymc.sampling.jax").get_jaxified_logp(run.model, negative_logp=False)
    kernel, rng = infer.NUTS(potential_fn=potential), np.random.default_rng(seed)
    step = jax.jit(lambda state: kernel.sample(state, (), {}))
    start, chains, seconds = run.model.initial_point(), [], 0.0
    for key in jax.random.split(jax.random.PRNGKey(seed), CHAINS):
        # PyMC's NUTS and nutpie start as far from the initial point.
        jittered = [np.asarray(value + rng.uniform(-1.0, 1.0, np.shape(value))) for value in start.values()]
        state = kernel.init(key, run.tune, jittered, (), {})
        jax.block_until_ready(step(state))
        begin = process_time()
        positions = []
        for _ in range(run.tune + run.draws):
            state = step(state)
            positions.append([np.asarray(part) for part in state.z])
        seconds += process_time() - begin
        chains.append(positions[run.tune :])
    values = zip(*[[list(parts) for parts in zip(*positions, strict=True)] for positions in chains], strict=True)
    variables = {value.name: rv.name for rv, value in run.model.rvs_to_values.items()}
    named = {variables[name]: np.array(value) for name, value in zip(start, values, strict=True)}
    return seconds, xr.DataTree.from_dict({"posterior": az.convert_to_dataset(named)})


def pilot_seconds(model: pm.Model, step: Any) -> float:
    """Median processor time of an iteration, without PyMC's own overhead, after what is compiled in the first ones."""
    methods = step if isinstance(step, list) else [step]
    point = model.initial_point()
    for method in methods:
        method.setup_chain(np.random.default_rng(1), PILOT, PILOT)
    times = []
    for _ in range(PILOT):
        start = process_time()
        for method in methods:
            point, _ = method.step(point)
        times.append(process_time() - start)
    return float(np.median(times))


class Clock:
    """Processor time between the first draw and the last: a callback of `pymc.sample`."""

    def __init__(self, most: float = np.inf) -> None:
        self.start: float | None = None
        self.most = most
        self.seconds = 0.0

    def __call__(self, trace: Any, draw: Any) -> None:
        """Take the time of a draw."""
        now = process_time()
        self.start = now if self.start is None else self.start
        self.seconds = now - self.start
        if self.seconds > self.most:
            raise OverTimeError(f"{self.seconds:.0f} s")
