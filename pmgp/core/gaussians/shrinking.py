"""Kinds of Gaussians that know S = (K^-1 + W)^-1: conditioning and q need only its products.

With R = (K + W^-1)^-1 = W - W S W and alpha = b - W mu, q has the mean m + S (b - W m) and the covariance S. For a draw
u of N(0, K) and a vector v with covariance W, u + S (v - W u) has the covariance S.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from pmgp.core.gaussians.base import ConditionedPrior, Posterior, Prior
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.numerics.conditioning import log_normalizer, log_sites


class Shrinkage(ABC):
    """S = (K^-1 + W)^-1 for a diagonal W with positive elements.

    Attributes
    ----------
    precision : (n,) array
        W.
    log_determinant : float
        Log determinant of I + K W.
    """

    precision: np.ndarray
    log_determinant: float

    @abstractmethod
    def product(self, x: np.ndarray) -> np.ndarray:
        """Return S x for x of shape (n,) or (n, k)."""

    @abstractmethod
    def diagonal(self) -> np.ndarray:
        """Return the diagonal of S: (n,)."""

    @abstractmethod
    def covariance_bar(self, x: np.ndarray, y: np.ndarray) -> Any:
        """Return the bar for K of (x y' + y x' - R) / 2, for x and y of shape (n,)."""

    def drawn(self, u: np.ndarray, e: np.ndarray) -> np.ndarray:
        """Return draws with covariance S, made from draws u with covariance K and normals e: (size, n) arrays."""
        return u + self.product((np.sqrt(self.precision) * e - self.precision * u).T).T


class ShrinkingPrior(Prior):
    """A prior that knows S for diagonal W."""

    @abstractmethod
    def shrinkage(self, precision: np.ndarray) -> Shrinkage | None:
        """Return S for W of shape (n,), positive; None if that is not possible, for example if K contains NaN."""

    def conditioning(self) -> ShrunkConditioning:
        """Return the prior in the form that a search for sites conditions."""
        return ShrunkConditioning(self)


@dataclass(frozen=True, eq=False)
class ShrunkPosterior(Posterior):
    """q(f) for a prior that knows S; see `Posterior`.

    `shrinkage`: covariance of q.
    """

    prior: ShrinkingPrior
    linear: np.ndarray
    precision: np.ndarray
    mean: np.ndarray
    shrinkage: Shrinkage
    log_evidence: float
    iterations: int
    converged: bool = True

    @property
    def variance(self) -> np.ndarray:
        """Marginal variances of q: (n,)."""
        return self.shrinkage.diagonal()

    def variance_given(self, inverse_diagonal: np.ndarray) -> np.ndarray:
        """Return the variances of q, which need no inverse: (n,)."""
        return self.variance

    @property
    def log_determinant(self) -> float:
        """Log-determinant of I + K W."""
        return self.shrinkage.log_determinant

    @property
    def log_normalizer(self) -> float:
        """Log of the integral of the prior times the sites."""
        return log_normalizer(self.prior.mean, self.linear, self.precision, self.mean, self.log_determinant)

    def conditioned(self) -> ShrunkConditioning:
        """Return the prior conditioned on q's sites."""
        found = ShrunkConditioning(self.prior)
        found.keep(self.linear, self.precision, self.mean, self.shrinkage)
        return found

    def product(self, x: np.ndarray) -> np.ndarray:
        """Return S x for x of shape (n,) or (n, k)."""
        return self.shrinkage.product(x)

    def deviations_from(self, normals: np.ndarray) -> np.ndarray:
        """Turn standard normals into draws of f - mean: (2, size, n) -> (size, n)."""
        return self.shrinkage.drawn(self.prior.deviations_from(normals[0]), normals[1])

    def log_ratio(self, likelihood: Likelihood, f: np.ndarray) -> np.ndarray:
        """Return the log of the likelihood over the sites: (..., n) -> (...)."""
        return likelihood.log_likelihood(f) - log_sites(self.linear, self.precision, f)

    def covariance_bar(self, alpha: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return the bar for K of the log-evidence at fixed sites, and the diagonal of (I + W K)^-1."""
        return self.shrinkage.covariance_bar(0.5 * alpha, alpha), self.inverse_diagonal

    def shifted_bar(self, bar: Any, shift: np.ndarray, alpha: np.ndarray) -> Any:
        """Return the bar for K of the log-evidence of sites that depend on the mode."""
        return self.shrinkage.covariance_bar(0.5 * alpha + shift, alpha)


class ShrunkConditioning(ConditionedPrior):
    """A prior that is conditioned on one set of sites after another."""

    prior: ShrinkingPrior
    shrinkage: Shrinkage

    def __init__(self, prior: ShrinkingPrior) -> None:
        self.prior = prior

    def on(self, linear: np.ndarray, precision: np.ndarray) -> bool:
        """Condition on sites, (n,) arrays; return False if that is not possible."""
        found = self.prior.shrinkage(precision)
        if found is None:
            return False
        mean = self.prior.mean + found.product(linear - precision * self.prior.mean)
        self.keep(linear, precision, mean, found)
        return True

    def keep(self, linear: np.ndarray, precision: np.ndarray, mean: np.ndarray, shrinkage: Shrinkage) -> None:
        """Store the current sites, and the mean and shrinkage that follow from them."""
        self.linear, self.precision, self.mean, self.shrinkage = linear, precision, mean, shrinkage
        self.log_determinant = shrinkage.log_determinant

    @property
    def inverse_diagonal(self) -> np.ndarray:
        """Diagonal of (I + W K)^-1, which is 1 - w v: (n,)."""
        return 1.0 - self.precision * self.shrinkage.diagonal()

    def variance_given(self, inverse_diagonal: np.ndarray) -> np.ndarray:
        """Return the variances of q, which need no inverse: (n,)."""
        return self.shrinkage.diagonal()

    def approximation(self, log_evidence: float, iterations: int, converged: bool = True) -> ShrunkPosterior:
        """Return q for the current sites."""
        sites = self.linear, self.precision
        return ShrunkPosterior(self.prior, *sites, self.mean, self.shrinkage, log_evidence, iterations, converged)
