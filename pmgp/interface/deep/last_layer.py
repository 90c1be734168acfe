"""Draws of the last layer's weights from their posterior given its features, by slices on ellipses."""

from __future__ import annotations

from typing import Any

import arviz_base
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from pmgp.core.deep.last_layer import log_ratio, touching
from pmgp.core.transitions.elliptical_slice import slice_on_ellipse
from pmgp.interface.deep.fitting import Problem

NAME = "weights"


def features(problem: Problem, parameters: dict[str, Any], X: np.ndarray) -> Any:
    """Return Phi of the last layer at inputs X; frequencies that are resampled are always the same draw."""
    inputs = jnp.asarray(X, problem.X.dtype)
    return problem.network.last_features(parameters, problem.frozen, inputs, problem.key)


def sampled(
    problem: Problem, theta: Any, Phi: np.ndarray, y: np.ndarray, draws: int, tune: int, chains: int, seed: int
) -> xr.DataTree:
    """Return draws of the weights given Phi, computed in double precision.

    The slices lie on ellipses (Murray, Adams and MacKay 2010) around the Gaussian that touches the posterior at its
    mode, which stands in for the prior. They leave the posterior invariant, and for a Gaussian likelihood they accept
    every point.
    """
    with jax.enable_x64(True):
        Phi, y, theta = jnp.asarray(Phi, float), jnp.asarray(y, float), [jnp.asarray(one, float) for one in theta]
        given = (problem.likelihood, theta, Phi, y)
        reference = touching(*given, problem.network.widths[-1])

        def ratio(normals: np.ndarray) -> float:
            return float(log_ratio(*given, reference, normals))

        rngs = np.random.default_rng(seed).spawn(chains)
        normals = np.stack([_chain(rng, ratio, reference.mean.size, draws, tune) for rng in rngs])
        deviations = jax.vmap(jax.vmap(reference.deviation))(normals)
        weights = np.asarray(reference.mean + deviations)
    return arviz_base.from_dict({"posterior": {NAME: weights}}, dims={NAME: ["feature", "process"]})


def _chain(rng: np.random.Generator, ratio: Any, size: int, draws: int, tune: int) -> np.ndarray:
    """Return draws of the whitened weights, (draws, size), after `tune` iterations that are left out."""
    current = rng.standard_normal(size)
    value, kept = ratio(current), np.empty((draws, size))
    for iteration in range(tune + draws):
        current, value, _ = slice_on_ellipse(rng, current, rng.standard_normal(size), ratio, value)
        if iteration >= tune:
            kept[iteration - tune] = current
    return kept


def values(Phi: Any, last_layer: xr.DataTree, draws: int) -> Any:
    """Return f, shape (draws, m, C), by at most so many draws of the weights, evenly spaced over the chains.

    Raises
    ------
    ValueError
        If the weights are those of another process.
    """
    weights = last_layer["posterior"][NAME].to_numpy()
    weights = weights.reshape(-1, *weights.shape[2:])
    if weights.shape[1] != Phi.shape[1]:
        raise ValueError(f"last_layer has weights of {weights.shape[1]} features, but the process has {Phi.shape[1]}")
    chosen = np.linspace(0, len(weights) - 1, min(draws, len(weights))).round().astype(int)
    return jnp.einsum("mp,dpc->dmc", Phi, jnp.asarray(weights[chosen], Phi.dtype))
