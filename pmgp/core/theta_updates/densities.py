"""The conditional densities of theta in the sufficient and in the ancillary augmentation.

Section 2 and appendices A.1 and A.2 of the comparative evaluation, for any covariance, mean and likelihood. The
payload of a point is what goes with theta: the prior of f there, and f.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pmgp.core.gaussians import DensePrior
from pmgp.core.joint_density import DifferentiableModel
from pmgp.core.numerics import linalg
from pmgp.core.transitions.base import NOT_COMPUTED, Point

__all__ = ["AncillaryDensity", "JointState", "LatentPart", "SufficientDensity", "ThetaDensity"]


class LatentPart(NamedTuple):
    """What goes with a theta.

    Attributes
    ----------
    prior : DensePrior
        p(f|theta).
    f : (n,) array
    extra : object
        What a scheme has computed at this theta besides, so that it need not do so again.
    """

    prior: DensePrior
    f: np.ndarray
    extra: Any = None


class JointState(NamedTuple):
    """Where the chain stands: theta of shape (dimension,), and what goes with it."""

    theta: np.ndarray
    together: LatentPart


class ThetaDensity:
    """What they share: theta outside the support, or with an indefinite covariance, has density zero.

    Parameters
    ----------
    model : DifferentiableModel
    current : JointState
        Where the chain stands; K is not built and factorized there again.
    """

    def __init__(self, model: DifferentiableModel, current: JointState) -> None:
        self.model = model
        self.current = current

    def is_current(self, theta: np.ndarray) -> bool:
        """Whether the chain stands at theta; f is the chain's there, and not computed again with its rounding."""
        return theta is self.current.theta or np.array_equal(theta, self.current.theta)

    def prior(self, theta: np.ndarray) -> DensePrior:
        """p(f|theta)."""
        return self.current.together.prior if self.is_current(theta) else self.model.prior(theta)

    def at(self, position: np.ndarray, gradient: bool = False) -> Point:
        """Value, and the gradient where asked for."""
        log_prior = self.model.log_prior(position) if np.isfinite(position).all() else -np.inf
        try:
            if not np.isfinite(log_prior):
                raise FloatingPointError("theta lies outside the support of its prior")
            # Far out numbers grow too large; such a theta is rejected and needs no warning.
            with np.errstate(all="ignore"):
                log_density, together = self._given(position)
                point = Point(position, log_prior + log_density, together)
                return point._replace(gradient=self._slope(point)) if gradient else point
        except (linalg.NotPositiveDefiniteError, FloatingPointError):
            nowhere = np.full(position.shape, np.nan)
            return Point(position, -np.inf, None, nowhere if gradient else NOT_COMPUTED)

    def gradient(self, position: np.ndarray) -> np.ndarray:
        """Gradient of the log-density; not a number where that is minus infinity."""
        return self.at(position, gradient=True).gradient

    def with_metric(self, point: Point, known: Point | None = None) -> Point:
        """Add the factor of the metric tensor.

        The articles' metric is the Fisher information plus minus the Hessian of the log-prior, which need not be
        positive definite on the unconstrained scale; its eigenvalues are replaced by their sizes.

        Raises
        ------
        NotPositiveDefiniteError
            If the metric cannot be computed at theta.
        """
        if point.payload is None:
            raise linalg.NotPositiveDefiniteError("theta has density zero")
        metric = self._information(point) + self.model.curvature(point.position, point.payload.f)
        return point._replace(metric_factor=_positive_factor(metric))

    def _given(self, theta: np.ndarray) -> tuple[float, LatentPart]:
        """Log of what multiplies p(theta), and what goes with theta."""
        raise NotImplementedError

    def _slope(self, point: Point) -> np.ndarray:
        raise NotImplementedError

    def _information(self, point: Point) -> np.ndarray:
        raise NotImplementedError


