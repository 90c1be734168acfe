"""Annealed importance sampling: section IV of the annealing article (Neal 2001).

The densities q(f) r(f)^beta bridge a Gaussian reference q and the posterior, where r is the likelihood over q's sites,
or the whole likelihood if the prior is the reference. Particles start at q and make one elliptical slice move at each
beta; the weights, r(f)^(increase of beta) multiplied over the path, are far more even than r(f) itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pmgp.core.estimators.importance import WeightedParticles, log_mean_exp
from pmgp.core.gaussians import Gaussian, Posterior
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.numerics.arrays import check_whole
from pmgp.core.transitions.parallel_slices import slices_on_ellipses

# Section V of the article: half of the temperatures are above MIDDLE, half between it and COLDEST.
MIDDLE, COLDEST = 0.2, 1e-6
# Default number of auxiliary draws of a particle, by its start. In measurements with a good q, three give log p^ the
# same spread as a fresh draw for every move. With Laplace's q on rough data the spread is up to a fifth larger, in
# half the time. From the prior, which is far from the posterior, few draws are not enough.
ELLIPSES = {"approximation": 3, "prior": 64}


def annealing_schedule(n: int) -> np.ndarray:
    """Return the article's temperatures for n latent values: about sqrt(n) values that increase from 0 to 1.

    With s = sqrt(n), there are s/2 - 1 values uniform in log beta from 1 down to 0.2, s/2 from 0.2 down to 1e-6, and 0.

    Examples
    --------
    >>> from pmgp.core.estimators import annealing_schedule
    >>> schedule = annealing_schedule(100)
    >>> len(schedule), float(schedule[0]), float(schedule[-1])
    (9, 0.0, 1.0)
    """
    half = max(2, round(0.5 * np.sqrt(n)))
    upper = np.geomspace(1.0, MIDDLE, half - 1)
    lower = np.geomspace(MIDDLE, COLDEST, half)
    return np.unique(np.concatenate([[0.0], lower, upper]))


@dataclass(frozen=True)
class AnnealedImportanceSampling:
    """An unbiased estimator of p(y|theta) with particles that are annealed from q, or the prior, to the posterior.

    Parameters
    ----------
    start : {"approximation", "prior"}
        The distribution in which particles start. The prior needs many more temperatures.
    temperatures : sequence of float, optional
        Increasing values from 0 to 1; :func:`annealing_schedule` by default. With expectation propagation's q its upper
        half, from 0.2 on, is nearly as good at half the cost.
    draws : int
        Number of particles N_imp.
    ellipses : int, optional
        Number of auxiliary draws, O(n^2) each, for the ellipses on which a particle moves. Its moves use them in turn.
        A move rotates particle and auxiliary together, after which the auxiliary is again an independent draw from the
        reference, so the estimate is unbiased with any number. The article uses one for each move. The default is three
        with the approximation, and 64 with the prior.

    Raises
    ------
    ValueError
        For an unknown start, temperatures that do not increase from 0 to 1, or a number that is not positive.

    References
    ----------
    Neal, R. M. (2001). Annealed importance sampling. Statistics and Computing 11.

    Filippone, M. (2014). Bayesian inference for Gaussian process classifiers with annealing and pseudo-marginal MCMC.
    ICPR.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> with pmgp.models.classifier(X, X[:, 0] > 0.5):
    ...     step = pmgp.PseudoMarginal(estimator=pmgp.estimators.AnnealedImportanceSampling(draws=32))
    """

    start: str = "approximation"
    temperatures: Sequence[float] | None = None
    draws: int = 1
    ellipses: int | None = None
    antithetic: ClassVar[bool] = False
    calibration_pool: ClassVar[int] = 128

    def __post_init__(self) -> None:
        if self.start not in ("approximation", "prior"):
            raise ValueError(f'start must be "approximation" or "prior", not {self.start!r}')
        check_whole(draws=self.draws, ellipses=1 if self.ellipses is None else self.ellipses)
        if self.temperatures is not None:
            object.__setattr__(self, "temperatures", _checked(self.temperatures))

    def estimate(
        self, rng: np.random.Generator, approximation: Posterior, likelihood: Likelihood, draws: int | None = None
    ) -> WeightedParticles:
        """Return an estimate from annealed particles; `draws` replaces the estimator's own number."""
        number = self.draws if draws is None else draws
        return self._weighed(approximation, *self._fresh(rng, approximation, likelihood, number))

    def estimate_given(
        self,
        rng: np.random.Generator,
        approximation: Posterior,
        likelihood: Likelihood,
        retained: np.ndarray,
        draws: int | None = None,
    ) -> WeightedParticles:
        """Return an estimate in which one particle is kept, and the others are annealed.

        If `retained` is from p(f|theta, y), its path is drawn backwards: the slice moves are reversible, so the path
        back has the same temperatures in reverse. The result is a draw from the extended target of the pseudo-marginal
        chain given theta and that particle; see `ImportanceSampling.estimate_given`.

        Parameters
        ----------
        retained : (n,) array
            The particle that is kept, first among the new ones.
        """
        number = self.draws if draws is None else draws
        reference, betas = self._reference(approximation), self._temperatures(approximation.prior.size)
        kept = (retained - reference.mean)[None, :]
        # The axes of the ellipses have the same distribution, so their order on the way back does not matter.
        axes = list(_drawn(rng, reference, self._ellipses(betas), 1))
        _, kept_weights = _annealed(rng, reference, likelihood, kept, axes, betas[::-1])
        particles, log_weights = self._fresh(rng, approximation, likelihood, number - 1)
        particles = np.concatenate([retained[None, :], particles])
        return self._weighed(approximation, particles, np.concatenate([kept_weights, log_weights]))

    def _fresh(
        self, rng: np.random.Generator, approximation: Posterior, likelihood: Likelihood, number: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return particles (number, n) and their log-weights (number,), up to the normalizer of the reference."""
        reference, betas = self._reference(approximation), self._temperatures(approximation.prior.size)
        if number == 0:
            return np.empty((0, approximation.prior.size)), np.empty(0)
        deviations, *axes = _drawn(rng, reference, 1 + self._ellipses(betas), number)
        deviations, log_weights = _annealed(rng, reference, likelihood, deviations, axes, betas)
        return reference.mean + deviations, log_weights

    def _ellipses(self, betas: np.ndarray) -> int:
        number = ELLIPSES[self.start] if self.ellipses is None else self.ellipses
        return min(number, len(betas) - 2)

    def _weighed(self, approximation: Posterior, particles: np.ndarray, log_weights: np.ndarray) -> WeightedParticles:
        # The prior has zero sites, and its normalizer is one.
        normalizer = approximation.log_normalizer if self.start == "approximation" else 0.0
        log_weights = np.where(np.isnan(log_weights), -np.inf, log_weights + normalizer)
        return WeightedParticles(float(log_mean_exp(log_weights)), particles, log_weights)

    def _reference(self, approximation: Posterior) -> Gaussian:
        return approximation if self.start == "approximation" else approximation.prior

    def _temperatures(self, n: int) -> np.ndarray:
        return annealing_schedule(n) if self.temperatures is None else np.array(self.temperatures)


def _drawn(rng: np.random.Generator, reference: Gaussian, sets: int, draws: int) -> np.ndarray:
    """Return draws from the reference less its mean, (sets, draws, n), made as columns of one matrix."""
    return reference.sample_deviations(rng, sets * draws).reshape(sets, draws, len(reference.mean))


def _annealed(
    rng: np.random.Generator,
    reference: Gaussian,
    likelihood: Likelihood,
    deviations: np.ndarray,
    axes: list[np.ndarray],
    betas: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Move particles along the temperatures, up or down; return the ends of their paths, and the log-weights.

    Equation 11 of the article: a particle collects r to the power of the step *before* it moves at the next
    temperature. Going down, it collects the same factors in reverse.

    `deviations` (draws, n): particles less the reference's mean; `axes` list of (draws, n) arrays: draws from the
    reference less its mean, one set for each of the ellipses that the moves take in turn; `betas` (s + 1,): from 0 to
    1, or from 1 to 0.
    """

    def log_ratio(e: np.ndarray) -> np.ndarray:
        return reference.log_ratio(likelihood, reference.mean + e)

    steps = np.abs(np.diff(betas))
    values = log_ratio(deviations)
    log_weights = steps[0] * values
    for move, (beta, step) in enumerate(zip(betas[1:-1], steps[1:], strict=True)):
        turn = move % len(axes)
        deviations, axes[turn], values = slices_on_ellipses(rng, deviations, axes[turn], log_ratio, values, beta)
        log_weights = log_weights + step * values
    return deviations, log_weights


def _checked(temperatures: Sequence[float]) -> tuple[float, ...]:
    betas = np.asarray(temperatures, dtype=float)
    if betas.ndim != 1 or len(betas) < 2 or betas[0] != 0.0 or betas[-1] != 1.0 or not (np.diff(betas) > 0.0).all():
        raise ValueError(f"temperatures must increase from 0 to 1, not {temperatures!r}")
    return tuple(float(beta) for beta in betas)
