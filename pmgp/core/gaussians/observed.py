"""The prior given noisy observations of f, in coordinates where it is standard normal; the noise is Gaussian.

Several latent vectors are conditioned one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pmgp.core.gaussians.base import Observed, Prior
from pmgp.core.gaussians.held import HeldCovariance
from pmgp.core.numerics import linalg


@dataclass(frozen=True, eq=False)
class ObservedPrior(Observed):
    """N(m, (K^-1 + W)^-1): f given observations with precisions W, without their effect on the mean.

    Attributes
    ----------
    prior : HeldCovariance
        With a jitter if one was needed.
    precision : (n,) array
        W.
    factor_of_sum : (n, n) array
        Lower Cholesky factor of B = I + W^1/2 K W^1/2.
    factor : (n, n) array
        D, lower triangular, with D D' = (K^-1 + W)^-1.
    """

    prior: HeldCovariance
    precision: np.ndarray
    factor_of_sum: np.ndarray
    factor: np.ndarray

    def whitened(self, deviation: np.ndarray) -> np.ndarray:
        """Return D^-1 e: (n,) -> (n,)."""
        return linalg.triangular_solve(self.factor, deviation)

    def deviation(self, x: np.ndarray) -> np.ndarray:
        """Return D x: (n,) -> (n,)."""
        return linalg.triangular_product(self.factor, x)

    def pull(self, gradient: np.ndarray) -> np.ndarray:
        """Return D' g, the gradient in x of a function whose gradient in f = m + D x is g: (n,) -> (n,)."""
        return linalg.triangular_product(self.factor, gradient, transpose=True)

    def log_density_of(self, observations: np.ndarray) -> float:
        """Return log N(g|m, K + W^-1) up to a constant."""
        standard = (observations - self.prior.mean) * np.sqrt(self.precision)
        whitened = linalg.triangular_solve(self.factor_of_sum, standard)
        log_determinant = linalg.log_determinant(self.factor_of_sum) - float(np.log(self.precision).sum())
        return -0.5 * (float(whitened @ whitened) + log_determinant)


def observed(prior: HeldCovariance, precision: np.ndarray) -> ObservedPrior | None:
    """Return the prior given observations of f, using two factorizations and one inversion.

    K itself is not factorized, unless it turns out to need a jitter.

    `precision` (n,): W, positive and not much below the prior precision, where I - B^-1 would cancel.

    Returns None if K is indefinite even with a jitter.
    """
    found = _observed(prior, precision)
    if found is None:
        raised = prior.factorized()
        found = None if raised is None else _observed(raised, precision)
    return found


def _observed(prior: HeldCovariance, precision: np.ndarray) -> ObservedPrior | None:
    """Return the observed prior, with D D' = W^-1/2 (I - B^-1) W^-1/2; None where K is indefinite."""
    root = np.sqrt(precision)
    try:
        factor = linalg.cholesky(linalg.scaled_plus_identity(prior.covariance, root), overwrite=True)
        # Elements above the diagonal are arbitrary.
        with np.errstate(all="ignore"):
            posterior = np.negative(linalg.inverse(factor), order="F")
            np.einsum("ii->i", posterior)[:] += 1.0
            posterior /= root[:, None]
            posterior /= root
        return ObservedPrior(prior, precision, factor, linalg.cholesky(posterior, overwrite=True))
    except linalg.NotPositiveDefiniteError:
        return None


class BlockObservedPrior(Observed):
    """N(m, (K^-1 + W)^-1) for a diagonal W: f given observations, without their effect on the mean.

    `prior`: prior of all vectors; `parts`: observed priors of f_1, ..., f_C.
    """

    def __init__(self, prior: Prior, parts: Sequence[ObservedPrior]) -> None:
        self.prior, self.parts = prior, tuple(parts)
        self.precision = np.concatenate([part.precision for part in parts])

    def whitened(self, deviation: np.ndarray) -> np.ndarray:
        """Return D^-1 e: (C n,) -> (C n,)."""
        return self._each(ObservedPrior.whitened, deviation)

    def deviation(self, x: np.ndarray) -> np.ndarray:
        """Return D x: (C n,) -> (C n,)."""
        return self._each(ObservedPrior.deviation, x)

    def pull(self, gradient: np.ndarray) -> np.ndarray:
        """Return D' g, the gradient in x of a function whose gradient in f = m + D x is g: (C n,) -> (C n,)."""
        return self._each(ObservedPrior.pull, gradient)

    def log_density_of(self, observations: np.ndarray) -> float:
        """Return log N(g|m, K + W^-1) up to a constant."""
        blocks = np.split(observations, len(self.parts))
        return sum(part.log_density_of(block) for part, block in zip(self.parts, blocks, strict=True))

    def _each(self, function: Callable[[ObservedPrior, np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
        blocks = np.split(x, len(self.parts))
        return np.concatenate([function(part, block) for part, block in zip(self.parts, blocks, strict=True)])
