"""q(f), the prior times Gaussian sites: what Laplace and expectation propagation both give.

q(f) is proportional to N(f|m, K) prod_i exp(b_i f_i - w_i f_i^2 / 2). In this form an importance weight costs O(n)
and a draw O(n^2): neither K^-1 nor the posterior covariance is ever formed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from pmgp.core.gaussians.dense import DensePrior
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.likelihoods.compiled_terms import LOG_RATIOS, kernel_with_terms
from pmgp.core.numerics import linalg
from pmgp.core.numerics.compiled.loading import for_rows, vectors
from pmgp.core.numerics.compiled.outcomes import INDEFINITE
from pmgp.core.numerics.conditioning import condition, deviations, log_normalizer, log_sites, swept

__all__ = ["SMALLEST_PRECISION", "Conditioning", "SiteApproximation"]

# Sites need a positive precision; below this one the data say nothing about that latent value.
SMALLEST_PRECISION = 1e-10


@dataclass(frozen=True, eq=False)
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

    @classmethod
    def written(
        cls,
        prior: DensePrior,
        memory: tuple[np.ndarray, np.ndarray, np.ndarray],
        log_evidence: float,
        iterations: int,
        converged: bool = True,
        **known: float,
    ) -> SiteApproximation:
        """q in memory that a kernel has written, sites (2, n), mean and factor, and what it knows of q besides."""
        q, (sites, mean, factor) = object.__new__(cls), memory
        linear, precision = sites[0], sites[1]
        # As the constructor does, which takes longer to set one after another of what is frozen.
        q.__dict__.update(
            prior=prior,
            linear=linear,
            precision=precision,
            mean=mean,
            factor=factor,
            log_evidence=log_evidence,
            iterations=iterations,
            converged=converged,
            sites_and_mean=(linear, precision, mean),
            **known,
        )
        return q

    @property
    def size(self) -> int:
        """Number of latent values n."""
        return len(self.mean)

    @cached_property
    def matrices(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """L, K and the factor of B, transposed, as kernels take them: (n, n) each."""
        prior_factor, covariance = np.asfortranarray(self.prior.factor), np.asfortranarray(self.prior.covariance)
        return prior_factor.T, covariance.T, np.asfortranarray(self.factor).T

    def factorized(self) -> SiteApproximation | None:
        """The same q with the factor of its prior, if with a jitter; None where K stays indefinite."""
        prior = self.prior.factorized()
        if prior is None or prior is self.prior:
            return None if prior is None else self
        return replace(self, prior=prior)

    @cached_property
    def log_determinant(self) -> float:
        """Log-determinant of B."""
        return linalg.log_determinant(self.factor)

    @cached_property
    def inverse_diagonal(self) -> np.ndarray:
        """Diagonal of B^-1: (n,)."""
        return linalg.inverse_diagonal(self.factor)

    @property
    def variance(self) -> np.ndarray:
        """Marginal variances of q: (n,)."""
        return marginal_variance(self.prior.variance, self.precision, self.inverse_diagonal)

    @cached_property
    def log_normalizer(self) -> float:
        """Log of the integral of N(f|m, K) prod_i exp(b_i f_i - w_i f_i^2 / 2) over f."""
        linear, precision, mean = self.sites_and_mean
        return log_normalizer(self.prior.mean, linear, precision, mean, self.log_determinant)

    @cached_property
    def sites_and_mean(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """b, w and the mean, as kernels take them: (n,) each."""
        linear, precision, mean = vectors(self.linear, self.precision, self.mean)
        return linear, precision, mean

    def log_ratio(self, likelihood: Likelihood, f: np.ndarray) -> np.ndarray:
        """Log of the likelihood over the sites, prod_i p(y_i|f_i) / site_i(f_i): (..., n) -> (...)."""
        kernel = kernel_with_terms(likelihood, LOG_RATIOS)
        if kernel is None:
            return likelihood.log_likelihood(f) - log_sites(self.linear, self.precision, f)
        return for_rows(partial(kernel, *self.sites_and_mean[:2]), f)

    def log_weights(self, likelihood: Likelihood, f: np.ndarray) -> np.ndarray:
        """Log of p(y|f) N(f|m, K) / q(f), the importance weights: (..., n) -> (...)."""
        return self.log_normalizer + self.log_ratio(likelihood, f)

    def sample_deviations(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draws of f - mean under q, of shape (size, n)."""
        return self._deviations(rng.standard_normal((2, size, self.size)))

    def deviations_from(self, normals: np.ndarray) -> np.ndarray:
        """Draws of f - mean under q, made of standard normals: (2, size, n) -> (size, n)."""
        return self._deviations(np.array(normals, dtype=float, order="C"))

    def _deviations(self, normals: np.ndarray) -> np.ndarray:
        return deviations(*self.matrices, self.sites_and_mean[1], normals)

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Independent draws from q, of shape (size, n)."""
        return self.mean + self.sample_deviations(rng, size)

    def product(self, x: np.ndarray) -> np.ndarray:
        """Products of q's covariance with vectors: (n,) or (n, k)."""
        root = np.sqrt(self.precision).reshape(-1, *[1] * (x.ndim - 1))
        along = self.prior.product(x)
        return along - self.prior.product(root * linalg.cholesky_solve(self.factor, root * along))

    def project(self, cross: np.ndarray) -> np.ndarray:
        """C_B^-1 W^1/2 C for the covariances C of shape (n, k) with other variables, C_B the factor of B.

        What the sites take from the variances of these is the squared norm of its columns.
        """
        return linalg.triangular_solve(self.factor, np.asfortranarray(np.sqrt(self.precision)[:, None] * cross))

    def inverse(self) -> np.ndarray:
        """Lower triangle of B^-1, in memory of its own."""
        return linalg.inverse(self.factor)


