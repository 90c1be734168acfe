"""A second proposal, fitted to weighted draws from a first one, with weights that stay unbiased.

All draws are weighed with the mixture of both proposals (Veach and Guibas 1995), so that draws from a first proposal
that is too narrow, or in the wrong place, still count. If the second proposal were fitted to the very draws that it
weighs, as in adaptive multiple importance sampling (Cornuet et al. 2012), large weights would lower themselves. So
there are as many second proposals as first draws, each fitted without one of them. A first draw is weighed with the
proposal fitted without it. Each further draw comes from one of these proposals, chosen at random, and is weighed with
that one.

Let s be the share of first draws, p the density with its unknown constant, q_1 the first proposal, and q a second one.
Given q, the mean weight is

    s int q_1 p / (s q_1 + (1 - s) q) + (1 - s) int q p / (s q_1 + (1 - s) q) = int p

because q has the same distribution in both terms: it is fitted to as many draws in the first as in the second.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from pmgp.core.importance.split_student import SplitStudent
from pmgp.core.importance.student_mixture import log_student

# Scale matrices are wider by this factor than the weighted covariance, since draws are few.
WIDER = 1.2


class Refitted:
    """The mixture of a first proposal and of those fitted to draws from it.

    - `first`: the first proposal
    - `draws` (size, dimension): draws from it
    - `log_weights` (size,): logs of their weights, up to a constant; a draw without weight has minus infinity
    """

    def __init__(self, first: SplitStudent, draws: np.ndarray, log_weights: np.ndarray) -> None:
        self.first, self.size = first, len(draws)
        found = [_matched(first, np.delete(draws, i, axis=0), np.delete(log_weights, i)) for i in range(self.size)]
        self._centers = np.array([center for center, _ in found])
        self._factors = np.array([factor for _, factor in found])

    def sample(self, rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw (size, dimension), and the number of the first draw that each one's proposal leaves out: (size,)."""
        chosen = rng.integers(self.size, size=size)
        nu = self.first.degrees_of_freedom
        steps = np.einsum("nij,nj->ni", self._factors[chosen], rng.standard_normal((size, self.first.dimension)))
        return self._centers[chosen] + steps / np.sqrt(rng.chisquare(nu, size) / nu)[:, None], chosen

    def log_density(self, theta: np.ndarray, left_out: np.ndarray) -> np.ndarray:
        """Return the log-density with which draws are weighed: (n,).

        - `theta` (n, dimension): all draws, the first ones among them
        - `left_out` (n,): for each of them, the number of the first draw that its proposal leaves out
        """
        factors = self._factors[left_out]
        steps = np.linalg.solve(factors, (theta - self._centers[left_out])[..., None])[..., 0]
        log_volumes = np.log(np.einsum("nii->ni", factors)).sum(axis=1)
        own = log_student(np.square(steps).sum(axis=1), log_volumes, theta.shape[1], self.first.degrees_of_freedom)
        share = self.size / len(theta)
        return logsumexp([self.first.log_density(theta), own], axis=0, b=np.array([[share], [1.0 - share]]))


def _matched(first: SplitStudent, draws: np.ndarray, log_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the weighted mean of draws, and the Cholesky factor of a scale matrix.

    This is their covariance, to which the first proposal's scale is added like that of as many draws as dimensions. If
    no draw has weight, these are the first proposal's mean and scale.
    """
    scale, dimension = first.scale, first.dimension
    if not np.isfinite(log_weights).any():
        return first.center, np.linalg.cholesky(WIDER * scale)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    effective = 1.0 / float(weights @ weights)
    center = weights @ draws
    deviations = draws - center
    covariance = (weights[:, None] * deviations).T @ deviations
    return center, np.linalg.cholesky(WIDER * (effective * covariance + dimension * scale) / (effective + dimension))
