"""One chain of theta: tuned from a start, then sampled; what the articles' tables show of it, and what it cost."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from case_studies.tools.autoregressive_size import autoregressive_sizes
from case_studies.tools.convergence import moments_at
from case_studies.tools.effective_size import effective_sizes
from case_studies.tools.problem import Problem
from case_studies.tools.provenance import provenance
from case_studies.tools.samplers import Sampler
from case_studies.tools.scale import Scale
from pmgp.core.numerics.ledger import counted
from pmgp.core.theta_updates.densities import JointState

__all__ = ["run_chain"]


def run_chain(
    rng: np.random.Generator, sampler: Sampler, problem: Problem, start: JointState, scale: Scale
) -> dict[str, Any]:
    """Tune from a start, then sample.

    Returns
    -------
    dict
        Plain numbers and lists of them, which :func:`case_studies.tools.rows.row` makes part of a line of. `ess` and
        `ess_autoregressive` are the smallest over theta, by ArviZ's estimate and by coda's; `means` and `variances` of
        theta belong to the checkpoints; `cholesky`, `inverse` and `matmul` count the operations in O(n^3), and
        `seconds` the processor time, of all draws that are kept.
    """
    iterate = sampler.start(rng, problem, start, scale.tune, scale.draws)
    for _ in range(scale.tune):
        iterate = sampler.step(rng, problem, iterate, True)
    sampler.stop_tuning(problem)
    draws, rates = np.empty((scale.draws, problem.dimension)), np.empty((scale.draws, 2))
    clock = time.process_time()
    with counted() as counts:
        for row, rate in zip(draws, rates, strict=True):
            iterate = sampler.step(rng, problem, iterate, False)
            row[:], rate[:] = iterate.theta, (iterate.acceptance, iterate.latent_acceptance)
    seconds = time.process_time() - clock
    return _summary(draws, scale) | {
        "acceptance": float(rates[:, 0].mean()),
        "latent_acceptance": float(rates[:, 1].mean()),
        "seconds": seconds,
        **dict(zip(("cholesky", "inverse", "matmul"), counts.total.cubic, strict=True)),
        **provenance(),
    }


def _summary(draws: np.ndarray, scale: Scale) -> dict[str, Any]:
    moments = moments_at(draws, scale.checkpoints)
    return {
        "ess": float(effective_sizes(draws).min()),
        "ess_autoregressive": float(autoregressive_sizes(draws).min()),
        "means": moments.means.tolist(),
        "variances": moments.variances.tolist(),
    }
