"""The methods: the exact chain, Laplace's method and expectation propagation alone, and four that others offer."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import xarray as xr

import pmgp
from case_studies.approximations.clock import Clock
from case_studies.approximations.posteriors import Posterior, exact_model, sparse_model, whitened_model
from case_studies.approximations.signs import Weighing, signs, signs_of_fit, spread
from case_studies.approximations.summary import at_point, latent_draws, log_theta, summary
from case_studies.tools import gpflow_process

__all__ = ["METHODS", "Budget", "Method"]

RATE = 0.02
"""Learning rate of Adam, which fits the mean-field approximation."""

FEWEST = 20
"""Fewest draws of a chain of NUTS from which moments are computed."""

IN_GPFLOW = ("probit", "logit", "counts", "heavy tails")
"""Likelihoods that GPflow has."""


class Budget(NamedTuple):
    """How long the methods run.

    Attributes
    ----------
    exact_tune, exact_draws : int
        Iterations of each of two exact chains.
    tune, draws : int
        Iterations of each of two chains of an approximation's own density.
    weighed : int
        Draws of theta that are weighted.
    seconds : float
        Processor seconds that each of two chains may take, without compilation; a fit may take as many.
    inducing : int
        Inducing inputs.
    iterations : int
        Steps of the mean-field approximation's fit.
    dense : int
        The largest n of GPflow's variational process, which is dense.
    """

    exact_tune: int = 300
    exact_draws: int = 1200
    tune: int = 200
    draws: int = 500
    weighed: int = 100
    seconds: float = 30.0
    inducing: int = 40
    iterations: int = 3000
    dense: int = 250


class Method(NamedTuple):
    """A method.

    Attributes
    ----------
    run : callable
        From a posterior, a budget and a random generator to a summary, with ``seconds`` and ``status``.
    suits : callable
        Whether it takes a posterior, within a budget.
    fast : bool
        Whether it is one of those that are run first.
    """

    run: Callable[[Posterior, Budget, np.random.Generator], dict[str, Any]]
    suits: Callable[[Posterior, Budget], bool] = lambda posterior, budget: True
    fast: bool = False


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))


def _sampled(
    model: pm.Model, rng: np.random.Generator, tune: int, draws: int, step: Any = None, most: float = np.inf
) -> tuple[xr.DataTree, Clock]:
    clock = Clock(most)
    with model:
        idata = pm.sample(
            draws, tune=tune, chains=2, cores=1, step=step, random_seed=_seed(rng), callback=clock, nuts_sampler="pymc",
            progressbar=False, quiet=True, compute_convergence_checks=False,
        )  # fmt: skip
    return idata, clock


def _status(found: xr.Dataset, draws: int) -> str:
    """Say whether chains have all their draws, or ran out of time before."""
    return "done" if found.sizes["draw"] == draws else "stopped"


def _exact(posterior: Posterior, budget: Budget, rng: np.random.Generator) -> dict[str, Any]:
    model = exact_model(posterior)
    step = pmgp.PseudoMarginal(model=model)
    idata, clock = _sampled(model, rng, budget.exact_tune, budget.exact_draws, step, budget.seconds)
    found = idata["posterior"].dataset
    return summary(posterior, log_theta(posterior, found), latent_draws(posterior, found)) | {
        "seconds": clock.seconds,
        "status": _status(found, budget.exact_draws),
    }


def _alone(approximation: str) -> Callable[[Posterior, Budget, np.random.Generator], dict[str, Any]]:
    """Return the method that samples an approximation's own p(y|theta), with its signs."""

    def run(posterior: Posterior, budget: Budget, rng: np.random.Generator) -> dict[str, Any]:
        model = exact_model(posterior)
        step = pmgp.PseudoMarginal(model=model, approximation=approximation, estimator="none")
        idata, clock = _sampled(model, rng, budget.tune, budget.draws, step, budget.seconds)
        found = idata["posterior"].dataset
        theta = log_theta(posterior, found)
        weighing, log_evidence = (
            Weighing(posterior, model, approximation),
            idata["sample_stats"]["log_marginal_likelihood"],
        )
        center = np.array([values.mean() for values in theta.values()])
        return summary(posterior, theta, latent_draws(posterior, found)) | {
            "seconds": clock.seconds,
            "status": _status(found, budget.draws),
            "signs": signs(weighing, theta, log_evidence.to_numpy(), budget.weighed, rng)
            | {"spread": spread(weighing, center, rng)},
        }

    return run


