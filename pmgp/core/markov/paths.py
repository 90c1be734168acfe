"""Sequential Monte Carlo along a sparse precision: particles of q are weighted group by group while they are drawn.

As in `core.estimators.sequential`, where q is dense, the product of the mean weights is an unbiased estimate of
p(y|theta), and particles look ahead because q knows all sites. In one dimension an estimate is O(n). There a retained
path gets new ancestors; otherwise its end would hardly ever move.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pmgp.core.estimators.importance import check_draws, log_mean_exp, number_of_draws
from pmgp.core.estimators.sequential import ResampledParticles, ancestors, effective_number
from pmgp.core.likelihoods.base import Divisible, Likelihood
from pmgp.core.markov.coupled import CoupledPosterior
from pmgp.core.markov.prior import PrecisionPosterior
from pmgp.core.markov.walks import Walk
from pmgp.core.numerics.arrays import check_fraction, check_whole


@dataclass(frozen=True, eq=False)
class SampledPaths:
    """An unbiased estimate of p(y|theta), with the particles' paths.

    `log_weights` (draws,): logarithms of the weights since the last resampling; `first` (draws,) of int: the particle
    at the beginning from which each particle descends; `resamplings`: number of resamplings.
    """

    log_evidence: float
    log_weights: np.ndarray
    first: np.ndarray
    resamplings: int
    approximation: PrecisionPosterior | CoupledPosterior
    walk: Walk

    @property
    def effective_size(self) -> float:
        """Number of independent weights whose mean has the variance of this estimate; see `ResampledParticles`."""
        return self._resampled.effective_size

    @property
    def _resampled(self) -> ResampledParticles:
        # The positions are the numbers of the particles, so that `choose` returns one of them.
        index = np.arange(len(self.first))[:, None]
        return ResampledParticles(self.log_evidence, index, self.log_weights, self.first, self.resamplings)

    def choose(self, rng: np.random.Generator) -> np.ndarray:
        """Return f of one particle, which is chosen by its weight: (n,)."""
        q, chosen = self.approximation, int(self._resampled.choose(rng)[0])
        return q.mean + q.prior.pattern.observe(self.walk.path(chosen))


@dataclass(frozen=True)
class PathSampling:
    """An estimator of p(y|theta) with particles that are drawn backwards, and weighted and resampled on the way.

    Parameters
    ----------
    draws : int or "auto"
        Number of particles. ``"auto"`` lets the scheme choose it.
    width : int
        Number of sites, or of elements of x on a general pattern, that are passed at a time.
    threshold : float
        Particles are resampled when their effective number is below this share of all; zero means never.

    Raises
    ------
    ValueError
        For numbers that are not positive integers, and a threshold that is not between 0 and 1.

    References
    ----------
    Lindsten, F., Jordan, M. I. and Schon, T. B. (2014). Particle Gibbs with ancestor sampling. Journal of Machine
    Learning Research 15.

    Examples
    --------
    >>> import numpy as np, pmgp, pymc as pm
    >>> with pm.Model():
    ...     rho = pm.Uniform("rho", -1.0, 1.0)
    ...     x = pm.AR("x", rho=rho, sigma=1.0, init_dist=pm.Normal.dist(0.0, 2.0), shape=30)
    ...     y = pm.Poisson("y", pm.math.exp(x), observed=np.arange(30) % 3)
    ...     step = pmgp.PseudoMarginal(estimator=pmgp.estimators.PathSampling(draws=64))
    """

    draws: int | str = "auto"
    width: int = 256
    threshold: float = 0.5
    calibration_draws: ClassVar[int] = 128
    calibration_repeats: ClassVar[int] = 8

    def __post_init__(self) -> None:
        check_draws(self.draws, antithetic=False)
        check_whole(width=self.width)
        check_fraction(threshold=self.threshold)

    @staticmethod
    def require(likelihood: Likelihood) -> None:
        """Raise an error if the likelihood cannot evaluate the terms of only some observations.

        Raises
        ------
        ValueError
        """
        if not isinstance(likelihood, Divisible):
            raise ValueError(
                f"PathSampling needs the terms of some observations without the others, which {likelihood!r} does not "
                'offer; use estimator="importance"'
            )

    def estimate(
        self,
        rng: np.random.Generator,
        approximation: PrecisionPosterior | CoupledPosterior,
        likelihood: Likelihood,
        draws: int | None = None,
    ) -> SampledPaths:
        """Draw and weight particles; `draws` replaces the estimator's own number."""
        return self._walked(rng, approximation, likelihood, draws, None)

    def estimate_given(
        self,
        rng: np.random.Generator,
        approximation: PrecisionPosterior | CoupledPosterior,
        likelihood: Likelihood,
        retained: np.ndarray,
        draws: int | None = None,
    ) -> SampledPaths:
        """Draw and weight all particles but one, whose path is kept (conditional sequential Monte Carlo).

        Parameters
        ----------
        retained : (n,) array
            f of the kept particle, a draw from p(f|theta, y); elements of x that f does not determine are drawn.
        """
        return self._walked(rng, approximation, likelihood, draws, approximation.deviation_given(rng, retained))

    def _walked(
        self,
        rng: np.random.Generator,
        q: PrecisionPosterior | CoupledPosterior,
        likelihood: Likelihood,
        draws: int | None,
        kept: np.ndarray | None,
    ) -> SampledPaths:
        self.require(likelihood)
        number = number_of_draws(self.draws if draws is None else draws)
        walk = q.prior.pattern.walk(q.shrinkage.factor, number, self.width, kept)
        log_weights, first, log_evidence, resamplings = np.zeros(number), np.arange(number), q.log_normalizer, 0
        for group in walk.groups:
            ratios = q.log_ratios_of(likelihood, group.sites, walk.grow(rng, group))
            log_weights += np.where(np.isnan(ratios), -np.inf, ratios)
            if group is not walk.groups[-1] and effective_number(log_weights) < self.threshold * number:
                log_evidence += float(log_mean_exp(log_weights))
                chosen = ancestors(rng, log_weights, kept is not None)
                walk.resample(rng, group, chosen, log_weights)
                first, log_weights, resamplings = first[chosen], np.zeros(number), resamplings + 1
        log_evidence += float(log_mean_exp(log_weights))
        return SampledPaths(log_evidence, log_weights, first, resamplings, q, walk)
