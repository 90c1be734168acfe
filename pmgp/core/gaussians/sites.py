"""q(f), the prior times Gaussian sites: what Laplace and expectation propagation both give.

q(f) is proportional to N(f|m, K) prod_i exp(b_i f_i - w_i f_i^2 / 2). In this form an importance weight costs O(n)
and a draw O(n^2): neither K^-1 nor the posterior covariance is ever formed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pmgp.core.gaussians.dense import DensePrior
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.numerics import linalg

__all__ = ["SMALLEST_PRECISION", "SiteApproximation", "condition_on_sites", "posterior_factor"]

# Sites need a positive precision; below this one the data say nothing about that latent value.
SMALLEST_PRECISION = 1e-10


@dataclass
class SiteApproximation:
    """A Gaussian q(f) close to p(f|y, theta).

    Attributes
    ----------
    prior : DensePrior
    linear : (n,) array
        Site parameters b.
    precision : (n,) array
        Site parameters w, positive.
    mean : (n,) array
        Mean of q.
    factor : (n, n) array
        Lower Cholesky factor of B = I + W^1/2 K W^1/2.
    log_evidence : float
        The approximation's own value of log p(y|theta).
    iterations : int
        How many Newton steps or sweeps it took.
    converged : bool
        Whether the approximation is the one that was asked for; False where another one stands in for it.
    """

    prior: DensePrior
    linear: np.ndarray
    precision: np.ndarray
    mean: np.ndarray
    factor: np.ndarray
    log_evidence: float
    iterations: int
    converged: bool = True

    def __post_init__(self) -> None:
        # Not a field: draws of one q must not come along when a copy with other sites is made.
        self._ahead = np.empty((0, self.mean.shape[0]))

    @cached_property
    def log_normalizer(self) -> float:
        """Log of the integral of N(f|m, K) prod_i exp(b_i f_i - w_i f_i^2 / 2) over f."""
        m = self.prior.mean
        centered = self.linear - self.precision * m
        offset = float(m @ (self.linear - 0.5 * self.precision * m))
        quadratic = 0.5 * float(centered @ (self.mean - m))
        return offset + quadratic - 0.5 * linalg.log_determinant(self.factor)

    def log_ratio(self, likelihood: Likelihood, f: np.ndarray) -> np.ndarray:
        """Log of the likelihood over the sites, prod_i p(y_i|f_i) / site_i(f_i): (..., n) -> (...)."""
        return likelihood.log_likelihood(f) - f @ self.linear + 0.5 * np.square(f) @ self.precision

    def log_weights(self, likelihood: Likelihood, f: np.ndarray) -> np.ndarray:
        """Log of p(y|f) N(f|m, K) / q(f), the importance weights: (..., n) -> (...)."""
        return self.log_normalizer + self.log_ratio(likelihood, f)

    def sample_deviations(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draws of f - mean under q, of shape (size, n); first those that were drawn ahead, each of them once."""
        if size > len(self._ahead):
            return self._drawn(rng, size)
        handed, self._ahead = self._ahead[:size], self._ahead[size:]
        return handed

    def draw_ahead(self, rng: np.random.Generator, size: int) -> None:
        """Make draws for the calls of :meth:`sample_deviations` that follow, all as columns of one matrix.

        A matrix product with eight columns takes little longer than one with one.
        """
        self._ahead = self._drawn(rng, size)

    def _drawn(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draws of f - mean under q.

        With u = L e1, the vector u - K W^1/2 B^-1 (W^1/2 u + e2) has q's covariance (K^-1 + W)^-1, for
        e1 and e2 standard normal; all draws are columns of one matrix.
        """
        n = self.mean.shape[0]
        root = np.sqrt(self.precision)[:, None]
        u = linalg.triangular_product(self.prior.factor, rng.standard_normal((size, n)).T)
        e2 = rng.standard_normal((size, n)).T
        solved = linalg.cholesky_solve(self.factor, root * u + e2)
        return (u - linalg.symmetric_product(self.prior.covariance, root * solved)).T

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Independent draws from q, of shape (size, n)."""
        return self.mean + self.sample_deviations(rng, size)


def posterior_factor(prior: DensePrior, precision: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cholesky factors of B = I + W^1/2 K W^1/2 and of (K^-1 + W)^-1 = W^-1/2 (I - B^-1) W^-1/2.

    Two factorizations and one inversion; K itself is not factorized, unless it turns out to need a jitter.

    Parameters
    ----------
    prior : DensePrior
    precision : (n,) array
        W, positive and not much below the prior precision, where I - B^-1 would cancel.

    Raises
    ------
    NotPositiveDefiniteError
        If K is indefinite and stays so with a jitter.
    """
    try:
        return _posterior_factor(prior.covariance, np.sqrt(precision))
    except linalg.NotPositiveDefiniteError:
        prior.factorize()
        return _posterior_factor(prior.covariance, np.sqrt(precision))


def _posterior_factor(covariance: np.ndarray, root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    factor = linalg.cholesky(linalg.scaled_plus_identity(covariance, root), overwrite=True)
    # Above the diagonal stands what was in memory, which may be anything.
    with np.errstate(all="ignore"):
        posterior = np.negative(linalg.inverse(factor), order="F")
        np.einsum("ii->i", posterior)[:] += 1.0
        posterior /= root[:, None]
        posterior /= root
    return factor, linalg.cholesky(posterior, overwrite=True)


def condition_on_sites(
    prior: DensePrior,
    linear: np.ndarray,
    precision: np.ndarray,
    out: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Mean of q and the factor of B for given sites: one Cholesky factorization.

    With centered sites b' = b - W m and c = B^-1 W^1/2 K b', the mean is m + W^-1/2 c: B c = W^1/2 K b' gives
    K W^1/2 c = W^-1/2 (W^1/2 K b' - c), so that the second product with K cancels. Needs positive precisions.

    Parameters
    ----------
    prior : DensePrior
    linear, precision : (n,) array
        Sites b and w.
    out : (n, n) array, optional
        Fortran-ordered buffer for the factor.

    Returns
    -------
    mean : (n,) array
    factor : (n, n) array
    """
    root = np.sqrt(precision)
    factor = linalg.scaled_plus_identity(prior.covariance, root, out)
    factor = linalg.cholesky(factor, overwrite=True)
    centered = linear - precision * prior.mean
    solved = linalg.cholesky_solve(factor, root * linalg.symmetric_product(prior.covariance, centered))
    return prior.mean + solved / root, factor
