"""The Gaussian process prior at the n inputs, as a dense multivariate normal."""

from __future__ import annotations

import numpy as np

from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.numerics import linalg

__all__ = ["DensePrior"]

# Jitter relative to the mean prior variance, tried in turn when a factorization fails. A fixed sequence, so that
# the covariance that is used in the end is a function of theta alone.
RELATIVE_JITTERS = (1e-8, 1e-6, 1e-4)


class DensePrior:
    """N(f|m, K), its Cholesky factor made when it is first needed and then kept.

    Parameters
    ----------
    mean : (n,) array
    covariance : (n, n) array
        Fortran order; only the lower triangle is read. It is taken over, not copied, and may get a jitter.

    Attributes
    ----------
    jitter : float
        What was added to the diagonal so that the factorization went through, in units of the variance.
    """

    def __init__(self, mean: np.ndarray, covariance: np.ndarray) -> None:
        self.mean = mean
        self.covariance = covariance
        self.jitter = 0.0
        self._factor: np.ndarray | None = None
        self._inverse: np.ndarray | None = None

    @property
    def size(self) -> int:
        """Number of latent values n."""
        return self.mean.shape[0]

    @property
    def factor(self) -> np.ndarray:
        """Lower Cholesky factor L of K plus the jitter.

        Raises
        ------
        NotPositiveDefiniteError
            If K stays indefinite with the largest jitter.
        """
        return self.factorize()

    def factorize(self) -> np.ndarray:
        """Make the factor, if it has not been made, adding a jitter where one is needed."""
        if self._factor is None:
            self._factor = self._factor_with_jitter()
        return self._factor

    @property
    def inverse(self) -> np.ndarray:
        """Lower triangle of (K plus the jitter)^-1, made once.

        Raises
        ------
        NotPositiveDefiniteError
            If K stays indefinite with the largest jitter.
        """
        if self._inverse is None:
            self._inverse = linalg.inverse(self.factor)
        return self._inverse

    def _factor_with_jitter(self) -> np.ndarray:
        try:
            return linalg.cholesky(self.covariance)
        except linalg.NotPositiveDefiniteError:
            pass
        diagonal = np.einsum("ii->i", self.covariance)
        scale = float(diagonal.mean())
        for relative in RELATIVE_JITTERS:
            diagonal += relative * scale - self.jitter
            self.jitter = relative * scale
            try:
                return linalg.cholesky(self.covariance)
            except linalg.NotPositiveDefiniteError:
                continue
        raise linalg.NotPositiveDefiniteError(
            f"the prior covariance stays indefinite with a jitter of {RELATIVE_JITTERS[-1]:g} times its mean variance"
        )

    def scaled(self, ratio: float) -> DensePrior:
        """N(m, ratio K), its factor and its inverse made from this one's, where they are known."""
        # Above the diagonals stands what was in memory.
        with np.errstate(all="ignore"):
            prior = DensePrior(self.mean, ratio * self.covariance)
            prior.jitter = ratio * self.jitter
            prior._factor = None if self._factor is None else np.sqrt(ratio) * self._factor
            prior._inverse = None if self._inverse is None else self._inverse / ratio
        return prior

    def sample_deviations(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draws of f - m, of shape (size, n)."""
        normals = rng.standard_normal((size, self.size))
        return linalg.triangular_product(self.factor, normals.T).T

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draws, of shape (size, n)."""
        return self.mean + self.sample_deviations(rng, size)

    @staticmethod
    def log_ratio(likelihood: Likelihood, f: np.ndarray) -> np.ndarray:
        """Log of p(y|f) N(f|m, K) over the prior, that is of the likelihood: (..., n) -> (...)."""
        return likelihood.log_likelihood(f)

    def unwhiten(self, nu: np.ndarray) -> np.ndarray:
        """F = m + L nu for nu of shape (n,)."""
        return self.mean + linalg.triangular_product(self.factor, nu)

    def whiten(self, f: np.ndarray) -> np.ndarray:
        """Nu = L^-1 (f - m) for f of shape (n,)."""
        return linalg.triangular_solve(self.factor, f - self.mean)

    def log_density(self, f: np.ndarray) -> float:
        """Log N(f|m, K) for f of shape (n,)."""
        nu = self.whiten(f)
        return -0.5 * float(nu @ nu + self.size * np.log(2.0 * np.pi) + linalg.log_determinant(self.factor))
