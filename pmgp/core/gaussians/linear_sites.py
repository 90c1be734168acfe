"""Gaussians whose sites are over linear combinations g = E f of the latent values, a few of them each.

The values of a site may follow from each other, or be constant. So that cavities exist, variances of such sites are
raised by a small share.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NoReturn

import numpy as np

from pmgp.core.gaussians.base import EPSILON, LARGEST_ERROR
from pmgp.core.gaussians.block_sites import BlockApproximation
from pmgp.core.gaussians.held import CoupledPrior
from pmgp.core.numerics.block_matrices import definite

# Values follow from each other, or are constant, if their correlations have an eigenvalue below the first number. The
# second is the share of the largest variance by which those of such a site are raised.
DEPENDENT, SHARE = 1e-8, 1e-6
# The smallest cavity, and the largest sharpness for which expectation propagation was right. They may be smaller and
# larger than with sites over single values, because variances of q are no differences.
SMALLEST_CAVITY, SHARPEST = 1e-13, 1e11


class LinearSitesPrior(CoupledPrior):
    """N(f|m, K) with sites over combinations g = E f."""

    smallest_cavity: ClassVar[float] = SMALLEST_CAVITY  # type: ignore[misc]

    @property
    @abstractmethod
    def site_blocks(self) -> np.ndarray:
        """Covariances of the values of each site: (n, C, C)."""

    @cached_property
    def site_variance(self) -> np.ndarray:
        """Variances of the values of the sites: (C n,)."""
        return np.einsum("icc->ci", self.raised(self.site_blocks)).ravel()

    @cached_property
    def dependent(self) -> np.ndarray:
        """Whether the values of a site follow from each other, or one of them is constant: (n,)."""
        return ~definite(self.site_blocks, DEPENDENT)

    def raised(self, blocks: np.ndarray) -> np.ndarray:
        """Return covariances of the values of each site, with larger variances where they are singular: (n, C, C)."""
        raised = blocks.copy()
        diagonal = np.einsum("icc->ic", raised)
        largest = diagonal.max(axis=1, keepdims=True)
        diagonal += SHARE * self.dependent[:, None] * np.where(largest > 0.0, largest, 1.0)
        return raised


@dataclass(frozen=True, eq=False)
class LinearSitesApproximation(BlockApproximation):
    """The approximation q(f) with such sites; see `BlockApproximation`."""

    prior: LinearSitesPrior
    shrinkage: Any

    @property
    def variance(self) -> np.ndarray:
        """Marginal variances of f under q: (m,)."""
        return self.shrinkage.diagonal()

    @property
    def sharpness(self) -> float:
        """The largest precision of a site, times the variance under q without that site.

        The prior's variance says little here: that of a random walk grows with time.
        """
        informed = self.precision.blocks @ self.marginals
        share = np.linalg.eigvals(informed).real.max() if np.isfinite(informed).all() else 1.0
        return float(share / (1.0 - share)) if share < 1.0 else np.inf

    @property
    def resolved(self) -> bool:
        """Whether the log-evidence survives rounding of b g and g'W g, and of the variances of sharp sites."""
        offset = self.prior.at_sites(self.prior.mean)
        moved = self.precision.quadratic(np.stack([self.site_mean - offset, offset]))
        return self.sharpness <= SHARPEST and not EPSILON * float(moved.sum()) > LARGEST_ERROR

    def site_groups(self, number: int) -> NoReturn:
        """Refuse groups of sites over single values."""
        self._lacks("values in groups, which SequentialSampling needs", 'estimator="importance"')
