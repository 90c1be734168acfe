"""The rivals for labels with a probit likelihood: Laplace's approximation with FITC and PITC, and a variational bound.

All have working observations of f, with normal noise of their own, whose posterior is the approximation. For FITC and
PITC they have the slope and the curvature of the likelihood at the mode. For the bound (Hensman et al. 2015) they have
their means under q, which is normal and maximizes the bound (Opper and Archambeau 2009).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import log_ndtr
from numpy.polynomial.hermite_e import hermegauss

from case_studies.iterative.inducing import NORMAL, Parts, Rival
from case_studies.iterative.learning import CHANGE, of_labels
from pmgp.core.gaussians import SMALLEST_PRECISION

__all__ = ["Classification"]

STEPS = 100
"""Steps of an approximation at most."""
NODES, WEIGHTS = hermegauss(20)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


class Classification(Rival):
    """A rival for labels zero and one."""

    def negative(self, theta: Any) -> Any:
        """Return minus Laplace's approximation of log p(y|theta), or minus the bound."""
        fixed = jax.lax.stop_gradient(self._approximation(jax.lax.stop_gradient(theta)))
        # A step from the mode is the mode, and has its derivative. A bound has none in q, which maximizes it.
        return self._negative_bound(theta, *fixed) if self._name == "VAR" else self._negative_laplace(theta, *fixed)

    def scored(self, theta: np.ndarray) -> dict[str, float]:
        """Score the rival's own predictions of held-out rows."""
        with jax.enable_x64(True):
            mean, variance = self._predicted(theta, self._parts(theta, *self._working(*self._approximation(theta))))
        return of_labels(mean / np.sqrt(1.0 + variance), self._data.y_new)

    def _approximation(self, theta: Any) -> tuple[Any, Any]:
        """Return the means and variances of f at which working observations are taken; at a mode these are zero."""
        zeros = jnp.zeros(len(self._data.y))

        def goes_on(state: tuple[Any, Any, Any, Any]) -> Any:
            _, _, change, made = state
            return (change > 1e-4 * CHANGE) & (made < STEPS)

        def step(state: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
            mean, variance, _, made = state
            found = self._step(theta, mean, variance)
            return *found, jnp.mean((found[0] - mean) ** 2 + (found[1] - variance) ** 2), made + 1

        start = zeros, jnp.full_like(zeros, jnp.exp(theta[-1])) * (self._name == "VAR"), jnp.inf, 0
        mean, variance, _, _ = jax.lax.while_loop(goes_on, step, start)
        return mean, variance

    def _step(self, theta: Any, mean: Any, variance: Any) -> tuple[Any, Any]:
        """Return means and variances of f given the working observations at others."""
        target, noise = self._working(mean, variance)
        if self._name == "VAR":
            return self._under_q(self._parts(theta, target, noise))
        residual = jax.grad(lambda given: self._parts(theta, given, noise).log_density())(target)
        return target + noise * residual, variance

    def _under_q(self, parts: Parts) -> tuple[Any, Any]:
        seen = solve_triangular(parts.factor, parts.A, lower=True)
        return seen.T @ parts.projected, parts.left + (seen**2).sum(axis=0)

    def _working(self, mean: Any, variance: Any) -> tuple[Any, Any]:
        """Return observations of f and the variances of their noise, from means over f of the derivatives."""
        signs = 2.0 * self._data.y - 1.0
        margin = signs * (mean + jnp.sqrt(variance) * NODES[:, None])
        ratio = jnp.exp(-0.5 * (margin**2 + NORMAL) - log_ndtr(margin))
        precision = jnp.maximum(WEIGHTS @ (ratio * (ratio + margin)), SMALLEST_PRECISION)
        return mean + signs * (WEIGHTS @ ratio) / precision, 1.0 / precision

    def _negative_laplace(self, theta: Any, mode: Any, variance: Any) -> Any:
        f, _ = self._step(theta, mode, variance)
        target, noise = self._working(f, variance)
        observed = -0.5 * ((target - f) ** 2 / noise + jnp.log(noise) + NORMAL)
        own = log_ndtr((2.0 * self._data.y - 1.0) * f)
        return (observed - own).sum() - self._parts(theta, target, noise).log_density()

    def _negative_bound(self, theta: Any, mean: Any, variance: Any) -> Any:
        """Return the divergence of q from the prior less the mean of the log-likelihood, with q(L^-1 u) fixed."""
        target, noise = self._working(mean, variance)
        at = self._parts(jax.lax.stop_gradient(theta), target, noise)
        root = solve_triangular(at.factor, jnp.eye(len(at.factor)), lower=True)
        m, S = root.T @ at.projected, root.T @ root
        divergence = 0.5 * (jnp.trace(S) + m @ m - len(m)) + jnp.log(jnp.diagonal(at.factor)).sum()
        now = self._parts(theta, target, noise)
        spread = jnp.sqrt(now.left + ((root @ now.A) ** 2).sum(axis=0))
        margin = (2.0 * self._data.y - 1.0) * (now.A.T @ m + spread * NODES[:, None])
        return divergence - (WEIGHTS @ log_ndtr(margin)).sum()
