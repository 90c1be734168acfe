"""Importance sampling from q(f): equation 25 of the pseudo-marginal article.

Draws are antithetic pairs mu + e, mu - e. Each has density q, so the estimate stays unbiased and a particle picked by
its weight is still an exact draw. The cubic term of the log-weights, which dominates in Laplace's approximation, has
opposite signs in the two, and half of the linear algebra is saved.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any, ClassVar, Protocol

import numpy as np

from pmgp.core.estimators.base import Size
from pmgp.core.estimators.work import BLOCK_TERM, IMPORTANCE_CALL, TERM
from pmgp.core.gaussians import Posterior
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.numerics.arrays import is_whole
from pmgp.core.numerics.compiled.loading import compiled, vectors


@dataclass(frozen=True, eq=False)
class WeightedParticles:
    """An unbiased estimate of p(y|theta) with the particles from which it was made.

    `log_evidence`: log of the estimate; `particles` (draws, n); `log_weights` (draws,).
    """

    log_evidence: float
    particles: np.ndarray
    log_weights: np.ndarray

    @classmethod
    def weighed(cls, particles: np.ndarray, log_weights: np.ndarray) -> WeightedParticles:
        """Return the estimate from particles (draws, n) and log-weights (draws,): the mean of the weights."""
        weights = np.empty(len(log_weights))
        log_evidence = compiled("importance.normalized")(*vectors(log_weights), weights)
        return cls.of(log_evidence, particles, log_weights, weights)

    @classmethod
    def of(
        cls, log_evidence: float, particles: np.ndarray, log_weights: np.ndarray, weights: np.ndarray
    ) -> WeightedParticles:
        """Return the estimate with normalized weights that are already known."""
        estimate = object.__new__(cls)
        # This is faster than the constructor, which sets frozen fields one by one.
        estimate.__dict__.update(
            log_evidence=log_evidence, particles=particles, log_weights=log_weights, normalized_weights=weights
        )
        return estimate

    @cached_property
    def normalized_weights(self) -> np.ndarray:
        """The weights, normalized to sum to one."""
        weights = np.exp(self.log_weights - self.log_weights.max())
        return weights / weights.sum()

    @property
    def effective_size(self) -> float:
        """The effective number of importance samples, between 1 and their number; 0 if all weights vanish."""
        if not isfinite(self.log_evidence):
            return 0.0
        weights = self.normalized_weights
        return 1.0 / float(weights.dot(weights))

    def choose(self, rng: np.random.Generator) -> np.ndarray:
        """Return a particle picked with probability proportional to its weight: an (n,) array."""
        return self.particles[compiled("renewal.picked")(self.normalized_weights, rng.random())]


class Completion(Protocol):
    """The distribution of f given a particle of other variables."""

    def draw(self, rng: np.random.Generator, particle: np.ndarray) -> np.ndarray:
        """Return a draw of f: (n,)."""


@dataclass(frozen=True, eq=False)
class CompletedParticles:
    """An unbiased estimate of p(y|theta) with particles of other variables, given which f can be drawn exactly.

    `weighted`: these particles; `given`: the distribution of f given one of them.
    """

    weighted: WeightedParticles
    given: Completion

    @property
    def log_evidence(self) -> float:
        """The log of the estimate."""
        return self.weighted.log_evidence

    @property
    def log_weights(self) -> np.ndarray:
        """The logarithms of the weights: (draws,)."""
        return self.weighted.log_weights

    @property
    def effective_size(self) -> float:
        """The effective number of draws, between 1 and their number; 0 if all weights vanish."""
        return self.weighted.effective_size

    def choose(self, rng: np.random.Generator) -> np.ndarray:
        """Return a draw of f given a particle that is picked with probability proportional to its weight: (n,)."""
        return self.given.draw(rng, self.weighted.choose(rng))


@dataclass(frozen=True)
class ImportanceSampling:
    """An estimator of p(y|theta) by the mean of ``p(y|f) p(f|theta) / q(f)`` over draws from q.

    Parameters
    ----------
    draws : int or "auto"
        Number of importance samples N_imp. ``"auto"`` lets the scheme choose it at the end of tuning from the
        measured spread of the log-estimates.
    antithetic : bool
        Whether to draw pairs that are mirror images about q's mean. This needs an even number of draws, or one.

    Raises
    ------
    ValueError
        If `draws` is not a positive integer or "auto", or is odd and above one with antithetic draws.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> with pmgp.models.classifier(X, X[:, 0] > 0.5):
    ...     step = pmgp.PseudoMarginal(estimator=pmgp.estimators.ImportanceSampling(draws=64))
    """

    draws: int | str = "auto"
    antithetic: bool = True
    calibration_pool: ClassVar[int] = 1024

    def __post_init__(self) -> None:
        check_draws(self.draws, self.antithetic)

    def _paired(self, draws: int) -> bool:
        return self.antithetic and draws > 1

    def work(self, size: Size, draws: int) -> float:
        """Return the work of matrix products with each deviation from q's mean, and of the terms; see `Priced`.

        For one latent vector, a deviation is multiplied by a factor and by K, and needs a solve. For several, each
        vector needs the last two twice, and one solve is common to all.
        """
        n, vectors, _ = size
        deviations = draws / 2 if self._paired(draws) else draws
        if vectors == 1:
            return 5.0 * n**2 * deviations + TERM * n * draws + IMPORTANCE_CALL
        products = (9.0 / vectors + 2.0 / vectors**2) * n**2
        return products * deviations + BLOCK_TERM * n * draws + IMPORTANCE_CALL

    def estimate(
        self, rng: np.random.Generator, approximation: Posterior, likelihood: Likelihood, draws: int | None = None
    ) -> WeightedParticles:
        """Return an estimate from particles drawn from q; `draws` is used if the own number is "auto"."""
        draws = number_of_draws(self.draws if draws is None else draws)
        paired = self._paired(draws)
        size = draws // 2 if paired else draws
        found = approximation.estimated(rng, likelihood, size, paired)
        if found is not None:
            return WeightedParticles.of(*found)
        return _weighed(approximation, likelihood, approximation.sample_deviations(rng, size), paired)

    def redrawn(self, draws: int) -> int:
        """Return the number of draws from q that a conditional estimate needs, besides the retained particle."""
        return draws // 2 - 1 if self._paired(draws) else draws - 1

    def estimate_given(
        self,
        rng: np.random.Generator,
        approximation: Posterior,
        likelihood: Likelihood,
        retained: np.ndarray,
        draws: int | None = None,
    ) -> WeightedParticles:
        """Return an estimate in which one particle is kept, with its mirror image, and the others are redrawn.

        If `retained` is from p(f|theta, y), the result is a draw from the extended target of the pseudo-marginal
        chain given theta and that particle (conditional importance sampling, as in particle Gibbs). So it may replace
        the stored estimate, in a Gibbs update that leaves the posterior of theta invariant.

        Parameters
        ----------
        retained : (n,) array
            The particle that is kept, first among the new ones.
        """
        draws = number_of_draws(self.draws if draws is None else draws)
        deviations = approximation.sample_deviations(rng, self.redrawn(draws))
        return self._from(approximation, likelihood, retained, deviations, self._paired(draws))

    def estimate_from(
        self, approximation: Posterior, likelihood: Likelihood, retained: np.ndarray, deviations: np.ndarray
    ) -> WeightedParticles:
        """Return the estimate of :meth:`estimate_given` from given draws from q less its mean: (redrawn, n)."""
        return self._from(approximation, likelihood, retained, deviations, self.antithetic)

    def _from(
        self,
        approximation: Posterior,
        likelihood: Likelihood,
        retained: np.ndarray,
        deviations: np.ndarray,
        paired: bool,
    ) -> WeightedParticles:
        deviations = np.concatenate([(retained - approximation.mean)[None, :], deviations])
        return _weighed(approximation, likelihood, deviations, paired)


def check_draws(draws: int | str, antithetic: bool) -> None:
    """Refuse a value that is not a number of draws or "auto"."""
    if draws == "auto":
        return
    if not is_whole(draws):
        raise ValueError(f'draws must be a positive integer or "auto", not {draws!r}')
    if antithetic and draws != 1 and int(draws) % 2:
        raise ValueError(f"antithetic draws come in pairs: draws={draws} is odd; use an even number")


def number_of_draws(draws: int | str) -> int:
    """Return the number of draws; refuse "auto"."""
    if isinstance(draws, str):
        raise ValueError('draws="auto" needs a scheme that chooses the number of importance samples')
    return int(draws)


def _weighed(q: Posterior, likelihood: Likelihood, deviations: np.ndarray, paired: bool) -> WeightedParticles:
    """Return the estimate from the mean plus deviations, which are rows, and from the mean minus them if `paired`."""
    found = q.weighed(likelihood, deviations, paired)
    if found is not None:
        return WeightedParticles.of(*found)
    number = len(deviations)
    particles = np.empty((2 * number if paired else number, len(q.mean)))
    np.add(q.mean, deviations, out=particles[:number])
    if paired:
        np.subtract(q.mean, deviations, out=particles[number:])
    log_weights = q.log_weights(likelihood, particles)
    return WeightedParticles.weighed(particles, np.where(np.isnan(log_weights), -np.inf, log_weights))


def renewed(
    rng: np.random.Generator,
    particle: np.ndarray,
    q: Posterior,
    likelihood: Likelihood,
    estimator: Any,
    draws: int | None,
) -> tuple[np.ndarray, WeightedParticles, np.ndarray] | None:
    """Move a draw of f by a slice and estimate given it, in one kernel, or return None if there is no kernel for that.

    It returns the moved draw, the estimate whose first particle it is, and a particle picked by weight, each of shape
    (n,). The kernel uses random numbers in the order of the separate steps.
    """
    # An estimator derived from this one may make other estimates.
    if type(estimator) is not ImportanceSampling:
        return None
    number = number_of_draws(estimator.draws if draws is None else draws)
    found = q.renewed(rng, particle, likelihood, number, estimator.antithetic and number > 1)
    return None if found is None else (found[0], WeightedParticles.of(*found[1]), found[2])


def log_mean_exp(values: np.ndarray) -> np.ndarray:
    """Return the log of the mean of exp(values) along the last axis, without overflow: (..., k) -> (...)."""
    largest = np.max(values, axis=-1, keepdims=True)
    if not np.isfinite(largest).all():
        largest = np.where(np.isfinite(largest), largest, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(values - largest).mean(axis=-1)) + largest[..., 0]
