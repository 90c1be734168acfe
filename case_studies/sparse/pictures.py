"""The article's figures of chains as numbers that fit JSON: rates and maps with bands, contours, scatter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm

from case_studies.sparse.problems import Problem
from pmgp.gp import Sparse
from pmgp.interface.sparse.draws import at_draws, spaced_draws

__all__ = ["BAND", "MOVED", "REACH", "SIDE", "latent_draws", "lattice", "of", "rounded"]

BAND = (0.05, 0.95)
"""Quantiles of credible bands."""

SIDE, REACH = 49, 6.0
"""Points along a side of the square on which classes are shown, and half its length."""


MOVED = 4
"""Scans of digits that are shown of the inducing inputs: those that have moved farthest."""


def rounded(values: Any) -> Any:
    """Numbers with four digits, as nested lists."""
    array = np.asarray(values, dtype=float)
    return np.reshape([float(f"{value:.4g}") for value in array.ravel()], array.shape).tolist()


def of(
    given: Problem,
    idata: Any,
    model: pm.Model,
    process: Sparse | None,
    inducing: tuple[np.ndarray, np.ndarray],
    draws: int,
) -> dict[str, Any]:
    """Return the numbers behind a problem's picture; without a process, the posterior has f itself.

    `inducing` are the inducing inputs, and those that they were optimized from.
    """
    posterior = idata["posterior"]
    theta = {
        name: rounded(np.ravel(posterior[name])[:: _step(posterior, draws)]) for name in ("lengthscale", "variance")
    }
    if given.outputs == 1:
        f = latent_draws(idata, model, process, given.data.X, draws)
        return theta | {"y": rounded(given.data.y)} | _rates(f)
    assert process is not None
    Z, first = inducing
    far = np.argsort(-np.square(Z - first).sum(axis=1))[: MOVED if given.name == "mnist" else len(Z)]
    found: dict[str, Any] = {"Z": rounded(Z[far]), "first": rounded(first[far])}
    if given.name == "toy":
        found |= {"X": rounded(given.data.X), "y": rounded(given.data.y)}
        found |= _classes(given, idata, model, process, draws) | _scatter(idata, draws, far)
    return theta | found


def _step(posterior: Any, draws: int) -> int:
    return max(posterior.sizes["chain"] * posterior.sizes["draw"] // draws, 1)


def latent_draws(idata: Any, model: pm.Model, process: Sparse | None, X: np.ndarray, draws: int) -> np.ndarray:
    """Draws of f at inputs, (draws, n), each value from its own marginal."""
    if process is None:
        return idata["posterior"]["f"].to_numpy().reshape(-1, len(X))
    rng = np.random.default_rng(0)
    moments = at_draws(spaced_draws(idata, model, draws), model, list(process.marginals(X)))
    # Several of each draw: bands are then less noisy, at no cost.
    return np.concatenate([mean + np.sqrt(variance) * rng.standard_normal((5, len(X))) for mean, variance in moments])


def _rates(f: np.ndarray) -> dict[str, Any]:
    low, high = np.quantile(np.exp(f), BAND, axis=0)
    return {"mean": rounded(np.exp(f).mean(axis=0)), "low": rounded(low), "high": rounded(high)}


def lattice() -> np.ndarray:
    """Points of the square, the second coordinate fastest: (SIDE^2, 2)."""
    line = np.linspace(-REACH, REACH, SIDE)
    return np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)


def _classes(given: Problem, idata: Any, model: pm.Model, process: Sparse, draws: int) -> dict[str, Any]:
    """Probabilities of each class on the lattice."""
    places = lattice()
    found = [
        process.predict(idata, places, observed=np.full(len(places), label), model=model, draws=draws)["log_density"]
        for label in range(given.outputs)
    ]
    return {"probabilities": rounded(np.exp(found))}


def _scatter(idata: Any, draws: int, order: np.ndarray) -> dict[str, Any]:
    """Whitened values at the inducing input where those of the classes depend most on each other."""
    v = idata["posterior"]["f_rotated_"].to_numpy()
    v = v.reshape(-1, *v.shape[2:])[..., order][:: _step(idata["posterior"], draws)]
    correlations = [np.abs(np.corrcoef(v[:, :, place].T) - np.eye(v.shape[1])).max() for place in range(v.shape[2])]
    place = int(np.argmax(correlations))
    return {"scatter": rounded(v[:, :, place]), "place": place}
