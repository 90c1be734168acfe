"""A likelihood of observations that depend on C linear predictors each, as a function of f.

The predictors of site i are the C values g_i = (E_1 f, ..., E_C f)_i. Observations with the same predictors share a
site. In flat vectors all first values come first, then all second ones, and so on.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from pmgp.core.likelihoods.block_moments import moments_of_sites
from pmgp.core.likelihoods.blocks import BlockMoments, curvature_gradient
from pmgp.core.likelihoods.shared_sites import SharedSites
from pmgp.core.numerics.block_matrices import BlockMatrix, DenseBlocks, along_last, flat, stacked

# Nodes for each of two dimensions: with 24, as for dense processes, moments take twice as long, and weights vary as
# much. With 9, sharp sites are not found.
ORDER = 16


@dataclass(frozen=True, eq=False)
class RepeatedSites:
    """The likelihood of n sites, made of one of N observations with C values each.

    `inner`: `BlockLikelihood` of the observations; `shared`: site of each observation.
    """

    inner: Any
    shared: SharedSites

    @property
    def contrasts(self) -> np.ndarray:
        """H of the observations."""
        return self.inner.contrasts

    @property
    def site_form(self) -> type[BlockMatrix]:
        """The form of the precisions."""
        return self.inner.site_form

    @property
    def separate(self) -> bool:
        """Whether each term depends on the values of only one site."""
        return bool(self.inner.separate)

    def of_observations(self, g: np.ndarray) -> np.ndarray:
        """Return the values of the observations: (..., C n) -> (..., C N)."""
        return flat(self.shared.predictors(stacked(g, self.shared.sites)))

    def log_likelihood(self, g: np.ndarray) -> np.ndarray:
        """Return log p(y|g): (..., C n) -> (...)."""
        return self.inner.log_likelihood(self.of_observations(g))

    def log_density(self, g: np.ndarray) -> np.ndarray:
        """Return log p(y|g) for each site: (draws, C n) -> (draws, n)."""
        return self.shared.collect(self.inner.log_density(self.of_observations(g)))

    def gradient(self, g: np.ndarray) -> np.ndarray:
        """Return the first derivative in g: (C n,) -> (C n,)."""
        return self._summed(self.inner.gradient(self.of_observations(g)))

    def derivatives(self, g: np.ndarray) -> tuple[np.ndarray, DenseBlocks]:
        """Return the gradient, (C n,), and a positive definite curvature."""
        gradient, curvature = self.inner.derivatives(self.of_observations(g))
        blocks = self.shared.collect(np.moveaxis(curvature.blocks, 0, -1))
        return self._summed(gradient), DenseBlocks(np.ascontiguousarray(np.moveaxis(blocks, -1, 0)))

    def tilted_moments(
        self, mean: np.ndarray, covariance: np.ndarray, near: tuple[np.ndarray, np.ndarray] | None = None
    ) -> BlockMoments | None:
        """Return tilted moments from nodes around `near`, or None if a term depends on the values of several sites."""
        if not self.separate:
            return None
        return moments_of_sites(self.log_density, mean, covariance, near, ORDER if mean.shape[1] == 2 else None)

    def _summed(self, gradient: np.ndarray) -> np.ndarray:
        return flat(self.shared.collect(stacked(gradient, len(self.shared.where))))


@dataclass(frozen=True, eq=False)
class CoupledLikelihood:
    """The likelihood of f: `of_sites` is that of the values g = E f of the sites, and `design` is E, (C n, m)."""

    of_sites: RepeatedSites
    design: Any

    @property
    def contrasts(self) -> np.ndarray:
        """H of the observations."""
        return self.of_sites.contrasts

    @property
    def site_form(self) -> type[BlockMatrix]:
        """The form of the precisions."""
        return self.of_sites.site_form

    @property
    def separate(self) -> bool:
        """Whether each term depends on the values of only one site."""
        return self.of_sites.separate

    def at_sites(self, f: np.ndarray) -> np.ndarray:
        """Return E f: (..., m) -> (..., C n)."""
        return along_last(self.design, f)

    def log_likelihood(self, f: np.ndarray) -> np.ndarray:
        """Return log p(y|f): (..., m) -> (...)."""
        return self.of_sites.log_likelihood(self.at_sites(f))

    def log_density(self, f: np.ndarray) -> np.ndarray:
        """Return log p(y|f) for each site: (draws, m) -> (draws, n)."""
        return self.of_sites.log_density(self.at_sites(f))

    def gradient(self, f: np.ndarray) -> np.ndarray:
        """Return the first derivative in f: (m,) -> (m,)."""
        return self.design.T @ self.of_sites.gradient(self.at_sites(f))

    def derivatives(self, f: np.ndarray) -> tuple[np.ndarray, DenseBlocks]:
        """Return gradient, (C n,), and curvature in the values of the sites."""
        return self.of_sites.derivatives(self.at_sites(f))

    def fisher_information(self, f: np.ndarray) -> np.ndarray:
        """Return the diagonal of E'WE for the curvature W: (m,)."""
        curvature = self.derivatives(f)[1].blocks
        n, number = curvature.shape[:2]
        parts = [self.design[c * n : (c + 1) * n] for c in range(number)]
        pairs = product(range(number), repeat=2)
        return sum(((parts[c] * parts[d]).T @ curvature[:, c, d] for c, d in pairs), np.zeros(len(f)))

    def curvature_gradient(self, f: np.ndarray, marginals: np.ndarray) -> np.ndarray:
        """Return the gradient of sum_i <S_i, W_i(g)> in g: (C n,)."""
        return curvature_gradient(self.of_sites, self.at_sites(f), marginals)

    def tilted_moments(
        self, mean: np.ndarray, covariance: np.ndarray, near: tuple[np.ndarray, np.ndarray] | None = None
    ) -> BlockMoments | None:
        """Return tilted moments of the values of each site."""
        return self.of_sites.tilted_moments(mean, covariance, near)

    def subset(self, sites: Any) -> _Part:
        """Return the terms of some sites, as a function of their values."""
        return _Part(self.of_sites, *self.of_sites.shared.observations_of(sites))


@dataclass(frozen=True, eq=False)
class _Part:
    """The terms of some sites; `where` has the place of each observation's site among these."""

    whole: RepeatedSites
    observations: np.ndarray
    where: np.ndarray

    def log_likelihood(self, g: np.ndarray) -> np.ndarray:
        """Return the log-likelihood of these sites: (draws, C s) -> (draws,)."""
        if not len(self.observations):
            return np.zeros(len(g))
        values = g.reshape(len(g), len(self.whole.contrasts), -1)[:, :, self.where]
        return self.whole.inner.subset(self.observations).log_likelihood(flat(values))
