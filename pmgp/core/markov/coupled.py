"""A sparse precision with sites over several linear predictors each, such as an observation's mean and its scale.

f is x itself, and the C values of site i are row i of E_1 x, ..., E_C x. Given sites with C x C precisions W, x has the
precision Q + E'WE, on a pattern that joins all elements of x in the C rows of a site. Neither Q nor W is inverted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from pmgp.core.gaussians import BlockConditioning
from pmgp.core.gaussians.linear_sites import LinearSitesApproximation, LinearSitesPrior
from pmgp.core.likelihoods.base import Divisible, Likelihood
from pmgp.core.markov.prior import PrecisionPrior, PrecisionShrinkage
from pmgp.core.markov.sparse import SparsePattern
from pmgp.core.numerics.block_matrices import BlockMatrix, stacked


@dataclass(frozen=True, eq=False)
class CoupledPrecisionPrior(PrecisionPrior, LinearSitesPrior):
    """The prior of f = x + c, where x ~ N(m, Q^-1), with the sites of a pattern that is `coupled`."""

    pattern: SparsePattern

    @property
    def vectors(self) -> int:  # type: ignore[override]
        """The number C of values of each site."""
        return len(self.pattern.coupled)

    @property
    def sites(self) -> int:
        """Number n of sites."""
        return int(self.pattern.coupled[0].shape[0])

    @cached_property
    def variance(self) -> np.ndarray:
        """Marginal variances of f: (m,)."""
        return self.pattern.variances(self.covariances)

    @cached_property
    def site_blocks(self) -> np.ndarray:
        """Covariances of the values of each site: (n, C, C)."""
        return self.pattern.site_blocks(self.covariances)

    def at_sites(self, f: np.ndarray) -> np.ndarray:
        """Return E f: (..., m) -> (..., C n)."""
        return self.pattern.at_sites(f)

    def from_sites(self, b: np.ndarray) -> np.ndarray:
        """Return E' b: (C n,) -> (m,)."""
        return self.pattern.from_sites(b)

    def shrinkage(self, precision: np.ndarray) -> NoReturn:
        """Refuse sites over single elements."""
        self._lacks("sites over single elements of f", "shrunk, for sites over several values")

    def shrunk(self, precision: BlockMatrix) -> CoupledShrinkage | None:  # type: ignore[override]
        """Return (Q + E'WE)^-1, or None if Q or Q + E'WE is indefinite."""
        if self.factor is None:
            return None
        factor = self.pattern.factorize(self.pattern.with_blocks(self.values, precision.blocks))
        return None if factor is None else CoupledShrinkage(self, precision, factor)

    def conditioning(self) -> CoupledConditioning:  # type: ignore[override]
        """Return the prior in the form that a search for sites conditions."""
        return CoupledConditioning(self)


@dataclass(frozen=True, eq=False)
class CoupledShrinkage(PrecisionShrinkage):
    """The covariance S = (Q + E'WE)^-1 of x given the sites.

    `precision`: W, a `BlockMatrix`; `factor`: factor of Q + E'WE.
    """

    prior: CoupledPrecisionPrior
    precision: Any

    def diagonal(self) -> np.ndarray:
        """Return the diagonal of S: (m,)."""
        return self.prior.pattern.variances(self.covariances)

    def marginals(self) -> np.ndarray:
        """Return the covariances of the values of each site: (n, C, C)."""
        return self.prior.raised(self.prior.pattern.site_blocks(self.covariances))


class CoupledConditioning(BlockConditioning):
    """A prior conditioned on one set of sites after another."""

    prior: CoupledPrecisionPrior
    shrinkage: CoupledShrinkage  # type: ignore[assignment]

    def approximation(self, log_evidence: float, iterations: int, converged: bool = True) -> CoupledPosterior:
        """Return q for the current sites."""
        return CoupledPosterior(
            self.prior, self.linear, self.precision, self.mean, self.shrinkage, log_evidence, iterations, converged
        )


@dataclass(frozen=True, eq=False)
class CoupledPosterior(LinearSitesApproximation):
    """The approximation q(f); see `BlockApproximation`. A draw takes one triangular solve."""

    prior: CoupledPrecisionPrior
    shrinkage: CoupledShrinkage

    def covariance_bar(self, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the bar for Q's values of the log-evidence at fixed sites, and covariances of sites, (n, C, C)."""
        pulled = self.prior.from_sites(alpha)
        return self.shrinkage.covariance_bar(0.5 * pulled, pulled), self.marginals

    def shifted_bar(self, bar: np.ndarray, shift: np.ndarray, alpha: np.ndarray) -> np.ndarray:
        """Return the bar of the log-evidence of sites that depend on the mode."""
        pulled, moved = self.prior.from_sites(alpha), self.prior.from_sites(shift)
        return self.shrinkage.covariance_bar(0.5 * pulled + moved, pulled)

    def site_groups(self, number: int) -> NoReturn:
        """Refuse groups of sites of a dense q."""
        self._lacks("values in groups, which SequentialSampling needs", 'estimator="sequential"')

    def sample_deviations(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw f - mean: (size, m)."""
        return self.shrinkage.factor.sample(rng, size)

    def deviations_from(self, normals: np.ndarray) -> np.ndarray:
        """Turn standard normals into draws of f - mean; half of them are not needed: (2, size, m) -> (size, m)."""
        return self.shrinkage.factor.sample_from(normals[0])

    def deviation_given(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        """Return x given f, less its mean under q: (m,)."""
        return f - self.mean

    def log_ratios_of(self, likelihood: Likelihood, sites: Any, deviations: np.ndarray) -> np.ndarray:
        """Return the log of the likelihood over some of the sites, given the deviations of their values: (draws,)."""
        assert isinstance(likelihood, Divisible)
        # Elements without observations may make up a group.
        if not len(sites):
            return np.zeros(len(deviations))
        at = stacked(np.arange(self.linear.size), self.prior.sites)[:, sites].ravel()
        g = deviations + self.site_mean[at]
        log_sites = g @ self.linear[at] - 0.5 * self.precision.subset(sites).quadratic(g)
        return likelihood.subset(sites).log_likelihood(g) - log_sites
