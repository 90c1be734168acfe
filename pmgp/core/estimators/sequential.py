"""Sequential Monte Carlo over the observations: particles of q, resampled between one group of sites and the next.

With L the Cholesky factor of q's covariance, f = mean + L e, the first elements of f depend on the first of e alone. So
particles grow site by site, and are weighted by the ratio of likelihood and site of what is there already. Where the
weights have become uneven, particles are resampled, and go on with new normals. The product of the mean weights is an
unbiased estimate of p(y|theta) (Del Moral 2004). The sites' shares in its variance add up, where in the variance of
importance weights they are multiplied. q, which knows all sites, makes particles look ahead: if the likelihood were its
sites, all weights would be one.

A particle picked by the last weights is a draw from p(f|theta, y) in the extended target, and a conditional estimate
keeps its path through all resampling (Andrieu, Doucet and Holenstein 2010).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pmgp.core.estimators.importance import WeightedParticles, check_positive, log_mean_exp, number_of_draws
from pmgp.core.gaussians import BlockApproximation, Posterior
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.numerics import linalg

__all__ = ["ResampledParticles", "SequentialSampling", "sequential_factor"]


@dataclass(frozen=True, eq=False)
class ResampledParticles(WeightedParticles):
    """An unbiased estimate of p(y|theta) with the particles that are there in the end.

    Attributes
    ----------
    log_evidence : float
        Log of the estimate.
    particles : (draws, n) array
    log_weights : (draws,) array
        Since the last resampling.
    first : (draws,) array of int
        Which of the particles at the beginning each descends from.
    resamplings : int
        How often they were resampled.
    """

    first: np.ndarray
    resamplings: int

    @property
    def effective_size(self) -> float:
        """Of independent weights whose mean has the variance of the whole product, as one run estimates it.

        That is by the weights of particles with a common ancestor (Chan and Lai 2013), with the correction of Lee and
        Whiteley (2018). Without resampling it is what it is for importance samples.
        """
        if not np.isfinite(self.log_evidence):
            return 0.0
        number = len(self.first)
        weights = np.bincount(self.first, self.normalized_weights, minlength=number)
        common = float(weights @ weights)
        if self.resamplings:
            common = 1.0 - (1.0 - common) * (number / (number - 1.0)) ** self.resamplings
        return 1.0 / max(common, 1.0 / number)


@dataclass(frozen=True)
class SequentialSampling:
    """Estimate p(y|theta) by particles that pass the observations group by group and are resampled on the way.

    For posteriors that no Gaussian is near, such as those of many classes with large variances, where one importance
    sample has nearly all the weight. An estimate factorizes a matrix of as many rows as there are latent values.

    Parameters
    ----------
    draws : int
        Number of particles.
    stages : int
        In how many groups the observations are passed, in their order.
    threshold : float
        Particles are resampled where the effective number of them is below this share; zero for never, as in importance
        sampling.

    Raises
    ------
    ValueError
        For numbers that are not positive integers, and a share that is not between 0 and 1.

    References
    ----------
    Andrieu, C., Doucet, A. and Holenstein, R. (2010). Particle Markov chain Monte Carlo methods. Journal of the Royal
    Statistical Society B 72.

    Chan, H. P. and Lai, T. L. (2013). A general theory of particle filters in hidden Markov models and some
    applications. Annals of Statistics 41.

    Del Moral, P. (2004). Feynman-Kac formulae. Springer.

    Lee, A. and Whiteley, N. (2018). Variance estimation in the particle filter. Biometrika 105.
    """

    draws: int = 256
    stages: int = 16
    threshold: float = 0.5

    def __post_init__(self) -> None:
        check_positive(draws=self.draws, stages=self.stages)
        if not 0.0 <= self.threshold <= 1.0:
            raise ValueError(f"threshold is a share between 0 and 1, not {self.threshold!r}")

    @staticmethod
    def require(likelihood: Likelihood) -> None:
        """Refuse a likelihood whose terms are not known one by one.

        Raises
        ------
        ValueError
        """
        # Of graphs it is a function, too, where terms mix latent values of several observations.
        if not (hasattr(likelihood, "log_density") and getattr(likelihood, "separate", True)):
            raise ValueError(
                'SequentialSampling needs a likelihood whose terms are known one by one; use estimator="importance"'
            )

    def estimate(
        self,
        rng: np.random.Generator,
        approximation: Posterior,
        likelihood: Likelihood,
        draws: int | None = None,
    ) -> ResampledParticles:
        """Grow particles and weigh them.

        Parameters
        ----------
        rng : numpy.random.Generator
        approximation : Posterior
        likelihood : Likelihood
        draws : int, optional
            Number of particles in place of the estimator's own.
        """
        return self._passed(rng, _Sites(approximation, likelihood), draws, None)

    def estimate_given(
        self,
        rng: np.random.Generator,
        approximation: Posterior,
        likelihood: Likelihood,
        retained: np.ndarray,
        draws: int | None = None,
    ) -> ResampledParticles:
        """Grow all particles but one, whose path is kept: conditional sequential Monte Carlo.

        Parameters
        ----------
        retained : (n,) array
            The particle that is kept, a draw from p(f|theta, y); first among the new ones.
        """
        return self._passed(rng, _Sites(approximation, likelihood), draws, retained)

    def _passed(
        self, rng: np.random.Generator, sites: _Sites, draws: int | None, retained: np.ndarray | None
    ) -> ResampledParticles:
        number = number_of_draws(self.draws if draws is None else draws)
        normals, particles = rng.standard_normal((number, sites.size)), sites.at_mean(number)
        if retained is not None:
            normals[0] = sites.normals_of(retained)
        log_weights, first = np.zeros(number), np.arange(number)
        log_evidence, resamplings = sites.log_normalizer, 0
        for start, stop in sites.groups(self.stages):
            sites.grow(particles, normals, start, stop)
            log_weights += sites.log_ratios(particles, start, stop)
            uneven = _effective(log_weights) < self.threshold * number
            if not uneven or stop == sites.number:
                continue
            log_evidence += float(log_mean_exp(log_weights))
            chosen = _resampled(rng, log_weights, retained is not None)
            normals[:, : stop * sites.classes] = normals[chosen, : stop * sites.classes]
            particles, first, log_weights = particles[chosen], first[chosen], np.zeros(number)
            resamplings += 1
        if retained is not None:
            # As it came, and not with the rounding of a solution and a product.
            particles[0] = retained.reshape(particles[0].shape)
        log_evidence += float(log_mean_exp(log_weights))
        return ResampledParticles(log_evidence, particles.reshape(number, -1), log_weights, first, resamplings)


def sequential_factor(q: Posterior) -> np.ndarray:
    """Lower Cholesky factor of q's covariance, the latent values of one site after those of the other: (n, n).

    With K = R R' and f = m + R v, v has the precision P = I + R' W R under q, which is well-conditioned where K is not.
    P = U U' with U upper triangular gives R U'^-1: R is lower triangular in this order, too, as K is block-diagonal.
    """
    roots = [np.tril(part.factor) for part in q.prior.parts]
    blocks = q.precision.blocks if isinstance(q, BlockApproximation) else q.precision[:, None, None]
    classes, number = len(roots), len(blocks)
    precision = np.empty((number, classes, number, classes))
    for c, left in enumerate(roots):
        for d, right in enumerate(roots[: c + 1]):
            product = left.T @ (blocks[:, c, d, None] * right)
            precision[:, c, :, d], precision[:, d, :, c] = product, product.T
    square = precision.reshape(q.size, q.size)
    np.einsum("ii->i", square)[:] += 1.0
    # A Cholesky factor from the last row on is one of the matrix turned round.
    turned = linalg.cholesky(np.asfortranarray(square[::-1, ::-1]), overwrite=True)
    inverse = linalg.triangular_solve(turned, np.eye(q.size, order="F"))
    whitened = np.tril(inverse.T[::-1, ::-1]).reshape(number, classes, q.size)
    return np.stack([root @ whitened[:, c] for c, root in enumerate(roots)], axis=1).reshape(q.size, q.size)


class _Sites:
    """Particles of q that grow site by site; of shape (draws, C, n), with n sites of C latent values each."""

    def __init__(self, q: Posterior, likelihood: Likelihood) -> None:
        SequentialSampling.require(likelihood)
        self.likelihood = likelihood
        self.classes, self.number = len(q.prior.parts), q.prior.parts[0].size
        self.size, self.log_normalizer = q.size, q.log_normalizer
        self.mean, self.linear = (x.reshape(self.classes, self.number) for x in (q.mean, q.linear))
        self.precision = q.precision.blocks if isinstance(q, BlockApproximation) else q.precision[:, None, None]
        self.factor = sequential_factor(q)

    def groups(self, stages: int) -> list[tuple[int, int]]:
        """First sites of so many groups, and those after their last; a site each where there are no more."""
        bounds = np.linspace(0, self.number, min(stages, self.number) + 1).round().astype(int).tolist()
        return list(pairwise(bounds))

    def at_mean(self, draws: int) -> np.ndarray:
        return np.tile(self.mean, (draws, 1, 1))

    def normals_of(self, f: np.ndarray) -> np.ndarray:
        """e of f = mean + L e: (C n,) to (C n,)."""
        deviation = (f.reshape(self.mean.shape) - self.mean).T.ravel()
        return linalg.triangular_solve(np.asfortranarray(self.factor), deviation)

    def grow(self, particles: np.ndarray, normals: np.ndarray, start: int, stop: int) -> None:
        """Write the values at sites from `start` to `stop`, of which those before are known by their normals."""
        known = stop * self.classes
        drawn = normals[:, :known] @ self.factor[start * self.classes : known, :known].T
        by_site = drawn.reshape(len(normals), stop - start, self.classes)
        particles[:, :, start:stop] = self.mean[:, start:stop] + by_site.swapaxes(1, 2)

    def log_ratios(self, particles: np.ndarray, start: int, stop: int) -> np.ndarray:
        """Log of the likelihood over the sites from `start` to `stop`: (draws,)."""
        terms = self.likelihood.log_density(particles.reshape(len(particles), -1))[:, start:stop]  # type: ignore[attr-defined]
        here = particles[:, :, start:stop]
        sites = np.einsum("kci,ci->ki", here, self.linear[:, start:stop])
        sites -= 0.5 * np.einsum("kci,icd,kdi->ki", here, self.precision[start:stop], here, optimize=True)
        ratios = (terms - sites).sum(axis=1)
        return np.where(np.isnan(ratios), -np.inf, ratios)


def _effective(log_weights: np.ndarray) -> float:
    """Effective number of particles by their weights; that of all where every weight vanishes."""
    largest = log_weights.max()
    if not np.isfinite(largest):
        return float(len(log_weights))
    weights = np.exp(log_weights - largest)
    return float(weights.sum() ** 2 / (weights @ weights))


def _resampled(rng: np.random.Generator, log_weights: np.ndarray, keeps_first: bool) -> np.ndarray:
    """Ancestors, each drawn by the weights; the first particle's is itself where its path is kept."""
    weights = np.exp(log_weights - log_weights.max())
    sums = np.cumsum(weights / weights.sum())
    chosen = np.minimum(sums.searchsorted(rng.random(len(weights)), side="right"), len(weights) - 1)
    if keeps_first:
        chosen[0] = 0
    return chosen
