"""The conditional densities of theta in the sufficient and in the ancillary augmentation.

They follow section 2 and appendices A.1 and A.2 of the comparative evaluation, for any covariance, mean and likelihood.
The payload of a point is the prior of f at theta, and f.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pmgp.core.gaussians import Prior
from pmgp.core.gaussians.dense import INDEFINITE
from pmgp.core.joint_density import DifferentiableModel
from pmgp.core.numerics.linalg import NotPositiveDefiniteError
from pmgp.core.transitions.base import NOT_COMPUTED, Point


class LatentPart(NamedTuple):
    """The latent quantities that belong to a theta.

    `prior`: p(f|theta); `f` (n,); `extra`: other results of a scheme at this theta, so that they need not be computed
    again.
    """

    prior: Prior
    f: np.ndarray
    extra: Any = None


class JointState(NamedTuple):
    """The current state of a chain: theta of shape (dimension,), and its latent part."""

    theta: np.ndarray
    latent: LatentPart


class ThetaDensity:
    """A density of theta that is zero outside the support and where the covariance is indefinite.

    `current`: state of the chain; K at its theta is not built and factorized again.
    """

    def __init__(self, model: DifferentiableModel, current: JointState) -> None:
        self.model = model
        self.current = current

    def is_current(self, theta: np.ndarray) -> bool:
        """Return whether theta is the chain's, so that its f is used as it is and not recomputed with rounding."""
        return theta is self.current.theta or theta.tobytes() == self.current.theta.tobytes()

    def prior(self, theta: np.ndarray) -> Prior | None:
        """Return p(f|theta) with its factor, or None if K is indefinite."""
        prior = self.current.latent.prior if self.is_current(theta) else self.model.prior(theta)
        return prior.factorized()

    def at(self, position: np.ndarray, gradient: bool = False) -> Point:
        """Return the point at a position, with the gradient on request."""
        # At extreme theta numbers overflow; such theta are rejected and need no warning.
        with np.errstate(all="ignore"):
            log_prior, latent = self._supported(position)
            if latent is None:
                nowhere = np.full(position.shape, np.nan)
                return Point(position, -np.inf, None, nowhere if gradient else NOT_COMPUTED)
            point = Point(position, log_prior + self._log_density(position, latent), latent)
            return point._replace(gradient=self._slope(point)) if gradient else point

    def gradient(self, position: np.ndarray) -> np.ndarray:
        """Return the gradient of the log-density, or NaN outside the support; the value is not computed."""
        with np.errstate(all="ignore"):
            _, latent = self._supported(position)
            return np.full(position.shape, np.nan) if latent is None else self._slope(Point(position, np.nan, latent))

    def _supported(self, position: np.ndarray) -> tuple[float, LatentPart | None]:
        """Return log p(theta) and theta's latent part, which is None where the density is zero."""
        log_prior = self.model.log_prior(position) if np.isfinite(position).all() else -np.inf
        return log_prior, self._latent(position) if np.isfinite(log_prior) else None

    def with_metric(self, point: Point, known: Point | None = None) -> Point | None:
        """Return a point with the factor of the metric tensor, or None if there is no density or no metric.

        The articles' metric is the Fisher information minus the Hessian of the log-prior, which need not be positive
        definite on the unconstrained scale; its eigenvalues are replaced by their absolute values.
        """
        if point.payload is None:
            return None
        factor = _positive_factor(self._information(point) + self.model.curvature(point.position, point.payload.f))
        return None if factor is None else point._replace(metric_factor=factor)

    def _latent(self, theta: np.ndarray) -> LatentPart | None:
        """Return the latent quantities that belong to theta, or None if the density is zero."""
        raise NotImplementedError

    def _log_density(self, theta: np.ndarray, latent: LatentPart) -> float:
        """Return the log of the density over p(theta)."""
        raise NotImplementedError

    def _slope(self, point: Point) -> np.ndarray:
        raise NotImplementedError

    def _information(self, point: Point) -> np.ndarray:
        raise NotImplementedError


