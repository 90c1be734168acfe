"""Elliptical slice moves for likelihoods whose terms are compiled (`core.transitions.elliptical_slice`)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pmgp.core.numerics.compiled.declaration import COUNT, NUMBER, VECTOR, WRITTEN_VECTOR, Kernel, kernel
from pmgp.core.numerics.compiled.routines import uniform

# As in `core.transitions.elliptical_slice`.
SMALLEST_BRACKET = 1e-12


def slicing(log_ratio: Kernel, terms: Any) -> Kernel:
    """Return a kernel that makes slice moves, made from one that returns log ratios.

    `log_ratio`: from the module where the result is called "slice_move"; `terms`: type of the likelihood's data.
    """

    @kernel(COUNT, terms, *[VECTOR] * 5, NUMBER, COUNT, COUNT, WRITTEN_VECTOR, WRITTEN_VECTOR, owner=log_ratio)
    def slice_move(
        data: np.ndarray,
        linear: np.ndarray,
        precision: np.ndarray,
        mean: np.ndarray,
        f: np.ndarray,
        auxiliary: np.ndarray,
        below: float,
        next_double: int,
        state: int,
        moved: np.ndarray,
        value: np.ndarray,
    ) -> int:
        """Move f on its ellipse; return how often the log ratio was evaluated.

        - linear, precision, mean (n,): the reference's sites b and w, or empty arrays where it has none, and its mean
        - f, auxiliary (n,): the current point, and a draw from the reference less its mean
        - below: distance of the slice below the log ratio at f
        - next_double, state: addresses of the generator's function for uniform numbers and of its state
        - moved (n,)
        - value (1,): the log ratio at f, or NaN if it is not known; overwritten with that at the new point
        """
        if math.isnan(value[0]):
            value[0] = log_ratio(data, linear, precision, f, -math.inf)
        threshold = value[0] - below
        angle = 2.0 * math.pi * uniform(next_double, state)
        lower, upper = angle - 2.0 * math.pi, angle
        evaluations = 0
        while True:
            cosine, sine = math.cos(angle), math.sin(angle)
            for i in range(len(moved)):
                moved[i] = mean[i] + ((f[i] - mean[i]) * cosine + auxiliary[i] * sine)
            found = log_ratio(data, linear, precision, moved, threshold)
            evaluations += 1
            if found > threshold:
                value[0] = found
                return evaluations
            # The bracket shrinks towards angle zero, the current point, which is always on the slice.
            if angle < 0.0:
                lower = angle
            else:
                upper = angle
            if upper - lower < SMALLEST_BRACKET:
                for i in range(len(moved)):
                    moved[i] = mean[i] + (f[i] - mean[i])
                return evaluations
            angle = lower + (upper - lower) * uniform(next_double, state)

    return slice_move
