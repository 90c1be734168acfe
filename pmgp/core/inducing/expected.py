"""E log p(y|f) for f ~ N(mean, variance), using a likelihood's own kernels at as many nodes as the variance needs.

Good inducing inputs leave little variance, and logarithms of Phi and of the logistic function are smooth, so a few
Gauss-Hermite nodes are as accurate as twenty. Derivatives in the mean are expectations of those in f (Bonnet, Price),
from even fewer nodes, because searches for modes and proposals may be rough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pmgp.core.likelihoods.base import FactorizingLikelihood
from pmgp.core.numerics.quadrature import normal_rule

# Standard deviations up to which the numbers of NODES leave an error below 2e-10 for an observation with any mean.
LIMITS = np.array([0.05, 0.1, 0.2, 0.25, 0.4, 0.5, 0.6, 0.75])
NODES = (3, 4, 5, 6, 8, 10, 12, 16)
# Nodes for derivatives; one call for all observations takes a ninth of the time of a call for each group.
ROUGH = 5


class _Group(NamedTuple):
    """Observations with the same number of nodes."""

    places: np.ndarray
    likelihood: FactorizingLikelihood
    deviations: np.ndarray
    weights: np.ndarray


class ExpectedTerms:
    """The sum of E log p(y|f) over all observations, and its derivatives in the means.

    - `constructor`: makes the likelihood from labels; its log-density must be as smooth as that of a probit or logit
      link
    - `labels` (n,)
    - `order`: the largest number of nodes
    """

    def __init__(
        self, constructor: Callable[[np.ndarray], FactorizingLikelihood], labels: np.ndarray, order: int
    ) -> None:
        self._constructor = constructor
        self._labels = labels
        self._order = order
        self._variance: np.ndarray | None = None
        self._groups: list[_Group] = []
        nodes, self._rough_weights = normal_rule(min(ROUGH, order))
        self._rough_nodes = nodes[:, None]
        self._repeated = constructor(np.tile(labels, len(nodes)))

    def value(self, mean: np.ndarray, variance: np.ndarray) -> float:
        """Return the sum of E log p(y|f) for means and variances of shape (n,)."""
        return sum(
            float(weights @ likelihood.log_likelihood(mean[places] + deviations))
            for places, likelihood, deviations, weights in self._at(variance)
        )

    def derivatives(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return first and second derivatives in the means, each of shape (n,); rough where variances are large."""
        f = mean + np.sqrt(variance) * self._rough_nodes
        slope, minus = self._repeated.derivatives(f.ravel())
        weights = self._rough_weights
        return weights @ slope.reshape(f.shape), -(weights @ minus.reshape(f.shape))

    def _at(self, variance: np.ndarray) -> list[_Group]:
        """Return the groups for these variances, which stay the same array while theta does not change."""
        if variance is not self._variance:
            scale = np.sqrt(variance)
            kind = np.searchsorted(LIMITS, scale)
            self._groups = [self._group(np.flatnonzero(kind == which), scale, which) for which in np.unique(kind)]
            self._variance = variance
        return self._groups

    def _group(self, places: np.ndarray, scale: np.ndarray, kind: int) -> _Group:
        number = min(NODES[kind], self._order) if kind < len(NODES) else self._order
        nodes, weights = normal_rule(number)
        return _Group(places, self._constructor(self._labels[places]), scale[places] * nodes[:, None], weights)