class SufficientDensity(ThetaDensity):
    """p(theta|f, y) for fixed f: p(theta) N(f|m, K) p(y|f, theta)."""

    def __init__(self, model: DifferentiableModel, current: JointState) -> None:
        super().__init__(model, current)
        self.f = current.latent.f

    def _latent(self, theta: np.ndarray) -> LatentPart | None:
        prior = self.prior(theta)
        extra = self.current.latent.extra if self.is_current(theta) else None
        return None if prior is None else LatentPart(prior, self.f, extra)

    def _log_density(self, theta: np.ndarray, latent: LatentPart) -> float:
        return latent.prior.log_density(self.f) + float(self.model.likelihood(theta).log_likelihood(self.f))

    def _slope(self, point: Point) -> np.ndarray:
        """Return the gradient, where d log N(f|m, K) = <a a' - K^-1, dK> / 2 + a' dm with a = K^-1 (f - m)."""
        covariance_bar, mean_bar = point.payload.prior.log_density_gradient(self.f)
        return self.model.theta_gradient(point.position, covariance_bar, mean_bar, self.f)

    def with_metric(self, point: Point, known: Point | None = None) -> Point | None:
        """Return a point with the factor of the metric tensor, and with the Fisher information in its payload."""
        if point.payload is not None and not isinstance(point.payload.extra, np.ndarray):
            extra = point.payload.prior.fisher_information(*self.model.pushforward(point.position))
            point = point._replace(payload=point.payload._replace(extra=extra))
        return super().with_metric(point, known)

    def _information(self, point: Point) -> np.ndarray:
        return point.payload.extra


class AncillaryDensity(ThetaDensity):
    """p(theta|nu, y) for fixed nu = L^-1 (f - m), where f moves with theta: p(theta) p(y|f, theta)."""

    def __init__(self, model: DifferentiableModel, current: JointState) -> None:
        super().__init__(model, current)
        self.nu = factorized(current.latent.prior).whiten(current.latent.f)

    def _latent(self, theta: np.ndarray) -> LatentPart | None:
        prior = self.prior(theta)
        if prior is None:
            return None
        return LatentPart(prior, self.current.latent.f if self.is_current(theta) else prior.unwhiten(self.nu))

    def _log_density(self, theta: np.ndarray, latent: LatentPart) -> float:
        return float(self.model.likelihood(theta).log_likelihood(latent.f))

    def _slope(self, point: Point) -> np.ndarray:
        prior, f, _ = point.payload
        slope = self.model.likelihood(point.position).gradient(f)
        covariance_bar = prior.unwhitening_gradient(self.nu, slope)
        return self.model.theta_gradient(point.position, covariance_bar, slope, f)

    def _information(self, point: Point) -> np.ndarray:
        """Return (dm_i + dL_i nu)' R (dm_j + dL_j nu), with R the Fisher information of f."""
        prior, f, _ = point.payload
        means, covariances = self.model.pushforward(point.position)
        changes = means + prior.unwhitening_changes(self.nu, covariances)
        return (changes * self.model.likelihood(point.position).fisher_information(f)) @ changes.T


def factorized(prior: Prior) -> Prior:
    """Return the prior at the chain's theta, with its factor.

    Raises NotPositiveDefiniteError if the chain was started at a theta with an indefinite K.
    """
    found = prior.factorized()
    if found is None:
        raise NotPositiveDefiniteError(INDEFINITE)
    return found


def _positive_factor(metric: np.ndarray) -> np.ndarray | None:
    """Return the factor of a metric with absolute eigenvalues, or None if it is zero or not finite."""
    if not np.isfinite(metric).all():
        return None
    values, vectors = np.linalg.eigh(metric)
    size = np.maximum(np.abs(values), 1e-8 * np.abs(values).max())
    if not size.min() > 0.0:
        return None
    return np.asfortranarray(np.linalg.cholesky((vectors * size) @ vectors.T))
