"""Theta given surrogate data (Murray and Adams 2010; section 2.4 of the comparative evaluation).

Surrogate data g ~ N(f, S) are drawn; then theta moves with g and eta fixed, where f = m_g + D eta with m_g and
D D' the moments of f given g. S is diagonal and chosen so that g says about each f_i what its observation says.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pmgp.core.gaussians import DensePrior
from pmgp.core.gaussians.sites import posterior_factor
from pmgp.core.joint_density import DifferentiableModel
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.numerics import linalg
from pmgp.core.theta_updates.densities import JointState, LatentPart, ThetaDensity

__all__ = ["SurrogateDensity", "SurrogateFrame", "surrogate_noise"]

# Bounds of S relative to the prior variance: an observation that says nothing, and one that says all.
BOUNDS = (1e-4, 1e4)


class SurrogateFrame(NamedTuple):
    """What f = m_g + D eta needs at one theta.

    Attributes
    ----------
    prior : DensePrior
    noise : (n,) array
        Diagonal of S.
    factor_of_sum : (n, n) array
        Lower Cholesky factor of I + S^-1/2 K S^-1/2.
    factor : (n, n) array
        D, lower triangular, with D D' = (K^-1 + S^-1)^-1.
    """

    prior: DensePrior
    noise: np.ndarray
    factor_of_sum: np.ndarray
    factor: np.ndarray

    @classmethod
    def make(cls, prior: DensePrior, noise: np.ndarray) -> SurrogateFrame:
        """Two factorizations and one inversion.

        Raises
        ------
        NotPositiveDefiniteError
            If K is indefinite and stays so with a jitter.
        """
        return cls(prior, noise, *posterior_factor(prior, 1.0 / noise))

    def mean(self, surrogate: np.ndarray) -> np.ndarray:
        """m_g = m + D D' S^-1 (g - m)."""
        weighted = (surrogate - self.prior.mean) / self.noise
        product = linalg.triangular_product(self.factor, weighted, transpose=True)
        return self.prior.mean + linalg.triangular_product(self.factor, product)

    def whiten(self, f: np.ndarray, surrogate: np.ndarray) -> np.ndarray:
        """Eta = D^-1 (f - m_g)."""
        return linalg.triangular_solve(self.factor, f - self.mean(surrogate))

    def unwhiten(self, eta: np.ndarray, surrogate: np.ndarray) -> np.ndarray:
        """F = m_g + D eta."""
        return self.mean(surrogate) + linalg.triangular_product(self.factor, eta)

    def log_density(self, surrogate: np.ndarray) -> float:
        """Log N(g|m, K + S) up to a constant."""
        standard = (surrogate - self.prior.mean) / np.sqrt(self.noise)
        whitened = linalg.triangular_solve(self.factor_of_sum, standard)
        log_determinant = linalg.log_determinant(self.factor_of_sum) + float(np.log(self.noise).sum())
        return -0.5 * (float(whitened @ whitened) + log_determinant)


def surrogate_noise(prior: DensePrior, likelihood: Likelihood) -> np.ndarray:
    """Diagonal of S by matching each latent value's own posterior.

    p(f_i|y_i, theta) under N(m_i, K_ii) has a variance v_i, and S_i solves 1/v_i = 1/K_ii + 1/S_i. Where the moments
    are not known, Taylor's expansion at the prior mean gives S_i = 1 / curvature. A function of theta alone.
    """
    variance = np.einsum("ii->i", prior.covariance).copy()
    moments = likelihood.tilted_moments(prior.mean, variance)
    if moments is None:
        precision = likelihood.fisher_information(prior.mean)
    else:
        precision = 1.0 / np.maximum(moments[1], 1e-12 * variance) - 1.0 / variance
    smallest, largest = BOUNDS
    return variance / np.clip(precision * variance, 1.0 / largest, 1.0 / smallest)


class SurrogateDensity(ThetaDensity):
    """p(theta|eta, g, y): p(theta) N(g|m, K + S) p(y|f, theta), with f moving with theta.

    Parameters
    ----------
    model : DifferentiableModel
    current : JointState
    rng : numpy.random.Generator
        For the surrogate data, which are drawn anew.
    """

    def __init__(self, model: DifferentiableModel, current: JointState, rng: np.random.Generator) -> None:
        super().__init__(model, current)
        f = current.together.f
        frame = self._frame(current.theta)
        self.surrogate = f + np.sqrt(frame.noise) * rng.standard_normal(f.shape)
        self.eta = frame.whiten(f, self.surrogate)

    def _frame(self, theta: np.ndarray) -> SurrogateFrame:
        known = self.current.together.extra
        if self.is_current(theta) and isinstance(known, SurrogateFrame):
            return known
        prior = self.prior(theta)
        noise = surrogate_noise(prior, self.model.likelihood(theta))
        return SurrogateFrame.make(prior, noise)

    def _given(self, theta: np.ndarray) -> tuple[float, LatentPart]:
        frame = self._frame(theta)
        f = self.current.together.f if self.is_current(theta) else frame.unwhiten(self.eta, self.surrogate)
        log_likelihood = float(self.model.likelihood(theta).log_likelihood(f))
        return frame.log_density(self.surrogate) + log_likelihood, LatentPart(frame.prior, f, frame)
