"""Whitened values v at inducing inputs, given theta: their log-density, the Gaussian at its mode, and slices about it.

Given theta the target of the sparse MCMC article is N(v; 0, I) times a function of f = m + A'v that factorizes over
observations. With A at hand a value costs O(N M), and Newton's method O(N M^2) per step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dsyrk

from pmgp.core.numerics.linalg import (
    NotPositiveDefiniteError,
    cholesky,
    cholesky_solve,
    triangular_product,
    triangular_solve,
)
from pmgp.core.numerics.storable import storable
from pmgp.core.transitions.elliptical_slice import slice_on_ellipse

# Newton's method ends when a step gains less than this in log-density; the Gaussian need not be exact.
ARRIVED = 0.01
STEPS = 25
HALVINGS = 10


class Derivatives(NamedTuple):
    """Derivatives of the log-likelihood at latent values.

    `slope`, `curvature` (k, n): first derivatives, and second derivatives in each latent value.
    """

    slope: np.ndarray
    curvature: np.ndarray


@dataclass(frozen=True)
class WhitenedConditional:
    """The density of v, of shape (k, m) for k outputs, given theta.

    - `offset` (k, n): means of the process at the observations
    - `projections` list of (m, n) arrays: A, one for each output or one for all
    - `value`: expected log-likelihood at the means f of the latent values: (k, n) -> float
    - `derivatives`: its derivatives: (k, n) -> Derivatives. They may be rough, because they guide searches and
      proposals, but not acceptance
    - `slopes`: only the first derivatives, if these cost less: (k, n) -> (k, n)
    """

    offset: np.ndarray
    projections: list[np.ndarray]
    value: Callable[[np.ndarray], float]
    derivatives: Callable[[np.ndarray], Derivatives]
    slopes: Callable[[np.ndarray], np.ndarray] | None = None

    def slope(self, latent: np.ndarray) -> np.ndarray:
        """Return the first derivatives: (k, n) -> (k, n)."""
        return self.derivatives(latent).slope if self.slopes is None else self.slopes(latent)

    def change(self, v: np.ndarray) -> np.ndarray:
        """Return A'v for each output: (k, m) -> (k, n)."""
        if len(self.projections) == 1:
            return v @ self.projections[0]
        return np.array([row @ A for row, A in zip(v, self.projections, strict=True)])

    def latent(self, v: np.ndarray) -> np.ndarray:
        """Return f = m + A'v: (k, m) -> (k, n)."""
        return self.offset + self.change(v)

    def pulled_back(self, slope: np.ndarray) -> np.ndarray:
        """Return A times a slope, for each output: (k, n) -> (k, m)."""
        if len(self.projections) == 1:
            return slope @ self.projections[0].T
        return np.array([A @ row for row, A in zip(slope, self.projections, strict=True)])

    def factors(self, curvature: np.ndarray) -> list[np.ndarray]:
        """Return lower Cholesky factors of I + A W A' for each output; W is minus the curvature where that is positive.

        Raises NotPositiveDefiniteError if one is not finite.
        """
        projections = self.projections * (len(curvature) if len(self.projections) == 1 else 1)
        return [
            cholesky(_gram(A * np.sqrt(np.maximum(-row, 0.0))), overwrite=True)
            for A, row in zip(projections, curvature, strict=True)
        ]

    def log_density(self, v: np.ndarray, latent: np.ndarray) -> float:
        """Return the log-density of v, given its latent values, up to a constant."""
        return self.value(latent) - 0.5 * float(np.vdot(v, v))


class GaussianFit(NamedTuple):
    """N(mode, (L L')^-1), in whose coordinates, w = L'(v - mode), v is close to standard normal.

    `mode` (k, m); `factors` list of (m, m) arrays: L of each output, in its lower triangle.
    """

    mode: np.ndarray
    factors: list[np.ndarray]

    @property
    def log_jacobian(self) -> float:
        """Return log |dv/dw|."""
        return -sum(float(np.log(factor.diagonal()).sum()) for factor in self.factors)

    def deviation(self, w: np.ndarray) -> np.ndarray:
        """Return v - mode at whitened coordinates."""
        parts = [triangular_solve(L, row, transpose=True) for L, row in zip(self.factors, w, strict=True)]
        return np.array(parts)

    def whitened(self, v: np.ndarray) -> np.ndarray:
        """Return w at values at the inducing inputs."""
        parts = zip(self.factors, v - self.mode, strict=True)
        return np.array([triangular_product(L, row, transpose=True) for L, row in parts])


