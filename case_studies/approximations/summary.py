"""Moments of theta and of the predictions, with their Monte Carlo errors, which are stored in place of draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import arviz as az
import numpy as np
import xarray as xr

from case_studies.approximations.posteriors import Posterior
from case_studies.tools.effective_size import effective_sizes

__all__ = ["at_point", "latent_draws", "log_theta", "summary"]


def log_theta(posterior: Posterior, found: xr.Dataset) -> dict[str, np.ndarray]:
    """Return the logarithms of the hyper-parameters: (chains, draws) each."""
    return {name: np.log(found[name].to_numpy()) for name in posterior.theta}


def latent_draws(posterior: Posterior, found: xr.Dataset) -> np.ndarray:
    """Return f, with its mean: (chains, draws, latent vectors, n)."""
    return np.stack([found[name].to_numpy() for name in posterior.latents], axis=2) + posterior.mean


def summary(posterior: Posterior, theta: Mapping[str, np.ndarray], f: np.ndarray) -> dict[str, Any]:
    """Summarize draws of log theta, (chains, draws) each, and of f, (chains, draws, latent vectors, n).

    Returns
    -------
    dict
        Fit for JSON: for each hyper-parameter ``mean``, ``sd`` and their errors ``mean_error``, ``sd_error`` in
        `theta`; the same three lists of the m predictions in `response`, ``mean``, ``sd`` and ``error``; `ess` and
        `rhat`, the smallest and the largest over theta.
    """
    tree = az.convert_to_datatree(dict(theta))["posterior"].dataset
    errors = {kind: az.mcse(tree, method=kind) for kind in ("mean", "sd")}
    rows = {
        name: {
            "mean": float(values.mean()),
            "sd": float(values.std(ddof=1)),
            "mean_error": float(errors["mean"][name]),
            "sd_error": float(errors["sd"][name]),
        }
        for name, values in theta.items()
    }
    return {
        "theta": rows,
        "response": _response(posterior, theta, f),
        "ess": min(float(one) for one in az.ess(tree).data_vars.values()),
        "rhat": max(float(one) for one in az.rhat(tree).data_vars.values()) if len(f) > 1 else None,
    }


def _response(posterior: Posterior, theta: Mapping[str, np.ndarray], f: np.ndarray) -> dict[str, list[float]]:
    predict = posterior.likelihood.response
    chains = [predict(f[i], {name: np.exp(values[i]) for name, values in theta.items()}) for i in range(len(f))]
    size = np.sum([effective_sizes(chain) for chain in chains], axis=0)
    draws = np.concatenate(chains)
    deviation = draws.std(axis=0, ddof=1)
    return {
        "mean": _short(draws.mean(axis=0)),
        "sd": _short(deviation),
        "error": _short(deviation / np.sqrt(size)),
    }


def _short(values: np.ndarray) -> list[float]:
    return [float(f"{value:.5g}") for value in values]


def at_point(
    posterior: Posterior, theta: Mapping[str, float], mean: np.ndarray, variance: np.ndarray, rng: np.random.Generator
) -> dict[str, Any]:
    """Summarize an approximation with one value of log theta, and independent normal f with these moments, (n,) each.

    Its deviations of theta are zero.
    """
    draws = 2000
    f = mean + np.sqrt(variance) * rng.normal(size=(draws, len(mean)))
    repeated = {name: np.full((1, draws), value) for name, value in theta.items()}
    rows = {name: {"mean": value, "sd": 0.0, "mean_error": 0.0, "sd_error": 0.0} for name, value in theta.items()}
    return {
        "theta": rows,
        "response": _response(posterior, repeated, f[None, :, None, :]),
        "ess": float(draws),
        "rhat": None,
    }
