"""The rivals for labels with a probit likelihood: Laplace's approximation with FITC and PITC, and a variational bound.

All have working observations of f, with normal noise of their own, whose posterior is the approximation. For FITC and
PITC they have the slope and the curvature of the likelihood at the mode. For the bound (Hensman et al. 2015) they have
their means under q, which is normal and maximizes the bound (Opper and Archambeau 2009).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import log_ndtr
from numpy.polynomial.hermite_e import hermegauss

from case_studies.iterative.inducing import NORMAL, Rival
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
        mean, variance = jax.lax.stop_gradient(self._approximation(jax.lax.stop_gradient(theta)))
        if self._name == "VAR":
            return self._negative_bound(theta, *self._working(mean, variance))
        return self._negative_laplace(theta, mean)

    def scored(self, theta: np.ndarray) -> dict[str, float]:
        """Score the rival's own predictions of held-out rows."""
        with jax.enable_x64(True):
            mean, variance = self._predicted(theta, self._parts(theta, *self._working(*self._approximation(theta))))
        return of_labels(mean / np.sqrt(1.0 + variance), self._data.y_new)

    def _approximation(self, theta: Any) -> tuple[Any, Any]:
        """Return the means and variances of f at which working observations are taken; at a mode these are zero."""
        zeros = jnp.zeros(len(self._data.y))
        if self._name == "VAR":
            return _settled(lambda state: self._under_q(theta, *state), (zeros, zeros + jnp.exp(theta[-1])))
        return _settled(lambda state: (self._newton(theta, state[0]), zeros), (zeros, zeros))

    def _under_q(self, theta: Any, mean: Any, variance: Any) -> tuple[Any, Any]:
        """Return means and variances of f given the working observations at others."""
        parts = self._parts(theta, *self._working(mean, variance))
        seen = solve_triangular(parts.factor, parts.A, lower=True)
        return seen.T @ parts.projected, parts.left + (seen**2).sum(axis=0)

    def _newton(self, theta: Any, f: Any) -> Any:
        """Return the mean of f given the working observations at f, a step towards the mode."""
        target, noise = self._working(f, jnp.zeros_like(f))
        return target + noise * jax.grad(lambda given: self._parts(theta, given, noise).log_density())(target)

    def _working(self, mean: Any, variance: Any) -> tuple[Any, Any]:
        """Return observations of f and the variances of their noise, from means over f of the derivatives."""
        signs = 2.0 * self._data.y - 1.0
        margin = signs * (mean + jnp.sqrt(variance) * NODES[:, None])
        ratio = jnp.exp(-0.5 * (margin**2 + NORMAL) - log_ndtr(margin))
        precision = jnp.maximum(WEIGHTS @ (ratio * (ratio + margin)), SMALLEST_PRECISION)
        return mean + signs * (WEIGHTS @ ratio) / precision, 1.0 / precision

    def _negative_laplace(self, theta: Any, mode: Any) -> Any:
        # A step from the mode is the mode, and has its derivative in theta.
        f = self._newton(theta, mode)
        target, noise = self._working(f, jnp.zeros_like(f))
        observed = -0.5 * ((target - f) ** 2 / noise + jnp.log(noise) + NORMAL)
        own = log_ndtr((2.0 * self._data.y - 1.0) * f)
        return (observed - own).sum() - self._parts(theta, target, noise).log_density()

    def _negative_bound(self, theta: Any, target: Any, noise: Any) -> Any:
        """Return the divergence of q from the prior less the mean of the log-likelihood.

        The bound has no derivative in q, which maximizes it, so that q(L^-1 u) is fixed, L being the factor of K_UU.
        """
        at = self._parts(jax.lax.stop_gradient(theta), target, noise)
        root = solve_triangular(at.factor, jnp.eye(len(at.factor)), lower=True)
        m, S = root.T @ at.projected, root.T @ root
        divergence = 0.5 * (jnp.trace(S) + m @ m - len(m)) + jnp.log(jnp.diagonal(at.factor)).sum()
        now = self._parts(theta, target, noise)
        spread = jnp.sqrt(now.left + ((root @ now.A) ** 2).sum(axis=0))
        margin = (2.0 * self._data.y - 1.0) * (now.A.T @ m + spread * NODES[:, None])
        return divergence - (WEIGHTS @ log_ndtr(margin)).sum()


def _settled(step: Callable[[tuple[Any, Any]], tuple[Any, Any]], start: tuple[Any, Any]) -> tuple[Any, Any]:
    """Repeat a step until the mean square of its change is small."""

    def goes_on(state: tuple[Any, Any, Any]) -> Any:
        _, change, made = state
        return (change > 1e-4 * CHANGE) & (made < STEPS)

    def repeated(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        old, _, made = state
        new = step(old)
        return new, jnp.mean((new[0] - old[0]) ** 2 + (new[1] - old[1]) ** 2), made + 1

    found, _, _ = jax.lax.while_loop(goes_on, repeated, (start, jnp.inf, 0))
    return found
