"""The end of an iteration as one kernel: a move of f at the current theta, and a refreshment given it.

`core.likelihoods.compiled_terms` lists the likelihoods that have such a kernel. It uses random numbers in the order of
the separate steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pmgp.core.estimators.importance import ImportanceSampling, WeightedParticles, number_of_draws
from pmgp.core.gaussians import Posterior
from pmgp.core.likelihoods.base import Likelihood


def renewed(
    rng: np.random.Generator,
    particle: np.ndarray,
    q: Posterior,
    likelihood: Likelihood,
    estimator: Any,
    draws: int | None,
) -> tuple[np.ndarray, WeightedParticles, np.ndarray] | None:
    """Return one slice move of a draw of f and an estimate given it, or None if there is no kernel for that.

    Parameters
    ----------
    particle : (n,) array
        A draw from p(f|theta, y).
    draws : int, optional
        Number of samples if the estimator's own is "auto".

    Returns
    -------
    moved : (n,) array
    estimate : WeightedParticles
        Its first particle is the moved one.
    picked : (n,) array
        One of its particles, picked by weight.
    """
    # An estimator derived from this one may make other estimates.
    if type(estimator) is not ImportanceSampling:
        return None
    number = number_of_draws(estimator.draws if draws is None else draws)
    found = q.renewed(rng, particle, likelihood, number, estimator.antithetic and number > 1)
    return None if found is None else (found[0], WeightedParticles.of(*found[1]), found[2])
