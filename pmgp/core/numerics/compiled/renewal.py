"""One call for all uses of q in an iteration: an estimate, and a move of f with an estimate given it.

These kernels call others one after another, with the same results: draws from q less its mean, then particles with
their weights. If f moves, the first draw gives its ellipse, the first particle is f, and one particle is picked by
weight.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from pmgp.core.numerics.compiled.declaration import (
    COUNT,
    FLAG,
    NUMBER,
    ROWS,
    VECTOR,
    WRITTEN_ROWS,
    WRITTEN_VECTOR,
    Kernel,
    kernel,
)
from pmgp.core.numerics.compiled.routines import uniform
from pmgp.core.numerics.compiled.sites import deviations

# Sites b and w, and the mean; L, K and the factor of B; the log of the integral of the prior times the sites.
OF_Q = *[VECTOR] * 3, *[ROWS] * 3, NUMBER
# Standard normals, two arrays; particles, the logs of their weights, and the weights.
NORMALS, WEIGHTED = [WRITTEN_ROWS] * 2, (WRITTEN_ROWS, WRITTEN_VECTOR, WRITTEN_VECTOR)


@kernel(COUNT, VECTOR, NUMBER)
def picked(weights: np.ndarray, number: float) -> int:
    """Draw an index by inversion, from weights that sum to one up to rounding.

    weights (draws,); number: uniform.
    """
    passed, chosen = weights[0], 0
    while chosen < len(weights) - 1 and passed <= number:
        chosen += 1
        passed += weights[chosen]
    return chosen


def estimating(weighed: Kernel, terms: Any) -> Kernel:
    """Return a kernel that makes an estimate, from the kernel that weighs draws."""

    @kernel(types.Tuple((NUMBER, FLAG)), terms, *OF_Q, FLAG, *NORMALS, *WEIGHTED, owner=weighed)
    def estimated(
        data: np.ndarray,
        linear: np.ndarray,
        precision: np.ndarray,
        mean: np.ndarray,
        prior_factor: np.ndarray,
        covariance: np.ndarray,
        factor: np.ndarray,
        log_normalizer: float,
        paired: bool,
        first: np.ndarray,
        second: np.ndarray,
        particles: np.ndarray,
        log_weights: np.ndarray,
        weights: np.ndarray,
    ) -> tuple[float, bool]:
        """Draw from q and weigh the draws; return the log of the mean weight, and whether K was multiplied.

        The arguments are those of the kernel of :func:`renewing`, without those for f.
        """
        away = np.empty(first.shape)
        multiplied = deviations(prior_factor, covariance, factor, precision, first, second, away)
        known = linear, precision, mean, away, paired, log_normalizer
        return weighed(data, *known, particles, log_weights, weights), multiplied

    return estimated


def renewing(slice_move: Kernel, weighed: Kernel, terms: Any) -> Kernel:
    """Return a kernel that moves f and makes an estimate given it, from the kernels for each."""
    given = VECTOR, NUMBER, COUNT, COUNT, FLAG
    result = types.Tuple((NUMBER, FLAG, COUNT))

    @kernel(result, terms, *OF_Q, *given, *NORMALS, WRITTEN_VECTOR, *WEIGHTED, owner=weighed)
    def renewed(
        data: np.ndarray,
        linear: np.ndarray,
        precision: np.ndarray,
        mean: np.ndarray,
        prior_factor: np.ndarray,
        covariance: np.ndarray,
        factor: np.ndarray,
        log_normalizer: float,
        f: np.ndarray,
        below: float,
        next_double: int,
        state: int,
        paired: bool,
        first: np.ndarray,
        second: np.ndarray,
        moved: np.ndarray,
        particles: np.ndarray,
        log_weights: np.ndarray,
        weights: np.ndarray,
    ) -> tuple[float, bool, int]:
        """Make a slice move, and draws that are weighed with its result.

        - linear, precision, mean (n,): sites b and w, and the mean
        - prior_factor, covariance, factor (n, n): L, K and the factor of B
        - log_normalizer: log of the integral of the prior times the sites
        - f, below, next_double, state: as for `slices.slicing`
        - paired: whether mirror images of all draws follow them
        - first, second (size, n): standard normals, overwritten
        - moved (n,)
        - particles (draws, n)
        - log_weights, weights (draws,)

        Returned: log_evidence: log of the weights' mean; multiplied: whether products with K were needed; chosen: index
        of the picked particle.
        """
        away = np.empty(first.shape)
        multiplied = deviations(prior_factor, covariance, factor, precision, first, second, away)
        # The log ratio at f is not known.
        weights[0] = math.nan
        slice_move(data, linear, precision, mean, f, away[0], below, next_double, state, moved, weights)
        for i in range(len(moved)):
            away[0, i] = moved[i] - mean[i]
        known = linear, precision, mean, away, paired, log_normalizer
        log_evidence = weighed(data, *known, particles, log_weights, weights)
        return log_evidence, multiplied, picked(weights, uniform(next_double, state))

    return renewed
