"""P = I, P = D, and P = F F' + D with Woodbury's formula (Cutajar et al. 2016, section 3.2)."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from pmgp.core.iterative.preconditioners.base import Base

# A jitter for the diagonal of K_UU, relative to its mean, since points may coincide.
JITTER = 1e-10


class Identity:
    """P = I, for conjugate gradients without a preconditioner.

    `size`: number of rows n.
    """

    log_determinant = 0.0

    def __init__(self, size: int) -> None:
        self._size = size

    def solve(self, x: np.ndarray) -> np.ndarray:
        """Return the columns themselves: (n, k) -> (n, k)."""
        return x

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Return standard normal columns: (n, size)."""
        return rng.standard_normal((self._size, size))


class Diagonal:
    """D = diag(noise).

    `noise` (n,): positive numbers.
    """

    def __init__(self, noise: np.ndarray) -> None:
        if not np.all(noise > 0.0):
            raise ValueError(f"noise on the diagonal must be positive, not {np.min(noise):.3g}")
        self._noise = np.asarray(noise, dtype=float)

    @property
    def log_determinant(self) -> float:
        """The sum of the logarithms."""
        return float(np.log(self._noise).sum())

    def solve(self, x: np.ndarray) -> np.ndarray:
        """Return D^-1 x: (n, k) -> (n, k)."""
        return x / self._noise[:, None]

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Return draws from N(0, D): (n, size)."""
        return np.sqrt(self._noise)[:, None] * rng.standard_normal((len(self._noise), size))

    def inverse_diagonal(self) -> np.ndarray:
        """Return the diagonal of D^-1: (n,)."""
        return 1.0 / self._noise


class LowRank:
    """P = F F' + D.

    `factor` (n, m): F; `base`: D, for example a `Diagonal`.
    """

    def __init__(self, factor: np.ndarray, base: Base) -> None:
        self._factor, self._base = factor, base
        self._weighted = base.solve(factor)
        inner = factor.T @ self._weighted
        np.einsum("ii->i", inner)[:] += 1.0
        self._inner = cho_factor(inner, lower=True)

    def solve(self, x: np.ndarray) -> np.ndarray:
        """Return P^-1 x = D^-1 x - D^-1 F (I + F'D^-1 F)^-1 F'D^-1 x: (n, k) -> (n, k)."""
        return self._base.solve(x) - self._weighted @ cho_solve(self._inner, self._weighted.T @ x)

    def solved_factor(self, right: np.ndarray) -> np.ndarray:
        """Return P^-1 F times columns: (m, k) -> (n, k)."""
        return self._weighted @ cho_solve(self._inner, right)

    def explained(self) -> np.ndarray:
        """Return F'P^-1 F = I - (I + F'D^-1 F)^-1: (m, m)."""
        one = np.eye(self._factor.shape[1])
        return one - cho_solve(self._inner, one)

    @property
    def log_determinant(self) -> float:
        """log|D| + log|I + F'D^-1 F|."""
        return self._base.log_determinant + 2.0 * float(np.log(self._inner[0].diagonal()).sum())

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Return draws from N(0, P), F e + d with e standard normal and d ~ N(0, D): (n, size)."""
        return self._factor @ rng.standard_normal((self._factor.shape[1], size)) + self._base.sample(rng, size)

    def inverse_diagonal(self) -> np.ndarray:
        """Return the diagonal of P^-1: (n,)."""
        half = solve_triangular(self._inner[0], self._weighted.T, lower=True)
        return self._base.inverse_diagonal() - np.square(half).sum(axis=0)


def factor_of(columns: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return F with F F' = K_XU K_UU^-1 K_UX, from the columns K_XU: (n, m), (m,) -> (n, m)."""
    return solve_triangular(stable_cholesky(columns[points]), columns.T, lower=True).T


def stable_cholesky(matrix: np.ndarray) -> np.ndarray:
    """Return the lower Cholesky factor of a covariance, with a jitter that suffices even if points coincide."""
    jitter = max(JITTER * matrix.diagonal().mean(), np.finfo(float).tiny)
    while True:
        try:
            return cholesky(matrix + jitter * np.eye(len(matrix)), lower=True)
        except np.linalg.LinAlgError:
            jitter *= 10.0
