"""Importance sampling of all latent vectors but one, which is normal given the others and is integrated out exactly.

With a process for the mean of a normal observation and one for the logarithm of its scale, p(y|g) is a normal density
for each draw g of the log-scale: f is integrated out by regression. The weights p(y|g) p(g) / q(g) vary far less than
those of draws of (f, g), whose spread in f follows the scale (Rao-Blackwell). Given a g that is picked by weight, f is
drawn from p(f|g, y). Where f can pass through observations, g is as uncertain as in the prior, and far from q: every
eighth draw is from the prior, and q(g) is the mixture.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pmgp.core.estimators.importance import (
    CompletedParticles,
    WeightedParticles,
    check_draws,
    log_mean_exp,
    number_of_draws,
)
from pmgp.core.estimators.integrated_vector import IntegratedVector
from pmgp.core.gaussians import BlockApproximation
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.numerics.arrays import check_whole

# One of so many draws is from the prior, and one at least if there are several.
WIDE = 8


@dataclass(frozen=True)
class RaoBlackwellSampling:
    """An estimator of p(y|theta) for several processes, one of which is normal given the others and the data.

    That is the process for the mean of normal observations. It is integrated out exactly, for each importance sample of
    the others. Such a sample takes a factorization, but a few dozen of them do the work of hundreds or thousands of
    samples of all processes.

    Parameters
    ----------
    draws : int or "auto"
        Number of importance samples. ``"auto"`` lets the scheme choose it at the end of tuning from the measured spread
        of the log-estimates.
    vector : int
        The process that is integrated out, counted from zero in the order of the model.
    antithetic : bool
        Whether to draw pairs that are mirror images about q's mean. This needs an even number of draws, or one.
    slices : int
        Moves of the other processes, with this one integrated out, before the draws are renewed. They take a chain out
        of regions in which weights are large. Each takes a few factorizations.

    Raises
    ------
    ValueError
        If `draws` is not a positive integer or "auto", or is odd and above one with antithetic draws, or for a negative
        number of slices.

    References
    ----------
    Nishihara, R., Murray, I. and Adams, R. P. (2014). Parallel MCMC with generalized elliptical slice sampling. Journal
    of Machine Learning Research 15, 2087-2112.

    Examples
    --------
    >>> import numpy as np, pmgp, pymc as pm
    >>> X, y = np.linspace(0.0, 1.0, 20)[:, None], np.random.default_rng(1).normal(size=20)
    >>> with pm.Model():
    ...     gp = pm.gp.Latent(cov_func=pm.HalfNormal("scale") ** 2 * pm.gp.cov.Matern52(1, ls=0.3))
    ...     f, g = (gp.prior(name, X=X, reparameterize=False) for name in "fg")
    ...     y = pm.Normal("y", f, pm.math.exp(g), observed=y)
    ...     step = pmgp.PseudoMarginal(estimator=pmgp.estimators.RaoBlackwellSampling(draws=32))
    """

    draws: int | str = 64
    vector: int = 0
    antithetic: bool = True
    slices: int = 4
    calibration_pool: ClassVar[int] = 256

    def __post_init__(self) -> None:
        check_draws(self.draws, self.antithetic)
        check_whole(0, slices=self.slices, vector=self.vector)

    def estimate(
        self, rng: np.random.Generator, approximation: Any, likelihood: Likelihood, draws: int | None = None
    ) -> CompletedParticles:
        """Return an estimate from draws of q and of the prior; `draws` is used if the own number is "auto"."""
        number = number_of_draws(self.draws if draws is None else draws)
        drawn = self._drawn(rng, approximation, number)
        return _weighed(IntegratedVector(approximation, likelihood, self.vector), drawn)

    def estimate_given(
        self,
        rng: np.random.Generator,
        approximation: Any,
        likelihood: Likelihood,
        retained: np.ndarray,
        draws: int | None = None,
    ) -> CompletedParticles:
        """Return an estimate in which the other vectors of one particle are kept, with their mirror image.

        See `ImportanceSampling.estimate_given`. The particle takes the place of a draw of q or of the prior, with the
        probability that it is one.
        """
        number = number_of_draws(self.draws if draws is None else draws)
        integrated = IntegratedVector(approximation, likelihood, self.vector)
        kept = retained - approximation.mean
        for direction in approximation.sample_deviations(rng, self.slices):
            kept = integrated.sliced(rng, kept, direction)
        drawn = self._drawn(rng, approximation, number)
        drawn.keep(rng, integrated, approximation.mean + kept)
        return _weighed(integrated, drawn)

    def _drawn(self, rng: np.random.Generator, q: BlockApproximation, number: int) -> _Drawn:
        paired = self.antithetic and number > 1
        size = number // 2 if paired else number
        wide = np.arange(size) % WIDE == WIDE - 1
        wide[-1] |= size > 1 and not wide.any()
        deviations = np.empty((size, len(q.mean)))
        deviations[~wide] = q.sample_deviations(rng, int((~wide).sum()))
        deviations[wide] = q.prior.sample_deviations(rng, int(wide.sum()))
        return _Drawn(wide, np.where(wide[:, None], q.prior.mean, q.mean), deviations, paired)


def _weighed(integrated: IntegratedVector, drawn: _Drawn) -> CompletedParticles:
    f = drawn.particles
    logs = integrated.log_weights(f, drawn.share)
    return CompletedParticles(WeightedParticles(float(log_mean_exp(logs)), f, logs), integrated)


class _Drawn(NamedTuple):
    """Draws of all vectors, most from q and every eighth from the prior, which bounds the weights.

    - `wide` (k,): whether a draw is from the prior
    - `center`, `deviation` (k, C n): the mean of the distribution that a draw is from, and its deviation
    - `paired`: whether each draw has a mirror image
    """

    wide: np.ndarray
    center: np.ndarray
    deviation: np.ndarray
    paired: bool

    @property
    def share(self) -> float:
        """The share of draws from the prior."""
        return float(self.wide.mean())

    def keep(self, rng: np.random.Generator, integrated: IntegratedVector, f: np.ndarray) -> None:
        """Put a particle, (C n,), in the place of the first draw of its kind."""
        of_prior = self.share > 0.0 and integrated.is_of_prior(rng, f, self.share)
        place = int(np.argmax(self.wide == of_prior))
        self.deviation[place] = f - self.center[place]

    @property
    def particles(self) -> np.ndarray:
        """The draws, followed by their mirror images: (k, C n) or (2 k, C n)."""
        f = self.center + self.deviation
        return np.concatenate([f, self.center - self.deviation]) if self.paired else f
