"""Figure 8: a process of two layers on observations of h(h(x)), by the bound and by NUTS, at the same theta."""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

import arviz as az
import numpy as np
import pymc as pm

import pmgp
from case_studies.tools.data import Data
from case_studies.tools.stream import stream

__all__ = ["FEATURES", "METHODS", "Chain", "observations", "run"]

FEATURES = (10, 50)
METHODS = ("variational", "NUTS")
SHOWN = 40
"""Draws that are stored."""
STEPS = 6000


class Chain(NamedTuple):
    """Chains of NUTS, and their tuning iterations and draws."""

    chains: int
    tune: int
    draws: int


def run(method: str, features: int, chain: Chain, seed: int) -> dict[str, Any]:
    """Return draws of both layers' functions on a grid, with processor seconds.

    The hyper-parameters are those of the fit with the most features, as in the article, and frequencies are drawn from
    their prior, the same for both methods.
    """
    given, clock = observations(seed), time.process_time()
    fit = fitted(features, given, seed)
    if method == "NUTS":
        best = fitted(FEATURES[-1], given, seed)
        clock = time.process_time()
        found = sampled(fit, best.parameters_, given, chain, seed)
    else:
        found = {"f": fit.sample_predictions(given.X_new, draws=SHOWN, random_seed=seed)["f"].to_numpy()[..., 0]}
    rounded = {name: np.round(values, 3).tolist() for name, values in found.items()}
    return {"x": given.X_new[:, 0].tolist(), **rounded, "seconds": time.process_time() - clock}


def fitted(features: int, given: Data, seed: int) -> Any:
    """Fit a process of two layers with one process in the first."""
    process = pmgp.deep.RandomFeatureGP(
        layers=2, features=features, width=1, omega="prior-fixed", fed_forward=False, steps=STEPS, batch_size=50,
        evaluate_every=STEPS, validation_fraction=0.0, patience=None, dtype="float64", random_state=seed,
    )  # fmt: skip
    return process.fit(given.X, given.y, progressbar=False)


def sampled(fit: Any, parameters: dict[str, Any], given: Data, chain: Chain, seed: int) -> dict[str, Any]:
    """Sample the weights of the same features by NUTS, with the smallest effective size of f at the observations."""
    model = model_of(fit, parameters, given)
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Signs of the two layers make two modes; the results say so.
        idata = pm.sample(
            chain.draws, tune=chain.tune, chains=chain.chains, cores=1, random_seed=seed, progressbar=False, quiet=True,
            compute_convergence_checks=False,
        )  # fmt: skip
    posterior = idata["posterior"].to_dataset()
    kept = np.linspace(0, chain.chains * chain.draws - 1, SHOWN).astype(int)
    shown = {name: posterior[f"{name}_new"].to_numpy().reshape(-1, len(given.X_new))[kept] for name in ("hidden", "f")}
    quality = az.summary(idata, var_names=["f"], kind="diagnostics")
    size = {"ess": float(quality["ess_bulk"].astype(float).min()), "rhat": float(quality["r_hat"].astype(float).max())}
    return shown | {"divergences": float(idata["sample_stats"]["diverging"].sum())} | size


def model_of(fit: Any, parameters: dict[str, Any], given: Data) -> pm.Model:
    """Return a PyMC model with the features of the fitted process."""
    frozen = fit._problem_.frozen
    with pm.Model() as model:
        below, below_new = given.X, given.X_new
        for name, theta, normals in zip(("hidden", "f"), parameters["theta"], frozen, strict=True):
            variance, scale = np.exp(theta["log_variance"]), np.exp(theta["log_lengthscales"])
            cov = float(variance) * pm.gp.cov.ExpQuad(1, ls=np.asarray(scale))
            process = pmgp.gp.RandomFeatures(cov_func=cov, features=normals.shape[1])
            process._normals = np.asarray(normals)
            values = process.prior(name, below)
            new = process.conditional(f"{name}_new", below_new)
            below, below_new = values[:, None], new[:, None]
        pm.Normal("y", values, float(np.exp(parameters["likelihood"][0] / 2)), observed=given.y)
    return model


def observations(seed: int) -> Data:
    """50 observations of h(h(x)) with h(x) = 2 x exp(-x^2) and a noise variance of 0.01, and h(h(x)) on a grid."""
    rng = stream(seed, "data", "composition")
    x, grid = np.sort(rng.uniform(-2.0, 2.0, 50)), np.linspace(-3.0, 3.0, 61)
    return Data(x[:, None], _twice(x) + 0.1 * rng.normal(size=50), grid[:, None], _twice(grid))


def _twice(x: np.ndarray) -> np.ndarray:
    once = 2.0 * x * np.exp(-(x**2))
    return 2.0 * once * np.exp(-(once**2))
