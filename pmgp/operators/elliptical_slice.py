"""Elliptical slice sampling (Murray, Adams and MacKay 2010) about any Gaussian q made of sites.

The target is q(f) r(f) with r = prod_i p(y_i|f_i) / site_i(f_i): ellipses drawn from q instead of the prior reach
across the whole posterior, and a likelihood call costs O(n).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pmgp.latent.sites import SiteApproximation
from pmgp.likelihoods.base import Likelihood

__all__ = ["EllipticalSlice", "SliceInfo"]


class SliceInfo(NamedTuple):
    """What a transition did: the number of likelihood evaluations."""

    evaluations: int


@dataclass(frozen=True)
class EllipticalSlice:
    """One or more elliptical slice transitions.

    Parameters
    ----------
    moves : int
        Transitions made by one call of :meth:`step`.
    """

    moves: int = 1

    def step(
        self,
        rng: np.random.Generator,
        f: np.ndarray,
        reference: SiteApproximation,
        likelihood: Likelihood,
    ) -> tuple[np.ndarray, SliceInfo]:
        """Move f, leaving p(f|theta, y) invariant.

        Parameters
        ----------
        rng : numpy.random.Generator
        f : (n,) array
            Current latent values.
        reference : SiteApproximation
            The Gaussian that gives the ellipses.
        likelihood : Likelihood

        Returns
        -------
        f : (n,) array
        info : SliceInfo
        """
        deviation = f - reference.mean
        evaluations = 0
        for auxiliary in reference.sample_deviations(rng, self.moves):
            deviation, calls = slice_on_ellipse(
                rng, deviation, auxiliary, lambda e: float(reference.log_ratio(likelihood, reference.mean + e))
            )
            evaluations += calls
        return reference.mean + deviation, SliceInfo(evaluations)


def slice_on_ellipse(
    rng: np.random.Generator,
    deviation: np.ndarray,
    auxiliary: np.ndarray,
    log_ratio: Callable[[np.ndarray], float],
) -> tuple[np.ndarray, int]:
    """Sample a point of the ellipse through `deviation` and `auxiliary` (Figure 2 of Murray et al.).

    Returns
    -------
    deviation : (n,) array
        The new point.
    evaluations : int
        Calls of `log_ratio`.
    """
    threshold = log_ratio(deviation) - rng.standard_exponential()
    angle = rng.uniform(0.0, 2.0 * np.pi)
    lower, upper = angle - 2.0 * np.pi, angle
    evaluations = 1
    while True:
        candidate = deviation * np.cos(angle) + auxiliary * np.sin(angle)
        evaluations += 1
        if log_ratio(candidate) > threshold:
            return candidate, evaluations
        # The bracket shrinks towards angle zero, the current point, which is always on the slice.
        if angle < 0.0:
            lower = angle
        else:
            upper = angle
        if upper - lower < 1e-12:
            return deviation, evaluations
        angle = rng.uniform(lower, upper)
