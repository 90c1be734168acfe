"""The evidence of multivariate normal observations, which takes one Cholesky factorization."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from pmgp.core.gaussians import DensePrior
from pmgp.core.numerics import linalg
from pmgp.interface.covariance.blocked import BlockedCovariance
from pmgp.interface.model.latent_prior import LatentPrior
from pmgp.interface.model.observed_normal import ObservedNormal
from pmgp.interface.model.theta_prior import ThetaPrior

PROBES = 128


class NormalEvidence:
    """The function from theta to log N(y|m, C).

    Parameters
    ----------
    y : (n,) array
    moments : callable
        theta -> N(m, C).
    pullback : callable
        theta, the gradients of a function in C, of which the lower triangle is read, and in m -> its gradient in theta.
    """

    def __init__(
        self,
        y: np.ndarray,
        moments: Callable[[np.ndarray], DensePrior],
        pullback: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray],
    ) -> None:
        self._y, self._moments, self._pullback = y, moments, pullback

    @classmethod
    def of(cls, name: str, parts: ObservedNormal) -> NormalEvidence:
        """Return the evidence of all observations, whose variable has this name."""
        prior = LatentPrior(name, parts.mean, parts.covariance, parts.theta)
        prior.refresh_data()
        return cls(parts.y, prior, prior.pullback)

    @classmethod
    def of_rows(cls, y: np.ndarray, covariance: BlockedCovariance, rows: np.ndarray) -> NormalEvidence:
        """Return the evidence of some observations, given by different numbers."""
        part = covariance.of_rows(rows)
        return cls(y[rows], lambda theta: DensePrior(*part(theta)), part.pullback)

    def value(self, theta: np.ndarray) -> float:
        """Return log p(y|theta); minus infinity if C is indefinite."""
        prior = self._moments(theta).factorized()
        return -np.inf if prior is None else prior.log_density(self._y)

    def with_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return log p(y|theta) with its gradient; minus infinity if C is indefinite."""
        prior = self._moments(theta).factorized()
        if prior is None:
            return -np.inf, np.zeros_like(theta)
        weighted = prior.solve(self._y - prior.mean)
        covariance_bar = linalg.add_outer(self._minus_half_inverse(prior), weighted)
        return prior.log_density(self._y), self._pullback(theta, covariance_bar, weighted)

    def probed(self) -> ProbedEvidence:
        """Return the same function with gradients that are estimated, in less time."""
        return ProbedEvidence(self._y, self._moments, self._pullback)

    @staticmethod
    def _minus_half_inverse(prior: DensePrior) -> np.ndarray:
        """Return -C^-1 / 2 in place of the inverse; its elements above the diagonal are arbitrary."""
        with np.errstate(all="ignore"):
            return np.multiply(prior.inverse, -0.5, out=prior.inverse)


class ProbedEvidence(NormalEvidence):
    """The evidence, with gradients in which probes estimate tr(C^-1 dC), in about half of the time.

    With C = L L' and vectors z of independent signs, u = L^-T z has E u u' = C^-1. For k probes, the variance of an
    element of the gradient is at most I / k, where I is the Fisher information, so maxima are off by about
    1 / sqrt(k) posterior deviations in each direction. All gradients have the same probes, so that their differences
    vary less. The value is exact.
    """

    @staticmethod
    def _minus_half_inverse(prior: DensePrior) -> np.ndarray:
        """Return an estimate of -C^-1 / 2, its lower triangle."""
        probes = linalg.triangular_solve(prior.factor, probes_of(len(prior.mean)), transpose=True)
        return linalg.sum_of_outer(probes, -0.5 / PROBES)


def probes_of(size: int) -> np.ndarray:
    """Return independent signs, the same at each call: (size, PROBES), in Fortran order."""
    return np.random.default_rng(0).choice([-1.0, 1.0], (PROBES, size)).T


class EvidenceFunction(Protocol):
    """The log-density of multivariate normal observations as a function of theta."""

    def value(self, theta: np.ndarray) -> float:
        """Return log p(y|theta); minus infinity if the covariance is indefinite."""

    def with_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return log p(y|theta) with its gradient; minus infinity if the covariance is indefinite."""

    def probed(self) -> EvidenceFunction:
        """Return the same function with gradients that suffice for a climb, if they take less time."""


def with_prior(theta: np.ndarray, prior: ThetaPrior, evidence: EvidenceFunction) -> tuple[float, np.ndarray]:
    """Return log p(theta) p(y|theta), with its gradient; minus infinity where it is zero."""
    log_prior = prior(theta)
    if not np.isfinite(log_prior):
        return -np.inf, np.zeros_like(theta)
    value, gradient = evidence.with_gradient(theta)
    return log_prior + value, prior.gradient(theta) + gradient
