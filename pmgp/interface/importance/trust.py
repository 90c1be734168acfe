"""Judge weighted draws by the tail of their weights, using ArviZ (Vehtari et al. 2024)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pmgp.core.importance import effective_size
from pmgp.core.numerics.digits import above

# The tail of fewer weights cannot be judged.
FEWEST = 25
# Smallest effective number of draws for each hyper-parameter.
WORTH_EACH = 5
# Weights that are worth this part of their number are nearly equal.
NEARLY_EQUAL = 0.99


class Trust(NamedTuple):
    """The diagnosis of a set of weights.

    Attributes
    ----------
    pareto_k : float
        Shape of the generalized Pareto distribution that fits the largest weights; infinite if there are too few.
    limit : float
        The largest value of `pareto_k` with which this number of weights can be trusted, at most 0.7.
    effective_size : float
        Number of equal weights that would be worth as much.
    size : int
        Number of weights.
    """

    pareto_k: float
    limit: float
    effective_size: float
    size: int

    @property
    def reliable(self) -> bool:
        """Whether the means with these weights, and their standard errors, can be trusted."""
        return self.pareto_k <= self.limit or self._nearly_equal

    @property
    def _nearly_equal(self) -> bool:
        """Whether the weights hardly differ: the shape of so thin a tail says little, unless it has no mean."""
        return self.pareto_k < 1.0 and self.effective_size >= NEARLY_EQUAL * self.size

    def suffices(self, dimension: int) -> bool:
        """Return whether the weights can be trusted, and are worth enough draws of this many hyper-parameters."""
        return self.reliable and self.effective_size >= WORTH_EACH * dimension

    @property
    def words(self) -> str:
        """The diagnosis as a sentence."""
        tail = f"Pareto k {above(self.pareto_k, self.limit, 2)}, limit {self.limit:.2f}"
        if self._nearly_equal and self.pareto_k > self.limit:
            tail += ", but the weights are nearly equal"
        verdict = "reliable" if self.reliable else "not reliable"
        return f"effective sample size {self.effective_size:.0f} of {self.size} ({tail}): {verdict}"


def trust_in(log_weights: np.ndarray) -> Trust:
    """Diagnose weights of shape (size,)."""
    size = len(log_weights)
    limit = min(1.0 - 1.0 / np.log10(max(size, 2)), 0.7)
    return Trust(_pareto_k(log_weights), float(limit), effective_size(log_weights), size)


def _pareto_k(log_weights: np.ndarray) -> float:
    from arviz_stats.base import array_stats

    if np.isfinite(log_weights).sum() < FEWEST:
        return np.inf
    if np.ptp(np.sort(log_weights)[-FEWEST:]) == 0.0:
        return -np.inf
    # ArviZ expects minus the logs.
    found = float(array_stats.psislw(-log_weights)[1])
    return np.inf if np.isnan(found) else found
