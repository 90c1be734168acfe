"""Lines of a table of results: a cell, the size of its study, what its chains of theta gave, and what made them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from case_studies.tools.convergence import Moments, largest_rhat
from case_studies.tools.grid import Result
from case_studies.tools.provenance import made_by
from case_studies.tools.scale import Scale

__all__ = ["COUNTS", "row", "settings", "spread"]

COUNTS = ("cholesky", "inverse", "matmul")
"""Columns with O(n^3) operations per iteration."""


def row(scale: Scale, cell: NamedTuple, chains: Sequence[Result]) -> dict[str, Any]:
    """One line of the table.

    `ess` is the smallest effective sample size over theta by ArviZ's estimate, `ess_ar` by coda's: mean and standard
    deviation over the chains. `rhat` is the largest over theta. One chain has neither deviation nor R-hat, which are
    not a number. `seconds` are those of all draws of one chain, operations those of one iteration.
    """
    rhat = largest_rhat([_moments(chain) for chain in chains], scale.checkpoints)
    return {
        **cell._asdict(),
        **settings(scale),
        "chains": len(chains),
        **spread("ess", [chain["ess"] for chain in chains]),
        **spread("ess_ar", [chain["ess_autoregressive"] for chain in chains]),
        **{f"rhat_{count}": value for count, value in zip(scale.checkpoints, rhat, strict=True)},
        **{name: _mean(chains, name) for name in ("acceptance", "latent_acceptance", "seconds")},
        **{name: _mean(chains, name) / scale.draws for name in COUNTS},
        **made_by(chains[0]),
    }


def settings(scale: Scale) -> dict[str, Any]:
    """Columns that say how large the study was, but for the number of chains, which may depend on the cell."""
    return {"scale": scale.name, "seed": scale.seed, "tune": scale.tune, "draws": scale.draws}


def _moments(chain: Result) -> Moments:
    return Moments(np.array(chain["means"]), np.array(chain["variances"]))


def spread(name: str, values: Sequence[float]) -> dict[str, float]:
    """Mean and standard deviation over chains, in two columns."""
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else np.nan
    return {f"{name}_mean": float(np.mean(values)), f"{name}_sd": deviation}


def _mean(chains: Sequence[Result], key: str) -> float:
    return float(np.mean([chain[key] for chain in chains]))