def fitted(conditional: WhitenedConditional, start: np.ndarray) -> GaussianFit | None:
    """Return the Gaussian at the mode of v, found with Newton's method from a start.

    It is a function of the density and the start, so coordinates whitened by it are deterministic in theta if the
    start is.

    Shapes: start (k, m).

    Returns None where the density is not finite.
    """
    v, latent, value = _possible(conditional, start)
    try:
        for _ in range(STEPS):
            here = conditional.derivatives(latent)
            gradient = conditional.pulled_back(here.slope) - v
            factors = conditional.factors(here.curvature)
            step = np.array([cholesky_solve(L, row) for L, row in zip(factors, gradient, strict=True)])
            gain = 0.5 * float(np.vdot(gradient, step))
            if gain < ARRIVED:
                return GaussianFit(v + step, factors)
            along = conditional.change(step)
            for halving in range(HALVINGS):
                scale = 0.5**halving
                moved = v + scale * step, latent + scale * along
                new = conditional.log_density(*moved)
                if new >= value:
                    break
            else:
                return GaussianFit(v, factors)
            (v, latent), value = moved, new
    except NotPositiveDefiniteError:
        return None
    return GaussianFit(v, factors)


@storable
class Sites(NamedTuple):
    """A Gaussian function of the latent values that replaces their likelihood: exp(b'f - f'Wf / 2).

    `linear`, `precision` (k, n): b, and the diagonal of W, which is not negative.
    """

    linear: np.ndarray
    precision: np.ndarray

    @classmethod
    def about(cls, latent: np.ndarray, derivatives: Derivatives) -> Sites:
        """Return sites with these derivatives at latent values; positive curvatures are left out."""
        precision = np.maximum(-derivatives.curvature, 0.0)
        return cls(derivatives.slope + precision * latent, precision)


def fitted_by_sites(conditional: WhitenedConditional, sites: Sites) -> GaussianFit | None:
    """Return the Gaussian of v when sites replace the likelihood: one factorization, and no search.

    Returns None where the density is not finite.
    """
    try:
        factors = conditional.factors(-sites.precision)
    except NotPositiveDefiniteError:
        return None
    right = conditional.pulled_back(sites.linear - sites.precision * conditional.offset)
    mode = np.array([cholesky_solve(L, row) for L, row in zip(factors, right, strict=True)])
    return GaussianFit(mode, factors) if np.isfinite(mode).all() else None


def _possible(conditional: WhitenedConditional, start: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the start, its latent values and its log-density; or zeros with theirs, if that log-density is larger."""
    points = [(v, conditional.latent(v)) for v in (start, np.zeros_like(start))]
    values = [conditional.log_density(*point) for point in points]
    best = 0 if values[0] >= values[1] else 1
    return *points[best], values[best]


def slices(
    rng: np.random.Generator, conditional: WhitenedConditional, fit: GaussianFit, w: np.ndarray, moves: int
) -> tuple[np.ndarray, int]:
    """Make elliptical slice moves of v about its Gaussian, in w, whose reference is N(0, I).

    The density depends on w through linear maps, so an ellipse takes one product with A, and a point O(N).

    Shapes: w (k, m).

    Returns `w` (k, m); `evaluations`: number of evaluations of the likelihood.
    """
    shape, size = w.shape, w.size
    center = conditional.latent(fit.mode)

    def image(w: np.ndarray) -> np.ndarray:
        deviation = fit.deviation(w)
        return np.concatenate([w.ravel(), deviation.ravel(), conditional.change(deviation).ravel()])

    def log_ratio(point: np.ndarray) -> float:
        w, v = point[:size], fit.mode.ravel() + point[size : 2 * size]
        latent = center + point[2 * size :].reshape(center.shape)
        return conditional.value(latent) + 0.5 * float(w @ w - v @ v)

    point = image(w)
    current, evaluations = log_ratio(point), 1
    for _ in range(moves):
        point, current, made = slice_on_ellipse(rng, point, image(rng.standard_normal(shape)), log_ratio, current)
        evaluations += made
    return point[:size].reshape(shape).copy(), evaluations


def _gram(a: np.ndarray) -> np.ndarray:
    """Return the lower triangle of I + a a', for a in any memory order."""
    product = dsyrk(1.0, a.T, trans=1, lower=1) if a.flags.c_contiguous else dsyrk(1.0, a, lower=1)
    np.einsum("ii->i", product)[:] += 1.0
    return product