def _with_signs(
    posterior: Posterior, theta: dict[str, np.ndarray], budget: Budget, rng: np.random.Generator
) -> dict[str, Any]:
    """Return the signs of draws of theta whose density is not known, from t distributions fitted to them."""
    weighing = Weighing(posterior, exact_model(posterior), "ep")
    return {"signs": signs_of_fit(weighing, theta, budget.weighed, rng)}


def _inducing(posterior: Posterior, budget: Budget, rng: np.random.Generator) -> dict[str, Any]:
    model = sparse_model(posterior, budget.inducing)
    step = pmgp.steps.SparseGibbs(model=model)
    idata, clock = _sampled(model, rng, budget.tune, budget.draws, step, budget.seconds)
    found = idata["posterior"].dataset
    theta = log_theta(posterior, found)
    deviation = np.sqrt(found["f_var"].to_numpy())
    f = found["f_mean"].to_numpy() + deviation * rng.normal(size=deviation.shape)
    return (
        summary(posterior, theta, f[:, :, None])
        | {"seconds": clock.seconds, "status": _status(found, budget.draws)}
        | _with_signs(posterior, theta, budget, rng)
    )


def _nuts(posterior: Posterior, budget: Budget, rng: np.random.Generator) -> dict[str, Any]:
    try:
        model = whitened_model(posterior)
        idata, clock = _sampled(model, rng, budget.exact_tune, budget.exact_draws, most=budget.seconds)
    except ValueError as error:
        # No chain has come to the end of tuning.
        if "Not enough samples" not in str(error):
            raise
        return {"seconds": 2 * budget.seconds, "status": "no draws in time"}
    found = idata["posterior"].dataset
    draws = {"draws": found.sizes["draw"], "divergences": int(idata["sample_stats"]["diverging"].sum())}
    if found.sizes["draw"] < FEWEST or found.sizes["chain"] < 2:
        return {"seconds": clock.seconds, "status": "no draws in time"} | draws
    return (
        summary(posterior, log_theta(posterior, found), latent_draws(posterior, found))
        | {"seconds": clock.seconds, "status": _status(found, budget.exact_draws)}
        | draws
    )


def _mean_field(posterior: Posterior, budget: Budget, rng: np.random.Generator) -> dict[str, Any]:
    model, times = whitened_model(posterior), []

    def stop(approximation: Any, losses: np.ndarray, iteration: int) -> None:
        times.append(time.process_time())
        if times[-1] - times[0] > budget.seconds:
            raise StopIteration

    with model:
        fit = pm.fit(
            budget.iterations, method="advi", obj_optimizer=pm.adam(learning_rate=RATE), random_seed=_seed(rng),
            callbacks=[stop], progressbar=False,
        )  # fmt: skip
        drawn = fit.sample(2 * budget.draws, random_seed=_seed(rng))
    found = drawn["posterior"].dataset
    theta = log_theta(posterior, found)
    status = "done" if len(times) == budget.iterations else "stopped"
    return (
        summary(posterior, theta, latent_draws(posterior, found))
        | {"seconds": times[-1] - times[0], "status": status, "draws": len(times)}
        | _with_signs(posterior, theta, budget, rng)
    )


def _gpflow(posterior: Posterior, budget: Budget, rng: np.random.Generator) -> dict[str, Any]:
    priors = {f"prior_{name}": np.array(moments) for name, moments in posterior.theta.items()}
    found = gpflow_process.run(
        Path(__file__).with_name("gpflow_script.py"), X=posterior.data.X, y=posterior.data.y.astype(float),
        kind=posterior.kind, series=posterior.series, mean=posterior.mean, **priors,
    )  # fmt: skip
    theta = {name: float(np.log(found[name])) for name in posterior.theta}
    status = "done" if found["success"] else "stopped"
    return at_point(posterior, theta, found["f_mean"], found["f_var"], rng) | {
        "seconds": float(found["seconds"]),
        "status": status,
    }


def _one_latent(posterior: Posterior, budget: Budget) -> bool:
    return posterior.likelihood.latents == 1


def _in_gpflow(posterior: Posterior, budget: Budget) -> bool:
    return posterior.kind in IN_GPFLOW and len(posterior.data.y) <= budget.dense


METHODS = {
    "exact": Method(_exact, fast=True),
    "Laplace": Method(_alone("laplace"), fast=True),
    "EP": Method(_alone("ep"), fast=True),
    "inducing": Method(_inducing, _one_latent),
    "GPflow": Method(_gpflow, _in_gpflow),
    "mean field": Method(_mean_field),
    "NUTS": Method(_nuts),
}
"""By name."""
