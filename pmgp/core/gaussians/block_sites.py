"""q(f) for several latent vectors: their prior times Gaussian sites, each over the C latent values of one observation.

q(f) is proportional to N(f|m, K) prod_i exp(b_i' f_i - f_i' W_i f_i / 2) with W_i of shape (C, C). As with one vector
(`sites.py`), an importance weight costs O(n) and a draw O(n^2) for each vector: with u a draw of the prior, v one with
covariance W, and S = (K^-1 + W)^-1, u + S (v - W u) has the covariance S.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from pmgp.core.gaussians.blocks import BlockPrior
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.likelihoods.blocks import BlockLikelihood
from pmgp.core.likelihoods.compiled_terms import BLOCK_LOG_RATIOS, kernel_with_terms
from pmgp.core.numerics.block_matrices import BlockMatrix, ContrastBlocks
from pmgp.core.numerics.block_shrinkage import Shrinkage
from pmgp.core.numerics.compiled.loading import for_rows, vectors

__all__ = ["BlockApproximation", "BlockConditioning"]


@dataclass(frozen=True, eq=False)
class BlockApproximation:
    """A Gaussian q(f) close to p(f|y, theta), for several latent vectors.

    Attributes
    ----------
    prior : BlockPrior
    linear : (C n,) array
        Site parameters b.
    precision : BlockMatrix
        Site parameters W.
    mean : (C n,) array
        Mean of q.
    shrinkage : Shrinkage
        (K^-1 + W)^-1.
    log_evidence : float
        The approximation's own value of log p(y|theta).
    iterations : int
        How many Newton steps or sweeps it took.
    converged : bool
        Whether the approximation is the one that was asked for; False where another one stands in for it.
    matching : pair of (C n,) array and BlockMatrix, or None
        b and W of sites that match its moments better, where a fit has found some and ended nearby.
    """

    prior: BlockPrior
    linear: np.ndarray
    precision: BlockMatrix
    mean: np.ndarray
    shrinkage: Shrinkage
    log_evidence: float
    iterations: int
    converged: bool = True
    matching: tuple[np.ndarray, BlockMatrix] | None = None

    @property
    def size(self) -> int:
        """Number of latent values C n."""
        return self.mean.shape[0]

    def factorized(self) -> BlockApproximation | None:
        """The same q with the factors of its prior, if with a jitter; None where a K_c stays indefinite."""
        prior = self.prior.factorized()
        return None if prior is None else replace(self, prior=prior)

    @cached_property
    def marginals(self) -> np.ndarray:
        """Covariances of the C latent values of each site under q: (n, C, C)."""
        return self.shrinkage.marginals()

    @property
    def variance(self) -> np.ndarray:
        """Marginal variances of q: (C n,)."""
        return np.einsum("icc->ci", self.marginals).ravel()

    @cached_property
    def log_normalizer(self) -> float:
        """Log of the integral of the prior times the sites."""
        return log_normalizer(self.prior.mean, self.linear, self.precision, self.mean, self.shrinkage.log_determinant)

    def log_ratio(self, likelihood: Likelihood, f: np.ndarray) -> np.ndarray:
        """Log of the likelihood over the sites: (..., C n) -> (...)."""
        kernel = kernel_with_terms(likelihood, BLOCK_LOG_RATIOS)
        if kernel is not None and isinstance(self.precision, ContrastBlocks):
            scale = self.precision.scale
            return for_rows(partial(kernel, *vectors(self.linear.reshape(scale.shape), scale)), f)
        return likelihood.log_likelihood(f) - f @ self.linear + 0.5 * self.precision.quadratic(f)

    def log_weights(self, likelihood: Likelihood, f: np.ndarray) -> np.ndarray:
        """Log of p(y|f) N(f|m, K) / q(f), the importance weights: (..., C n) -> (...)."""
        return self.log_normalizer + self.log_ratio(likelihood, f)

    def sample_deviations(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draws of f - mean under q, of shape (size, C n)."""
        return self.deviations_from(rng.standard_normal((2, size, self.size)))

    def deviations_from(self, normals: np.ndarray) -> np.ndarray:
        """Draws of f - mean under q, made of standard normals: (2, size, C n) -> (size, C n)."""
        return self.shrinkage.drawn(self.prior.deviations_from(normals[0]), normals[1])

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Independent draws from q, of shape (size, C n)."""
        return self.mean + self.sample_deviations(rng, size)


def log_normalizer(
    prior_mean: np.ndarray, linear: np.ndarray, precision: BlockMatrix, mean: np.ndarray, log_determinant: float
) -> float:
    """Log of the integral of the prior times the sites: m'(b - W m / 2) + (b - W m)'(mu - m) / 2 - log|I + K W| / 2."""
    weighted = precision.product(prior_mean)
    offset = float(prior_mean @ (linear - 0.5 * weighted))
    return offset + 0.5 * float((linear - weighted) @ (mean - prior_mean)) - 0.5 * log_determinant


class BlockConditioning:
    """A prior of several vectors conditioned on one set of sites after another.

    Parameters
    ----------
    prior : BlockPrior

    Attributes
    ----------
    linear : (C n,) array
        Sites b.
    precision : BlockMatrix
        Sites W.
    mean : (C n,) array
        Mean of q.
    shrinkage : Shrinkage
    """

    linear: np.ndarray
    precision: BlockMatrix
    mean: np.ndarray
    shrinkage: Shrinkage

    def __init__(self, prior: BlockPrior) -> None:
        self.prior = prior

    @staticmethod
    def expansion(likelihood: BlockLikelihood, f: np.ndarray) -> tuple[np.ndarray, BlockMatrix]:
        """The sites b and W that have the likelihood's gradient and curvature at f: (C n,)."""
        gradient, curvature = likelihood.derivatives(f)
        return curvature.product(f) + gradient, curvature

    def on(self, linear: np.ndarray, precision: BlockMatrix) -> bool:
        """Condition on sites; false where that is not possible, as for a K with NaN in it.

        With centered sites b' = b - W m, the mean is m + (K^-1 + W)^-1 b'.

        Parameters
        ----------
        linear : (C n,) array
        precision : BlockMatrix
        """
        found = precision.shrinkage(self.prior.covariances)
        if found is None:
            return False
        centered = linear - precision.product(self.prior.mean)
        self.linear, self.precision, self.shrinkage = linear, precision, found
        self.mean = self.prior.mean + found.product(centered)
        return True

    @property
    def residual(self) -> np.ndarray:
        """b - W mean, which is K^-1 (mean - m): (C n,)."""
        return self.linear - self.precision.product(self.mean)

    @property
    def log_determinant(self) -> float:
        """Of I + K W."""
        return self.shrinkage.log_determinant

    @property
    def log_normalizer(self) -> float:
        """Log of the integral of the prior times the sites."""
        return log_normalizer(self.prior.mean, self.linear, self.precision, self.mean, self.log_determinant)

    def approximation(self, log_evidence: float, iterations: int, converged: bool = True) -> BlockApproximation:
        """q for the sites conditioned on last."""
        return BlockApproximation(
            self.prior, self.linear, self.precision, self.mean, self.shrinkage, log_evidence, iterations, converged
        )
