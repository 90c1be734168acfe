"""A kind of Gaussian from outside of the package: a diagonal plus a matrix of low rank, by Woodbury's identity."""

from __future__ import annotations

import numpy as np

from pmgp.core.gaussians import Shrinkage, ShrinkingPrior


class LowRankPrior(ShrinkingPrior):
    """N(m, K) with K = D + U U', for a positive (n,) array D and U of shape (n, r)."""

    def __init__(self, mean: np.ndarray, diagonal: np.ndarray, factors: np.ndarray) -> None:
        self.mean, self.diagonal, self.factors = mean, diagonal, factors

    @property
    def variance(self) -> np.ndarray:
        return self.diagonal + np.square(self.factors).sum(axis=1)

    def product(self, x: np.ndarray) -> np.ndarray:
        return (self.diagonal * x.T).T + self.factors @ (self.factors.T @ x)

    def deviations_from(self, normals: np.ndarray) -> np.ndarray:
        """D^1/2 (I + V V')^1/2 e with V = D^-1/2 U, whose root is I + P (sqrt(1 + s^2) - 1) P'."""
        root = np.sqrt(self.diagonal)
        p, s, _ = np.linalg.svd(self.factors / root[:, None], full_matrices=False)
        return root * (normals + (normals @ p * (np.sqrt(1.0 + s * s) - 1.0)) @ p.T)

    def shrinkage(self, precision: np.ndarray) -> LowRankShrinkage | None:
        finite = np.isfinite(self.diagonal).all() and np.isfinite(self.factors).all()
        return LowRankShrinkage(self, precision) if finite else None


class LowRankShrinkage(Shrinkage):
    """S = T + T D^-1 U C^-1 U' D^-1 T with T = (D^-1 + W)^-1 and C = I + U' R_D U, R_D = (D + W^-1)^-1."""

    def __init__(self, prior: LowRankPrior, precision: np.ndarray) -> None:
        self.prior, self.precision = prior, precision
        left = 1.0 / (1.0 + prior.diagonal * precision)
        self.diagonal_part, self.resistance = prior.diagonal * left, precision * left
        core = np.eye(prior.factors.shape[1]) + prior.factors.T @ (self.resistance[:, None] * prior.factors)
        factor = np.linalg.cholesky(core)
        self.log_determinant = float(2.0 * np.log(factor.diagonal()).sum() - np.log(left).sum())
        self.half = np.linalg.solve(factor, prior.factors.T).T
        self.half_left = left[:, None] * self.half

    def product(self, x: np.ndarray) -> np.ndarray:
        return (self.diagonal_part * x.T).T + self.half_left @ (self.half_left.T @ x)

    def diagonal(self) -> np.ndarray:
        return self.diagonal_part + np.square(self.half_left).sum(axis=1)

    def covariance_bar(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradients in D and in U: diag(G) and 2 G U, for G = (x y' + y x' - R) / 2 and R = W - W S W."""
        u, w = self.prior.factors, self.precision
        resistance = w[:, None] * u - w[:, None] * self.product(w[:, None] * u)
        by_diagonal = x * y - 0.5 * (w - w * w * self.diagonal())
        return by_diagonal, np.outer(x, y @ u) + np.outer(y, x @ u) - resistance