def marginal_variance(prior_variance: np.ndarray, precision: np.ndarray, inverse_diagonal: np.ndarray) -> np.ndarray:
    """Variances of q's marginals, (1 - diag(B^-1)) / w."""
    marginal = (1.0 - inverse_diagonal) / precision
    # Beside a prior that leaves next to no variance, what the sites take from it is lost in rounding.
    return np.where(marginal > 0.0, marginal, prior_variance)


class Conditioning:
    """A prior conditioned on one set of sites after another, in the same memory.

    What searches for sites uses it while it searches; :meth:`approximation` then takes the memory along, so that no q
    ever shares it.

    Parameters
    ----------
    prior : DensePrior

    Attributes
    ----------
    linear, precision : (n,) array
        Sites b and w.
    mean : (n,) array
        Mean of q.
    log_determinant : float
        Of B.
    """

    linear: np.ndarray
    precision: np.ndarray
    mean: np.ndarray
    log_determinant: float

    def __init__(self, prior: DensePrior) -> None:
        self.prior = prior
        self._memory: np.ndarray | None = None
        self._factor: np.ndarray | None = None

    @staticmethod
    def expansion(likelihood: Likelihood, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The sites b and w that have the likelihood's gradient and curvature at f: (n,) arrays.

        The Fisher information stands in for the curvature where that is not positive.
        """
        gradient, precision = likelihood.derivatives(f)
        if np.any(precision <= 0.0):
            precision = np.where(precision > 0.0, precision, likelihood.fisher_information(f))
        precision = np.maximum(precision, SMALLEST_PRECISION)
        return precision * f + gradient, precision

    @classmethod
    def of(cls, approximation: SiteApproximation) -> Conditioning:
        """The prior of an approximation conditioned on its sites, in memory of its own."""
        conditioned = cls(approximation.prior)
        conditioned._memory = conditioned._factor = approximation.factor.copy(order="F")
        conditioned.linear, conditioned.precision = approximation.linear, approximation.precision
        conditioned.mean, conditioned.log_determinant = approximation.mean, approximation.log_determinant
        return conditioned

    def on(self, linear: np.ndarray, precision: np.ndarray) -> bool:
        """Condition on sites, by one Cholesky factorization; false where B is indefinite, as for a K with NaN in it.

        Parameters
        ----------
        linear, precision : (n,) array
        """
        if self._memory is None:
            self._memory = np.empty((self.prior.size, self.prior.size), order="F")
        self._factor = None
        reached = condition(self.prior.covariance, self.prior.mean, linear, precision, self._memory)
        if reached is None:
            return False
        self._factor, self.linear, self.precision = self._memory, linear, precision
        self.mean, self.log_determinant = reached
        return True

    def swept(self, sweeps: Callable[..., Any], *settings: float) -> tuple[int, int, float]:
        """Let a kernel change the sites, one set after another; conditioned on the last, unless K is indefinite.

        Parameters
        ----------
        sweeps : callable
            As of :func:`~pmgp.core.numerics.conditioning.swept`.
        *settings
            Of the kernel.

        Returns
        -------
        status : int
        number : int
            Of sweeps.
        log_evidence : float
            With the last sites but one.
        """
        factor, self._factor = self._take(), None
        sites, mean = np.array([self.linear, self.precision]), np.array(self.mean)
        known = self.prior.covariance, self.prior.mean, self.log_determinant
        status, number, log_evidence, log_determinant, _ = swept(sweeps, *known, settings, sites, mean, factor)
        self._factor = None if status == INDEFINITE else factor
        (self.linear, self.precision), self.mean, self.log_determinant = sites, mean, log_determinant
        return status, number, log_evidence

    @property
    def residual(self) -> np.ndarray:
        """b - W mu, which is K^-1 (mu - m): (n,)."""
        return self.linear - self.precision * self.mean

    @property
    def log_normalizer(self) -> float:
        """Log of the integral of the prior times the sites."""
        return log_normalizer(self.prior.mean, self.linear, self.precision, self.mean, self.log_determinant)

    @property
    def inverse_diagonal(self) -> np.ndarray:
        """Diagonal of B^-1, computed in place of B's factor: no q can be made of these sites any more."""
        factor, self._factor = self._take(), None
        return linalg.inverse_diagonal(factor, overwrite=True)

    def approximation(self, log_evidence: float, iterations: int) -> SiteApproximation:
        """q for the sites conditioned on last, with the memory; what is conditioned on next gets memory of its own."""
        factor = self._take()
        self._memory = self._factor = None
        q = SiteApproximation(self.prior, self.linear, self.precision, self.mean, factor, log_evidence, iterations)
        q.__dict__["log_determinant"] = self.log_determinant
        return q

    def _take(self) -> np.ndarray:
        if self._factor is None:
            raise ValueError("the factor of B is not there: condition on sites first")
        return self._factor
