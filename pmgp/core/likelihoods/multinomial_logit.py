"""Class labels, or counts of each class, with a softmax of one latent value for each class."""

from __future__ import annotations

from copy import copy
from typing import ClassVar

import numpy as np
from scipy.special import gammaln

from pmgp.core.likelihoods.block_moments import ORDERS, contrasts_of
from pmgp.core.likelihoods.blocks import BlockMoments
from pmgp.core.likelihoods.checks import check_class_counts
from pmgp.core.likelihoods.softmax_moments import softmax_moments, tilted_modes
from pmgp.core.numerics.block_matrices import BlockMatrix, ContrastBlocks, flat, stacked

# Smallest expected count, which scales the sites.
SMALLEST_SCALE = 1e-10


class MultinomialLogit:
    """P(y|f) multinomial with probabilities pi_c = exp(f_c) / sum_d exp(f_d).

    Each class has a latent vector: if one of them were fixed at zero, the classes would not be treated alike.

    Parameters
    ----------
    y : (n,) or (n, C) array
        Labels 0, ..., C - 1, or counts of each class in a row.
    classes : int, optional
        Number of classes C; by default the number of columns, or one more than the largest label.
    order : (C,) array of int, optional
        Index of each class's latent vector, if they are not in the order of the classes.

    Raises
    ------
    ValueError
        For labels that are not among the classes, fewer than two classes, and counts that are not whole numbers.
    """

    site_form: ClassVar[type[BlockMatrix]] = ContrastBlocks

    def __init__(self, y: np.ndarray, classes: int | None = None, order: np.ndarray | None = None) -> None:
        counts = check_class_counts(y, classes)
        ordered = counts.T if order is None else counts.T[np.argsort(order)]
        self.trials = ordered.sum(axis=0)
        self.contrasts = contrasts_of(len(ordered))
        # The part that does not depend on f; zero for labels.
        constants = gammaln(self.trials + 1.0) - gammaln(ordered + 1.0).sum(axis=0)
        self.data = np.ascontiguousarray(np.concatenate([ordered, constants[None, :]]))

    def subset(self, sites: slice) -> MultinomialLogit:
        """Return the likelihood of only these observations."""
        part = copy(self)
        part.data, part.trials = self.data[:, sites], self.trials[sites]
        return part

    @property
    def counts(self) -> np.ndarray:
        """The count of each class: (C, n)."""
        return self.data[:-1]

    @property
    def _constants(self) -> np.ndarray:
        return self.data[-1]

    def log_density(self, f: np.ndarray) -> np.ndarray:
        """Return log p(y_i|f_i): (..., C n) -> (..., n)."""
        at = stacked(f, self.trials.size)
        largest = at.max(axis=-2, keepdims=True)
        shifted = at - largest
        log_sum = np.log(np.exp(shifted).sum(axis=-2))
        return (self.counts * shifted).sum(axis=-2) - self.trials * log_sum + self._constants

    def log_likelihood(self, f: np.ndarray) -> np.ndarray:
        """Return log p(y|f): (..., C n) -> (...)."""
        return self.log_density(f).sum(axis=-1)

    def probabilities(self, f: np.ndarray) -> np.ndarray:
        """Return the probability of each class: (..., C n) -> (..., C, n)."""
        at = stacked(f, self.trials.size)
        odds = np.exp(at - at.max(axis=-2, keepdims=True))
        return odds / odds.sum(axis=-2, keepdims=True)

    def gradient(self, f: np.ndarray) -> np.ndarray:
        """Return the first derivative: (C n,) -> (C n,)."""
        return flat(self.counts - self.trials * self.probabilities(f))

    def derivatives(self, f: np.ndarray) -> tuple[np.ndarray, ContrastBlocks]:
        """Return the gradient, and minus the second derivative, which is also the Fisher information."""
        expected = self.trials * self.probabilities(f)
        return flat(self.counts - expected), ContrastBlocks(np.maximum(expected, SMALLEST_SCALE))

    def curvature_gradient(self, f: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the gradient of sum_i <A_i, W_i(f)> in f, for symmetric A: (C n,) and (n, C, C) to (C n,)."""
        pi = self.probabilities(f)
        own = np.einsum("icc->ci", weights)
        across = np.einsum("icd,di->ci", weights, pi)
        common = (pi * (2.0 * across - own)).sum(axis=0)
        return flat(self.trials * pi * (own - 2.0 * across + common))

    def fisher_information(self, f: np.ndarray) -> np.ndarray:
        """Return the diagonal of the expected curvature: (C n,) -> (C n,)."""
        probabilities = self.probabilities(f)
        return flat(self.trials * probabilities * (1.0 - probabilities))

    def tilted_moments(
        self, mean: np.ndarray, covariance: np.ndarray, near: tuple[np.ndarray, np.ndarray] | None = None
    ) -> BlockMoments:
        """Return the moments of p(y_i|f_i) N(H f_i|mean, covariance): (n, d) and (n, d, d) arrays.

        One or two dimensions use a quadrature rule about `near`. In more dimensions, where sites cannot match all
        covariances, points about the modes are used, and the expected curvature is returned.
        """
        if mean.shape[1] in ORDERS:
            found = softmax_moments(self.counts, mean, covariance, near or (mean, covariance), curved=False)
            return found._replace(log_normalizer=found.log_normalizer + self._constants)
        start = mean if near is None else near[0]
        modes = tilted_modes(self.counts, mean, covariance, start)
        found = softmax_moments(self.counts, mean, covariance, modes)
        return found._replace(log_normalizer=found.log_normalizer + self._constants)
