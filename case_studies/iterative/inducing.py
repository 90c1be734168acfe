"""The rivals of figures 2 and 3: FITC, PITC and a variational bound, on inducing inputs, compiled by JAX.

Each has the covariance Q + D of f, where Q = K_XU K_UU^-1 K_UX and D is diagonal or has blocks on its diagonal; the
bound has D = 0 and subtracts a trace. As in the article there are n^(2/3) inducing inputs; here they are some of the
rows, and the optimization leaves them where they are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from scipy.optimize import minimize

from case_studies.iterative.learning import Clock, Path, Problem, of_numbers, start_of

__all__ = ["NORMAL", "Regression", "Rival"]

JITTER = 1e-6
SMALLEST = -15.0
"""Bound on the elements of theta; with shorter length-scales, distances would be rounding errors."""
NORMAL = np.log(2.0 * np.pi)


class Parts(NamedTuple):
    """Matrices for both densities and predictions, given observations of f with normal noise.

    - `inner` (m, m): the Cholesky factor of K_UU
    - `A` (m, n): inner^-1 K_UX
    - `left` (n,): the variances of f given the inducing values
    - `y` (n,), `whitened` (m, n): observations and A, whitened by D and the noise
    - `determinant`: the log-determinant of D and the noise
    - `factor` (m, m): the Cholesky factor of I + whitened whitened'
    - `projected` (m,): factor^-1 whitened y
    """

    inner: Any
    A: Any
    left: Any
    y: Any
    whitened: Any
    determinant: Any
    factor: Any
    projected: Any

    def log_density(self) -> Any:
        """Return the log-density of all observations."""
        quadratic = self.y @ self.y - self.projected @ self.projected
        determinant = self.determinant + 2.0 * jnp.log(jnp.diagonal(self.factor)).sum()
        return -0.5 * (quadratic + determinant + len(self.y) * NORMAL)


class Rival:
    """FITC, PITC or VAR for a problem; theta has the logs of the length-scales first, and then of the variance."""

    def __init__(self, name: str, problem: Problem, seed: int) -> None:
        n = len(problem.data.y)
        chosen = np.random.default_rng(seed).choice(n, round(n ** (2.0 / 3.0)), replace=False)
        self._name, self._data = name, problem.data
        self._inducing = problem.data.X[chosen]
        size = int(np.sqrt(n)) if name == "PITC" else 1
        pieces = np.array_split(np.arange(n), n // size)
        # At most two sizes, each of which is one array.
        self._groups = [np.stack([p for p in pieces if len(p) == k]) for k in sorted({len(p) for p in pieces})]

    def negative(self, theta: Any) -> Any:
        """Return minus the log-density of y or its approximation, or minus the bound."""
        raise NotImplementedError

    def scored(self, theta: np.ndarray) -> dict[str, float]:
        """Score the rival's own predictions of held-out rows."""
        raise NotImplementedError

    def climbed(self, problem: Problem) -> Path:
        """Climb with L-BFGS until the budget is used up; compilation does not count."""
        start = start_of(problem)
        with jax.enable_x64(True):
            both = jax.jit(jax.value_and_grad(self.negative))
            both(start)
            clock = Clock(problem.budget, start)

            def callback(intermediate_result: Any) -> None:
                if clock.passed(intermediate_result.x):
                    raise StopIteration

            def function(theta: np.ndarray) -> tuple[float, np.ndarray]:
                value, gradient = both(theta)
                return float(value), np.asarray(gradient)

            # With a bound on both sides of each element the first step would not be a short one.
            bounds = [(SMALLEST, None)] * len(start)
            minimize(function, start, jac=True, method="L-BFGS-B", callback=callback, bounds=bounds)
        return clock.path

    def _parts(self, theta: Any, target: Any, noise: Any) -> Parts:
        """Return the parts for observations `target` with noise of variances `noise`: (n,)."""
        X, m, variance = self._data.X, len(self._inducing), jnp.exp(theta[self._data.X.shape[1]])
        inner = jnp.linalg.cholesky(
            self._covariance(theta, self._inducing, self._inducing) + JITTER * variance * jnp.eye(m)
        )
        A = solve_triangular(inner, self._covariance(theta, self._inducing, X), lower=True)
        left = jnp.maximum(variance - (A**2).sum(axis=0), 0.0)
        if self._name == "PITC":
            y, whitened, determinant = self._by_blocks(theta, A, target, noise)
        else:
            D = noise + left * (self._name == "FITC")
            y, whitened, determinant = target / jnp.sqrt(D), A / jnp.sqrt(D), jnp.log(D).sum()
        factor = jnp.linalg.cholesky(jnp.eye(m) + whitened @ whitened.T)
        projected = solve_triangular(factor, whitened @ y, lower=True)
        return Parts(inner, A, left, y, whitened, determinant, factor, projected)

    def _predicted(self, theta: Any, parts: Parts) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances of f at held-out rows."""
        between = self._covariance(theta, self._inducing, self._data.X_new)
        new = solve_triangular(parts.inner, between, lower=True)
        seen = solve_triangular(parts.factor, new, lower=True)
        variance = np.exp(theta[self._data.X.shape[1]]) - (new**2).sum(axis=0) + (seen**2).sum(axis=0)
        return np.asarray(seen.T @ parts.projected), np.asarray(variance)

    def _covariance(self, theta: Any, X: np.ndarray, Z: np.ndarray) -> Any:
        d = X.shape[-1]
        X, Z = X * jnp.exp(-theta[:d]), Z * jnp.exp(-theta[:d])
        squares = (X**2).sum(axis=-1)[..., :, None] + (Z**2).sum(axis=-1)[..., None, :]
        return jnp.exp(theta[d] - 0.5 * jnp.maximum(squares - 2.0 * X @ jnp.swapaxes(Z, -1, -2), 0.0))

    def _by_blocks(self, theta: Any, A: Any, target: Any, noise: Any) -> tuple[Any, Any, Any]:
        def of_block(given: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, Any]:
            X, y, variances, columns = given
            D = self._covariance(theta, X, X) - columns @ columns.T + jnp.diag(variances)
            factor = jnp.linalg.cholesky(D)
            solved = solve_triangular(factor, jnp.column_stack([y, columns]), lower=True)
            return solved[:, 0], solved[:, 1:], 2.0 * jnp.log(jnp.diagonal(factor)).sum()

        found = []
        for rows in self._groups:
            own = self._data.X[rows], target[rows], noise[rows], A.T[rows]
            y, columns, determinants = jax.lax.map(of_block, own)
            found.append((y.ravel(), columns.reshape(-1, len(A)).T, determinants.sum()))
        y, whitened, determinant = zip(*found, strict=True)
        return jnp.concatenate(y), jnp.concatenate(whitened, axis=1), sum(determinant)


class Regression(Rival):
    """A rival for numbers with normal noise, whose log-variance is the last element of theta."""

    def negative(self, theta: Any) -> Any:
        """Return minus the log-density of y, or minus the bound of Titsias (2009)."""
        noise = jnp.exp(theta[-1])
        parts = self._noisy(theta)
        penalty = 0.5 * parts.left.sum() / noise if self._name == "VAR" else 0.0
        return penalty - parts.log_density()

    def scored(self, theta: np.ndarray) -> dict[str, float]:
        """Score the rival's own predictions of held-out rows."""
        with jax.enable_x64(True):
            mean, variance = self._predicted(theta, self._noisy(theta))
        return of_numbers(mean, variance + np.exp(theta[-1]), self._data.y_new)

    def _noisy(self, theta: Any) -> Parts:
        return self._parts(theta, jnp.asarray(self._data.y), jnp.full(len(self._data.y), jnp.exp(theta[-1])))
