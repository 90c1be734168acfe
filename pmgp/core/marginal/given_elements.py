"""A model of some elements of theta, given the others: a chain moves the former, and other samplers the latter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pmgp.core.gaussians import Prior
from pmgp.core.joint_density import DifferentiableMarginal
from pmgp.core.likelihoods.base import Likelihood


class GivenElements:
    """The joint density as a function of the elements of theta that move.

    `model`: model of the whole theta; `moved` (dimension,) of int: the elements that move; `theta`: a complete theta,
    which gives the other elements; `units` (dimension,): units of those that move, powers of two.
    """

    def __init__(self, model: DifferentiableMarginal, moved: np.ndarray, theta: np.ndarray) -> None:
        self.model = model
        self.moved = moved
        self.theta = theta
        self.units = np.ones(len(moved))

    def whole(self, theta: np.ndarray) -> np.ndarray:
        """Return theta with the given elements and those that move."""
        whole = self.theta.copy()
        whole[self.moved] = self.units * theta
        return whole

    def part(self, theta: np.ndarray) -> np.ndarray:
        """Return the elements of a complete theta that move, in their units."""
        return theta[self.moved] / self.units

    def log_prior(self, theta: np.ndarray) -> float:
        """Return the log of the prior density, up to a constant."""
        return self.model.log_prior(self.whole(theta))

    def prior(self, theta: np.ndarray) -> Prior:
        """Return p(f|theta)."""
        return self.model.prior(self.whole(theta))

    def likelihood(self, theta: np.ndarray) -> Likelihood:
        """Return p(y|f, theta) as a function of f."""
        return self.model.likelihood(self.whole(theta))

    @property
    def likelihood_elements(self) -> Sequence[int]:
        """Indices, among the elements that move, of those on which p(y|f, theta) depends."""
        return np.flatnonzero(np.isin(self.moved, self.model.likelihood_elements)).tolist()

    def log_prior_gradient(self, theta: np.ndarray) -> np.ndarray:
        """Return the gradient of the log-prior: (dimension,)."""
        return self.units * self.model.log_prior_gradient(self.whole(theta))[self.moved]

    def covariance_pullback(self, theta: np.ndarray, covariance_bar: np.ndarray, mean_bar: np.ndarray) -> np.ndarray:
        """Return the gradient of <covariance_bar, K> + mean_bar' m: (dimension,)."""
        gradient = self.model.covariance_pullback(self.whole(theta), covariance_bar, mean_bar)
        return self.units * gradient[self.moved]
