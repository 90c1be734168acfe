"""The rivals of figure 2 for numbers: FITC, PITC and the variational bound, on inducing inputs, compiled by JAX.

Each is a normal density of y with the covariance Q + D, where Q = K_XU K_UU^-1 K_UX and D is diagonal or has blocks on
its diagonal, and the bound subtracts a trace. As in the article there are n^(2/3) inducing inputs; here they are some
of the rows, and the optimization leaves them where they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize

from case_studies.iterative.learning import Clock, Path, Problem, of_numbers, start_of

__all__ = ["RIVALS", "Rival"]

RIVALS = ("FITC", "PITC", "VAR")
JITTER = 1e-6


class Rival:
    """One of :data:`RIVALS` for a problem, as functions of theta."""

    def __init__(self, name: str, problem: Problem, seed: int) -> None:
        n = len(problem.data.y)
        chosen = np.random.default_rng(seed).choice(n, round(n ** (2.0 / 3.0)), replace=False)
        self._name, self._data = name, problem.data
        self._inducing = problem.data.X[chosen]
        size = int(np.sqrt(n)) if name == "PITC" else 1
        pieces = np.array_split(np.arange(n), n // size)
        # At most two sizes, each of which is one array.
        self._groups = [np.stack([p for p in pieces if len(p) == k]) for k in sorted({len(p) for p in pieces})]

    def climbed(self, problem: Problem) -> Path:
        """Climb with L-BFGS until the budget is used up; compilation does not count."""
        import jax

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

            minimize(function, start, jac=True, method="L-BFGS-B", callback=callback)
        return clock.path

    def negative(self, theta: Any) -> Any:
        """Return minus the log-density of y, or minus the bound."""
        import jax.numpy as jnp

        parts = self._parts(theta)
        quadratic = parts["y"] @ parts["y"] - parts["projected"] @ parts["projected"]
        determinant = parts["determinant"] + 2.0 * jnp.log(jnp.diagonal(parts["factor"])).sum()
        return 0.5 * (quadratic + determinant + len(self._data.y) * jnp.log(2.0 * jnp.pi)) + parts["penalty"]

    def scored(self, theta: np.ndarray) -> dict[str, float]:
        """Score the rival's own predictions of held-out rows."""
        import jax
        from jax.scipy.linalg import solve_triangular

        with jax.enable_x64(True):
            parts, d = self._parts(theta), self._data.X.shape[1]
            new = solve_triangular(
                parts["inner"], self._covariance(theta, self._inducing, self._data.X_new), lower=True
            )
            seen = solve_triangular(parts["factor"], new, lower=True)
            variance = np.exp(theta[d]) - (new**2).sum(axis=0) + (seen**2).sum(axis=0) + np.exp(theta[d + 1])
            mean = seen.T @ parts["projected"]
        return of_numbers(np.asarray(mean), np.asarray(variance), self._data.y_new)

    def _covariance(self, theta: Any, X: np.ndarray, Z: np.ndarray) -> Any:
        import jax.numpy as jnp

        d = X.shape[-1]
        X, Z = X * jnp.exp(-theta[:d]), Z * jnp.exp(-theta[:d])
        squares = (X**2).sum(axis=-1)[..., :, None] + (Z**2).sum(axis=-1)[..., None, :]
        return jnp.exp(theta[d] - 0.5 * jnp.maximum(squares - 2.0 * X @ jnp.swapaxes(Z, -1, -2), 0.0))

    def _parts(self, theta: Any) -> dict[str, Any]:
        """Return what densities and predictions have in common, with y and A = L_U^-1 K_UX whitened by D."""
        import jax.numpy as jnp
        from jax.scipy.linalg import solve_triangular

        X, y, d, m = self._data.X, self._data.y, self._data.X.shape[1], len(self._inducing)
        variance, noise = jnp.exp(theta[d]), jnp.exp(theta[d + 1])
        inner = jnp.linalg.cholesky(
            self._covariance(theta, self._inducing, self._inducing) + JITTER * variance * jnp.eye(m)
        )
        A = solve_triangular(inner, self._covariance(theta, self._inducing, X), lower=True)
        left = variance - (A**2).sum(axis=0)
        if self._name == "VAR":
            whitened, own = A / jnp.sqrt(noise), y / jnp.sqrt(noise)
            determinant, penalty = len(y) * jnp.log(noise), 0.5 * left.sum() / noise
        elif self._name == "FITC":
            D = noise + jnp.maximum(left, 0.0)
            whitened, own, determinant, penalty = A / jnp.sqrt(D), y / jnp.sqrt(D), jnp.log(D).sum(), 0.0
        else:
            whitened, own, determinant = self._by_blocks(theta, A, noise)
            penalty = 0.0
        factor = jnp.linalg.cholesky(jnp.eye(m) + whitened @ whitened.T)
        projected = solve_triangular(factor, whitened @ own, lower=True)
        return {"inner": inner, "factor": factor, "projected": projected, "y": own, "determinant": determinant,
                "penalty": penalty}  # fmt: skip

    def _by_blocks(self, theta: Any, A: Any, noise: Any) -> tuple[Any, Any, Any]:
        import jax
        import jax.numpy as jnp
        from jax.scipy.linalg import solve_triangular

        def of_block(given: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
            X, y, columns = given
            D = self._covariance(theta, X, X) - columns @ columns.T + noise * jnp.eye(len(y))
            factor = jnp.linalg.cholesky(D)
            solved = solve_triangular(factor, jnp.column_stack([y, columns]), lower=True)
            return solved[:, 0], solved[:, 1:], 2.0 * jnp.log(jnp.diagonal(factor)).sum()

        found = []
        for rows in self._groups:
            y, columns, determinants = jax.lax.map(of_block, (self._data.X[rows], self._data.y[rows], A.T[rows]))
            found.append((columns.reshape(-1, len(A)).T, y.ravel(), determinants.sum()))
        whitened, own, determinant = zip(*found, strict=True)
        return jnp.concatenate(whitened, axis=1), jnp.concatenate(own), sum(determinant)
