"""q(f) for several latent vectors: their prior times Gaussian sites, each over the C latent values of one observation.

q(f) is proportional to N(f|m, K) prod_i exp(b_i' f_i - f_i' W_i f_i / 2) with W_i of shape (C, C). As with one vector
(`sites.py`), an importance weight costs O(n), and a draw O(n^2) for each vector: with S = (K^-1 + W)^-1, a draw u from
the prior and a draw v with covariance W, u + S (v - W u) has the covariance S.

The values of a site may also be linear combinations of f, g = E f. Then b and W are in terms of g, and stand for E' b
and E' W E.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import cast

import numpy as np

from pmgp.core.gaussians.base import ConditionedPrior, Posterior
from pmgp.core.gaussians.held import CoupledPrior, HeldCovariances
from pmgp.core.gaussians.site_groups import SiteGroups, site_groups
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.likelihoods.blocks import BlockLikelihood
from pmgp.core.likelihoods.compiled_terms import BLOCK_LOG_RATIOS, kernel_with_terms
from pmgp.core.numerics import linalg
from pmgp.core.numerics.block_matrices import BlockMatrix, ContrastBlocks, stacked
from pmgp.core.numerics.block_shrinkage import Shrinkage
from pmgp.core.numerics.compiled.loading import for_rows, vectors

# The largest sharpness for which expectation propagation was right.
SHARPEST = 1e7


@dataclass(frozen=True, eq=False)
class BlockApproximation(Posterior):
    """A Gaussian q(f) close to p(f|y, theta), for several latent vectors; `Posterior` describes its other attributes.

    Attributes
    ----------
    linear : (C n,) array
        Site parameters b.
    precision : BlockMatrix
        Site parameters W.
    shrinkage : Shrinkage
        (K^-1 + E'WE)^-1.
    matching : pair of (C n,) array and BlockMatrix, or None
        Sites b and W that match the moments better, if a fit has found some and ended nearby.
    """

    prior: CoupledPrior
    linear: np.ndarray
    precision: BlockMatrix
    mean: np.ndarray
    shrinkage: Shrinkage
    log_evidence: float
    iterations: int
    converged: bool = True
    matching: tuple[np.ndarray, BlockMatrix] | None = None

    @cached_property
    def marginals(self) -> np.ndarray:
        """Covariances of the C latent values of each site under q: (n, C, C)."""
        return self.shrinkage.marginals()

    @property
    def variance(self) -> np.ndarray:
        """Marginal variances of q: (C n,)."""
        return np.einsum("icc->ci", self.marginals).ravel()

    @cached_property
    def site_mean(self) -> np.ndarray:
        """Mean of g = E f: (C n,)."""
        return self.prior.at_sites(self.mean)

    @property
    def residual(self) -> np.ndarray:
        """b - W g, for the mean of g: (C n,)."""
        return self.linear - self.precision.product(self.site_mean)

    @cached_property
    def log_normalizer(self) -> float:
        """Log of the integral of the prior times the sites."""
        means = self.prior.at_sites(self.prior.mean), self.site_mean
        return log_normalizer(*means, self.linear, self.precision, self.shrinkage.log_determinant)

    def log_ratio(self, likelihood: Likelihood, f: np.ndarray) -> np.ndarray:
        """Return the log of the likelihood over the sites: (..., size) -> (...)."""
        kernel = kernel_with_terms(likelihood, BLOCK_LOG_RATIOS)
        if kernel is not None and isinstance(self.precision, ContrastBlocks):
            scale = self.precision.scale
            return for_rows(partial(kernel, *vectors(self.linear.reshape(scale.shape), scale)), f)
        g = self.prior.at_sites(f)
        return likelihood.log_likelihood(f) - g @ self.linear + 0.5 * self.precision.quadratic(g)

    @property
    def log_determinant(self) -> float:
        """Log-determinant of I + K W."""
        return self.shrinkage.log_determinant

    @property
    def sharpness(self) -> float:
        """The largest precision of a site, times the variance of the prior."""
        precisions = np.einsum("icc->ci", self.precision.blocks).ravel()
        return float(np.max(precisions * self.prior.site_variance))

    @property
    def resolved(self) -> bool:
        """Whether the log-evidence survives rounding: variances of sharp sites are small differences of large ones."""
        return not self.sharpness > SHARPEST

    def conditioned(self) -> BlockConditioning:
        """Return the prior conditioned on q's sites."""
        found = cast(BlockConditioning, self.prior.conditioning())
        found.linear, found.precision, found.mean = self.linear, self.precision, self.mean
        found.shrinkage = self.shrinkage
        return found

    def product(self, x: np.ndarray) -> np.ndarray:
        """Return S x for x of shape (size,) or (size, k)."""
        return self.shrinkage.product(x)

    def moved_at_sites(self, b: np.ndarray) -> np.ndarray:
        """Return E S E' b, the change of g's mean with a change b of the linear parameters: (C n,)."""
        return self.prior.at_sites(self.product(self.prior.from_sites(b)))

    def covariance_bar(self, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return lower triangles of (alpha_c alpha_c' - R_cc) / 2, (C, n, n), and marginal covariances, (n, C, C)."""
        blocks = zip(self.shrinkage.resistances(), stacked(alpha, self.prior.sites), strict=True)
        return np.array([linalg.add_outer(-0.5 * resistance, own) for resistance, own in blocks]), self.marginals

    def shifted_bar(self, bar: np.ndarray, shift: np.ndarray, alpha: np.ndarray) -> np.ndarray:
        """Return the lower triangles of the bar with (shift_c alpha_c' + alpha_c shift_c') / 2 added."""
        blocks = zip(bar, *(stacked(x, self.prior.sites) for x in (shift, alpha)), strict=True)
        return np.array([linalg.add_outer(np.asfortranarray(block), by, own) for block, by, own in blocks])

    def site_groups(self, number: int) -> SiteGroups:
        """Return the groups of sites that `SequentialSampling` takes in turn."""
        return site_groups(self, cast(HeldCovariances, self.prior).parts, self.precision, number)

    def deviations_from(self, normals: np.ndarray) -> np.ndarray:
        """Turn standard normals into draws of f - mean from q: (2, size, C n) -> (size, C n)."""
        return self.shrinkage.drawn(self.prior.deviations_from(normals[0]), normals[1])


def log_normalizer(
    prior_mean: np.ndarray, mean: np.ndarray, linear: np.ndarray, precision: BlockMatrix, log_determinant: float
) -> float:
    """Return the log normalizer of q: m'(b - W m / 2) + (b - W m)'(mu - m) / 2 - log|I + K W| / 2.

    The means m and mu are those of g, and K stands for its covariance: (C n,) arrays.
    """
    weighted = precision.product(prior_mean)
    offset = float(prior_mean @ (linear - 0.5 * weighted))
    return offset + 0.5 * float((linear - weighted) @ (mean - prior_mean)) - 0.5 * log_determinant


class BlockConditioning(ConditionedPrior):
    """A prior of several vectors that is conditioned on sites (b, W); `ConditionedPrior` describes its attributes.

    Parameters
    ----------
    prior : CoupledPrior
    """

    prior: CoupledPrior
    precision: BlockMatrix
    shrinkage: Shrinkage

    def __init__(self, prior: CoupledPrior) -> None:
        self.prior = prior

    def expansion(self, likelihood: Likelihood, f: np.ndarray) -> tuple[np.ndarray, BlockMatrix]:
        """Return the sites b and W that have the likelihood's gradient and curvature at f: (size,)."""
        gradient, curvature = cast("BlockLikelihood", likelihood).derivatives(f)
        return curvature.product(self.prior.at_sites(f)) + gradient, curvature

    def on(self, linear: np.ndarray, precision: BlockMatrix) -> bool:
        """Condition on sites; return False if that is not possible, for example if K contains NaN.

        With centered sites b' = b - W m, the mean is m + (K^-1 + W)^-1 b'.
        """
        try:
            found = self.prior.shrunk(precision)
        except np.linalg.LinAlgError:
            # Blocks that are positive definite only before rounding.
            return False
        if found is None:
            return False
        centered = linear - precision.product(self.prior.at_sites(self.prior.mean))
        self.linear, self.precision, self.shrinkage = linear, precision, found
        self.mean = self.prior.mean + found.product(self.prior.from_sites(centered))
        return True

    def information(self, change: np.ndarray) -> float:
        """Return the information of the sites about a change of f: (size,)."""
        return float(self.precision.quadratic(self.prior.at_sites(change)))

    @property
    def residual(self) -> np.ndarray:
        """E'(b - W g) for the mean of g, which is K^-1 (mean - m): (size,)."""
        return self.prior.from_sites(self.linear - self.precision.product(self.prior.at_sites(self.mean)))

    @property
    def log_determinant(self) -> float:  # type: ignore[override]
        """Log-determinant of I + K W."""
        return self.shrinkage.log_determinant

    @property
    def inverse_diagonal(self) -> np.ndarray:
        """Raise TypeError: sites over several values have matrices; see `BlockApproximation.marginals`."""
        raise TypeError("sites over the values of several latent vectors have matrices instead of a diagonal")

    @property
    def log_normalizer(self) -> float:
        """Log of the integral of the prior times the sites."""
        means = self.prior.at_sites(self.prior.mean), self.prior.at_sites(self.mean)
        return log_normalizer(*means, self.linear, self.precision, self.log_determinant)

    def approximation(self, log_evidence: float, iterations: int, converged: bool = True) -> BlockApproximation:
        """Return q for the current sites."""
        return BlockApproximation(
            self.prior, self.linear, self.precision, self.mean, self.shrinkage, log_evidence, iterations, converged
        )