class SufficientDensity(ThetaDensity):
    """p(theta|f, y), f fixed: p(theta) N(f|m, K) p(y|f, theta)."""

    def __init__(self, model: DifferentiableModel, current: JointState) -> None:
        super().__init__(model, current)
        self.f = current.together.f

    def _given(self, theta: np.ndarray) -> tuple[float, LatentPart]:
        prior = self.prior(theta)
        log_likelihood = float(self.model.likelihood(theta).log_likelihood(self.f))
        extra = self.current.together.extra if self.is_current(theta) else None
        return prior.log_density(self.f) + log_likelihood, LatentPart(prior, self.f, extra)

    def _slope(self, point: Point) -> np.ndarray:
        """D log N(f|m, K) = <a a' - K^-1, dK> / 2 + a' dm with a = K^-1 (f - m)."""
        prior = point.payload.prior
        weighted = linalg.cholesky_solve(prior.factor, self.f - prior.mean)
        bar = 0.5 * (np.outer(weighted, weighted) - linalg.symmetrized(prior.inverse))
        return self.model.theta_gradient(point.position, bar, weighted, self.f)

    def with_metric(self, point: Point, known: Point | None = None) -> Point:
        """Add the factor of the metric tensor, and to the payload the Fisher information, a function of theta alone."""
        if point.payload is not None and not isinstance(point.payload.extra, np.ndarray):
            extra = self._fisher_information(point.position, point.payload.prior)
            point = point._replace(payload=point.payload._replace(extra=extra))
        return super().with_metric(point, known)

    def _information(self, point: Point) -> np.ndarray:
        return point.payload.extra

    def _fisher_information(self, theta: np.ndarray, prior: DensePrior) -> np.ndarray:
        """tr(K^-1 dK_i K^-1 dK_j) / 2 + dm_i' K^-1 dm_j: a product of n x n matrices for each element of theta."""
        means, covariances = self.model.pushforward(theta)
        products = [linalg.matrix_product(prior.inverse, change) for change in covariances]
        traces = np.array([[np.einsum("ij,ji->", a, b) for b in products] for a in products])
        solved = linalg.cholesky_solve(prior.factor, means.T)
        return 0.5 * traces + means @ solved


class AncillaryDensity(ThetaDensity):
    """p(theta|nu, y), nu = L^-1 (f - m) fixed and f moving with theta: p(theta) p(y|f, theta)."""

    def __init__(self, model: DifferentiableModel, current: JointState) -> None:
        super().__init__(model, current)
        self.nu = current.together.prior.whiten(current.together.f)

    def _given(self, theta: np.ndarray) -> tuple[float, LatentPart]:
        prior = self.prior(theta)
        f = self.current.together.f if self.is_current(theta) else prior.unwhiten(self.nu)
        return float(self.model.likelihood(theta).log_likelihood(f)), LatentPart(prior, f)

    def _slope(self, point: Point) -> np.ndarray:
        prior, f, _ = point.payload
        slope = self.model.likelihood(point.position).gradient(f)
        bar = linalg.cholesky_pullback(prior.factor, slope, self.nu)
        return self.model.theta_gradient(point.position, bar, slope, f)

    def _information(self, point: Point) -> np.ndarray:
        """(dm_i + dL_i nu)' R (dm_j + dL_j nu), R the Fisher information of f."""
        prior, f, _ = point.payload
        means, covariances = self.model.pushforward(point.position)
        changes = means + [linalg.cholesky_pushforward(prior.factor, change, self.nu) for change in covariances]
        return (changes * self.model.likelihood(point.position).fisher_information(f)) @ changes.T


def _positive_factor(metric: np.ndarray) -> np.ndarray:
    if not np.isfinite(metric).all():
        raise linalg.NotPositiveDefiniteError("the metric tensor of theta is not finite")
    values, vectors = np.linalg.eigh(metric)
    size = np.maximum(np.abs(values), 1e-8 * np.abs(values).max())
    if not size.min() > 0.0:
        raise linalg.NotPositiveDefiniteError("the metric tensor of theta is zero")
    return np.asfortranarray(np.linalg.cholesky((vectors * size) @ vectors.T))
