"""Sequential Monte Carlo over the observations: particles from q, resampled between groups of sites.

Let L be the Cholesky factor of q's covariance, and f = mean + L e. The first elements of f depend only on the first
elements of e, so particles grow group by group (`SiteGroups`), and each group is weighted with the ratio of its
likelihood and sites. When the weights have become uneven, particles are resampled, and continue with new normals. The
product of the mean weights is an unbiased estimate of p(y|theta) (Del Moral 2004). The sites' contributions to its
variance add, whereas those to the variance of importance weights multiply. Through q, which knows all sites, particles
look ahead: if the likelihood were equal to the sites, all weights would be one.

A particle picked by the last weights is a draw from p(f|theta, y) in the extended target, and a conditional estimate
keeps its path through all resampling (Andrieu, Doucet and Holenstein 2010).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from pmgp.core.estimators.base import Size
from pmgp.core.estimators.importance import (
    WeightedParticles,
    check_draws,
    log_mean_exp,
    number_of_draws,
)
from pmgp.core.estimators.work import (
    BLOCK_TERM,
    SEQUENTIAL_CALL,
    SEQUENTIAL_ELEMENT,
    SEQUENTIAL_FACTOR,
    SEQUENTIAL_VALUE,
)
from pmgp.core.gaussians import Group, Posterior, SiteGroups
from pmgp.core.likelihoods.base import Divisible, Likelihood
from pmgp.core.numerics.arrays import check_fraction, check_whole
from pmgp.core.numerics.block_matrices import flat
from pmgp.core.numerics.storable import storable


@dataclass(frozen=True, eq=False)
class ResampledParticles(WeightedParticles):
    """An unbiased estimate of p(y|theta) with the final particles.

    `log_evidence`: log of the estimate; `particles` (draws, n); `log_weights` (draws,): log-weights since the last
    resampling; `first` (draws,) of int: index of each particle's ancestor among the initial particles; `resamplings`:
    number of resampling steps.
    """

    first: np.ndarray
    resamplings: int

    @property
    def effective_size(self) -> float:
        """The number of independent weights whose mean would have the variance of the product.

        It is estimated from one run, from the weights of particles with a common ancestor (Chan and Lai 2013), with the
        correction of Lee and Whiteley (2018). Without resampling it is that of importance samples.
        """
        if not np.isfinite(self.log_evidence):
            return 0.0
        number = len(self.first)
        weights = np.bincount(self.first, self.normalized_weights, minlength=number)
        common = float(weights @ weights)
        if self.resamplings:
            common = 1.0 - (1.0 - common) * (number / (number - 1.0)) ** self.resamplings
        return 1.0 / max(common, 1.0 / number)


@storable
@dataclass(frozen=True)
class SequentialSampling:
    """An estimator of p(y|theta) with particles that grow by groups of observations and are resampled between groups.

    It is for posteriors that are far from any Gaussian, such as those of many classes with large variances, where one
    importance sample has nearly all the weight. For each q a matrix with a row for each latent value is factorized.

    Parameters
    ----------
    draws : int or "auto"
        Number of particles. ``"auto"`` lets the scheme choose it at the end of tuning from the measured spread of the
        log-estimates.
    stages : int
        Number of groups of observations, in their order.
    threshold : float
        Particles are resampled if their effective number is below this fraction of their number; with zero, never, as
        in importance sampling.

    Raises
    ------
    ValueError
        For numbers that are not positive integers, and for a threshold that is not between 0 and 1.

    References
    ----------
    Andrieu, C., Doucet, A. and Holenstein, R. (2010). Particle Markov chain Monte Carlo methods. Journal of the Royal
    Statistical Society B 72.

    Chan, H. P. and Lai, T. L. (2013). A general theory of particle filters in hidden Markov models and some
    applications. Annals of Statistics 41.

    Del Moral, P. (2004). Feynman-Kac formulae. Springer.

    Lee, A. and Whiteley, N. (2018). Variance estimation in the particle filter. Biometrika 105.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> X = np.linspace(0.0, 1.0, 15)[:, None]
    >>> with pmgp.models.multiclass_classifier(X, np.arange(15) // 5, ["a", "b", "c"]):
    ...     step = pmgp.PseudoMarginal(estimator=pmgp.estimators.SequentialSampling(draws=128))
    """

    draws: int | str = "auto"
    stages: int = 16
    threshold: float = 0.5
    calibration_draws: ClassVar[int] = 128
    calibration_repeats: ClassVar[int] = 8

    def __post_init__(self) -> None:
        check_draws(self.draws, antithetic=False)
        check_whole(stages=self.stages)
        check_fraction(threshold=self.threshold)

    @staticmethod
    def require(likelihood: Likelihood) -> None:
        """Refuse a likelihood whose terms cannot be evaluated one by one.

        Raises
        ------
        ValueError
        """
        # Likelihoods from graphs have this function even where terms mix latent values of several observations.
        if not (hasattr(likelihood, "log_density") and getattr(likelihood, "separate", True)):
            raise ValueError(
                "SequentialSampling needs a likelihood whose terms can be evaluated one by one; use "
                'estimator="importance"'
            )

    def work(self, size: Size, draws: int) -> float:
        """Return the work of the factor, of triangles for all values and each vector, and of the terms; see `Priced`.

        A likelihood that is not divisible is evaluated as a whole for each group.
        """
        n, vectors, divisible = size
        value = SEQUENTIAL_VALUE + (0.0 if divisible else BLOCK_TERM * self.stages)
        triangles = (1.0 + 1.0 / vectors) * n**2
        factor = SEQUENTIAL_FACTOR * n**3 + SEQUENTIAL_ELEMENT * n**2
        return factor + (triangles + value * n) * draws + SEQUENTIAL_CALL

    def estimate(
        self, rng: np.random.Generator, approximation: Posterior, likelihood: Likelihood, draws: int | None = None
    ) -> ResampledParticles:
        """Return an estimate from particles that grow group by group; `draws` is used if the own number is "auto"."""
        return self._passed(rng, approximation, likelihood, draws, None)

    def estimate_given(
        self,
        rng: np.random.Generator,
        approximation: Posterior,
        likelihood: Likelihood,
        retained: np.ndarray,
        draws: int | None = None,
    ) -> ResampledParticles:
        """Return an estimate in which one particle keeps its path, by conditional sequential Monte Carlo.

        Parameters
        ----------
        retained : (n,) array
            The particle that is kept, a draw from p(f|theta, y); first among the new ones.
        """
        return self._passed(rng, approximation, likelihood, draws, retained)

    def _passed(
        self,
        rng: np.random.Generator,
        q: Posterior,
        likelihood: Likelihood,
        draws: int | None,
        retained: np.ndarray | None,
    ) -> ResampledParticles:
        self.require(likelihood)
        number, sites = number_of_draws(self.draws if draws is None else draws), q.site_groups(self.stages)
        kept = None if retained is None else _Kept(sites.whitened(retained), retained.reshape(sites.mean.shape))
        whitened = np.empty((len(sites.mean), number, sites.mean.shape[1]))
        log_weights, first, log_evidence = np.zeros(number), np.arange(number), sites.log_normalizer
        passed: list[_Passed] = []
        for group in sites.groups:
            values = _grown(rng, sites, group, whitened, kept)
            log_weights += _log_ratios(likelihood, sites, group, values)
            chosen = None
            if effective_number(log_weights) < self.threshold * number and group is not sites.groups[-1]:
                log_evidence += float(log_mean_exp(log_weights))
                chosen = ancestors(rng, log_weights, retained is not None)
                whitened[:, :, : group.stop] = whitened[:, chosen, : group.stop]
                first, log_weights = first[chosen], np.zeros(number)
            passed.append(_Passed(values, chosen))
        log_evidence += float(log_mean_exp(log_weights))
        resamplings = sum(chosen is not None for _, chosen in passed)
        return ResampledParticles(log_evidence, _paths(passed), log_weights, first, resamplings)


class _Kept(NamedTuple):
    """The particle that is retained: v and f, (C, n) arrays."""

    whitened: np.ndarray
    values: np.ndarray


class _Passed(NamedTuple):
    """A group's addition to the particles: values (draws, C, s), and the chosen indices if they were resampled."""

    values: np.ndarray
    chosen: np.ndarray | None


def _grown(
    rng: np.random.Generator, sites: SiteGroups, group: Group, whitened: np.ndarray, kept: _Kept | None
) -> np.ndarray:
    """Add a group to all particles, the first as in the kept one, and return the values in it: (draws, C, s)."""
    vectors, draws, _ = whitened.shape
    sites.grow(group, whitened, rng.standard_normal((draws, vectors * (group.stop - group.start))))
    if kept is not None:
        whitened[:, 0, group.where] = kept.whitened[:, group.where]
    values = sites.values(group, whitened)
    if kept is not None:
        # The given values, without the rounding errors of a solution and a product.
        values[0] = kept.values[:, group.where]
    return values


def _log_ratios(likelihood: Likelihood, sites: SiteGroups, group: Group, values: np.ndarray) -> np.ndarray:
    """Return the log of the likelihood over the sites in a group: (draws,)."""
    if isinstance(likelihood, Divisible):
        terms = likelihood.subset(group.where).log_likelihood(flat(values))
    else:
        f = np.tile(sites.mean, (len(values), 1, 1))
        f[:, :, group.where] = values
        terms = likelihood.log_density(flat(f))[:, group.where].sum(axis=1)  # type: ignore[attr-defined]
    ratios = terms - group.log_sites(values)
    return np.where(np.isnan(ratios), -np.inf, ratios)


def _paths(passed: list[_Passed]) -> np.ndarray:
    """Return particles, each traced back through its ancestors: (draws, C n)."""
    index, found = np.arange(len(passed[0].values)), []
    for values, chosen in reversed(passed):
        index = index if chosen is None else chosen[index]
        found.append(values[index])
    return flat(np.concatenate(found[::-1], axis=2))


def effective_number(log_weights: np.ndarray) -> float:
    """Return the effective number of particles from their weights, or their number if every weight vanishes."""
    largest = log_weights.max()
    if not np.isfinite(largest):
        return float(len(log_weights))
    weights = np.exp(log_weights - largest)
    return float(weights.sum() ** 2 / (weights @ weights))


def ancestors(rng: np.random.Generator, log_weights: np.ndarray, keeps_first: bool) -> np.ndarray:
    """Return ancestors drawn by weight; the first particle is its own ancestor if its path is kept."""
    weights = np.exp(log_weights - log_weights.max())
    sums = np.cumsum(weights / weights.sum())
    chosen = np.minimum(sums.searchsorted(rng.random(len(weights)), side="right"), len(weights) - 1)
    if keeps_first:
        chosen[0] = 0
    return chosen
