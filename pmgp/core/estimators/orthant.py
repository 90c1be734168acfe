"""Sequential draws between limits: p(y|theta) for labels or ordered categories with a probit link, as an orthant.

Such a likelihood gives limits between which v = f + noise lies. So p(y|theta) is the probability of these limits under
N(m, R) with R = K + diag(noise^2), and particles are values of v in place of f. The sites of q, which are functions of
f with precision w and linear part b, correspond to sites in v with precision w / (1 - noise^2 w) and linear part
b / (1 - noise^2 w). With these the variables are drawn one by one (`pmgp.core.orthants.recursion`), each between its
limits, and the weights vary less than those of draws of f from q.

Given v, f is normal and can be drawn exactly. Given f and y, the elements of v are independent normals between limits.
A conditional estimate draws v from that distribution, keeps its path, and draws the other paths afresh.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from pmgp.core.approximations.moment_matching import Cavities, cavities
from pmgp.core.estimators.base import Size
from pmgp.core.estimators.importance import (
    CompletedParticles,
    WeightedParticles,
    check_draws,
    log_mean_exp,
    number_of_draws,
)
from pmgp.core.estimators.work import ORTHANT_CALL, ORTHANT_PREPARATION, ORTHANT_STEP, ORTHANT_VARIABLE
from pmgp.core.gaussians import Posterior, Prior
from pmgp.core.likelihoods.base import Likelihood, NoisyLimits, Thresholded
from pmgp.core.numerics import linalg
from pmgp.core.numerics.storable import storable
from pmgp.core.orthants.ordering import Ordered
from pmgp.core.orthants.recursion import Paths, Recursion, tilted, twisted
from pmgp.core.orthants.sites import weakened
from pmgp.core.orthants.tilting import saddle_point

METHODS = ("ep", "ghk", "tilted")
# Smallest relative distance of the sites' precision from that of the noise. Intervals much narrower than the noise get
# wider sites in v: draws are equally exact, and larger precisions would lose the digits of the recursion's variances.
SMALLEST_REST = 1e-2


@storable
@dataclass(frozen=True)
class OrthantSampling:
    """An estimator of p(y|theta) by the probability that f plus the likelihood's noise lies between limits.

    It is for labels and ordered categories with a probit link. Its weights vary less than those of importance sampling
    from q, especially if the process has a large variance. An estimate takes longer, because variables are drawn one
    after another, and factorizations have to be computed.

    Parameters
    ----------
    draws : int or "auto"
        Number of draws. ``"auto"`` lets the scheme choose it at the end of tuning from the measured spread of the
        log-estimates.
    method : {"ep", "ghk", "tilted"}
        The method of drawing variables, as in `pmgp.orthants.log_probability`; ``"ep"`` uses the sites of q, from any
        approximation.
    antithetic : bool
        Whether to draw pairs from opposite uniform numbers. This needs an even number of draws, or one.

    Raises
    ------
    ValueError
        If `draws` is not a positive integer or "auto", or is odd and above one with antithetic draws, or for an unknown
        method.

    Notes
    -----
    The counts of GPC-MC and sequential Monte Carlo are not available here, because resampled particles have no path of
    their own that could be kept.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> with pmgp.models.classifier(X, X[:, 0] > 0.5):
    ...     step = pmgp.PseudoMarginal(estimator=pmgp.estimators.OrthantSampling(draws=64))
    """

    draws: int | str = "auto"
    method: str = "ep"
    antithetic: bool = True
    calibration_pool: ClassVar[int] = 512

    def __post_init__(self) -> None:
        check_draws(self.draws, self.antithetic)
        if self.method not in METHODS:
            raise ValueError(f"unknown method {self.method!r}; known are {', '.join(METHODS)}")

    @staticmethod
    def require(likelihood: Likelihood) -> None:
        """Refuse a likelihood that does not give limits for f plus normal noise.

        Raises
        ------
        ValueError
        """
        if not isinstance(likelihood, Thresholded):
            raise ValueError(
                "OrthantSampling needs labels with a probit link, one for each latent value: BernoulliProbit or "
                'OrdinalProbit with f itself as its first argument; use estimator="importance" for other likelihoods'
            )

    def work(self, size: Size, draws: int) -> float:
        """Return the work of the preparation with EP's sites and of the recursion; see `Priced`."""
        n = size.values
        return ORTHANT_PREPARATION * n**3 + (ORTHANT_STEP * n + ORTHANT_VARIABLE) * n * draws + ORTHANT_CALL

    def estimate(
        self, rng: np.random.Generator, approximation: Posterior, likelihood: Likelihood, draws: int | None = None
    ) -> CompletedParticles:
        """Return an estimate from drawn paths.

        Parameters
        ----------
        rng : numpy.random.Generator
        approximation : Posterior
            Approximation for one latent vector.
        likelihood : Likelihood
            A `Thresholded` likelihood.
        draws : int, optional
            Number of draws if this estimator's own is "auto".

        Raises
        ------
        ValueError
            For another likelihood, and for a prior that cannot factorize its variables in a given order.
        """
        prepared = _Prepared.of(self.method, approximation, likelihood)
        number = number_of_draws(self.draws if draws is None else draws)
        half = rng.uniform(size=(approximation.size, number // 2 if self._paired(number) else number))
        uniforms = np.concatenate([half, 1.0 - half], axis=1) if self._paired(number) else half
        return prepared.weighed(prepared.recursion.draw(uniforms))

    def estimate_given(
        self,
        rng: np.random.Generator,
        approximation: Posterior,
        likelihood: Likelihood,
        retained: np.ndarray,
        draws: int | None = None,
    ) -> CompletedParticles:
        """Return an estimate with one path drawn from p(v|f, y) for the f that is kept, and the others redrawn.

        If `retained` is from p(f|theta, y), that path is from p(v|theta, y), and the result is a draw from the extended
        target of the pseudo-marginal chain given theta and that path; see `ImportanceSampling.estimate_given`.

        Parameters
        ----------
        retained : (n,) array
            The f that is kept. Its path is first among the new ones.
        """
        prepared = _Prepared.of(self.method, approximation, likelihood)
        number = number_of_draws(self.draws if draws is None else draws)
        kept = prepared.recursion.replayed(prepared.path_of(rng, retained))
        fresh = rng.uniform(size=(approximation.size, (number // 2 if self._paired(number) else number) - 1))
        if self._paired(number):
            fresh = np.concatenate([fresh, 1.0 - kept.uniforms, 1.0 - fresh], axis=1)
        drawn = prepared.recursion.draw(fresh)
        return prepared.weighed(Paths(*(np.concatenate(pair, axis=-1) for pair in zip(kept, drawn, strict=True))))

    def _paired(self, draws: int) -> bool:
        return self.antithetic and draws > 1


class LatentGivenNoisy(NamedTuple):
    """p(f|v) for v = f + noise.

    `noise` (n,): standard deviations; `order` (n,) of int; `factor` (n, n): lower Cholesky factor of R in that order.
    """

    prior: Prior
    noise: np.ndarray
    order: np.ndarray
    factor: np.ndarray

    def draw(self, rng: np.random.Generator, v: np.ndarray) -> np.ndarray:
        """Return the draw u + K R^-1 (v - u - e), with u from the prior and e from the noise: (n,) to (n,)."""
        u = self.prior.sample(rng, 1)[0]
        difference = v - u - self.noise * rng.standard_normal(len(v))
        solved = np.empty_like(v)
        solved[self.order] = linalg.cholesky_solve(self.factor, difference[self.order])
        return u + self.prior.product(solved)


class _Prepared(NamedTuple):
    """The quantities that all draws at one theta share."""

    limits: NoisyLimits
    given: LatentGivenNoisy
    recursion: Recursion

    @classmethod
    def of(cls, method: str, q: Posterior, likelihood: Likelihood) -> _Prepared:
        OrthantSampling.require(likelihood)
        assert isinstance(likelihood, Thresholded)
        limits = likelihood.noisy_limits()
        cavity = cavities(q)
        order = np.arange(q.size) if cavity is None else _order(cavity, likelihood)
        factor = q.prior.ordered_factor(np.square(limits.noise), order)
        mean = q.prior.mean
        problem = Ordered(
            order, (limits.lower - mean)[order], (limits.upper - mean)[order], np.ascontiguousarray(np.tril(factor))
        )
        drawn = _drawn(method, problem, q, limits, cavity)
        return cls(limits, LatentGivenNoisy(q.prior, limits.noise, order, factor), drawn)

    def weighed(self, paths: Paths) -> CompletedParticles:
        v = self.given.prior.mean + self.recursion.problem.original(paths.values)
        weighted = WeightedParticles(float(log_mean_exp(paths.log_weights)), v, paths.log_weights)
        return CompletedParticles(weighted, self.given)

    def path_of(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        """Return a draw of v given f and y, in the order of the recursion and less its mean: (n, 1)."""
        from pmgp.core.orthants.compiled_normal import truncated

        lower, upper, noise = self.limits
        draws, log_probabilities = np.empty((2, len(f)))
        truncated((lower - f) / noise, (upper - f) / noise, rng.uniform(size=len(f)), draws, log_probabilities)
        v = np.clip(f + noise * draws, lower, upper) - self.given.prior.mean
        return v[self.given.order][:, None]


def _drawn(method: str, problem: Ordered, q: Posterior, limits: NoisyLimits, cavity: Cavities | None) -> Recursion:
    if method == "tilted":
        return tilted(problem, saddle_point(problem))
    if method == "ghk":
        return twisted(problem, *np.zeros((2, problem.size)))
    linear, precision = _sites_about_noisy(q, limits.noise)
    if cavity is not None:
        left = 1.0 / (1.0 + precision * (cavity.variance + np.square(limits.noise)))
        linear, precision = weakened(linear, precision, left)
    return twisted(problem, linear, precision)


def _order(cavity: Cavities, likelihood: Likelihood) -> np.ndarray:
    """Return the order of the observations by their probability given the sites of all others, least likely first.

    In measurements it is on average as good as the order of Gibson, Glasbey and Elston, and it needs no search.
    """
    moments = likelihood.tilted_moments(cavity.mean, cavity.variance)
    assert moments is not None
    return np.argsort(moments.log_normalizer, kind="stable")


def _sites_about_noisy(q: Posterior, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sites in v - m that correspond to those of q: linear part and precision, two (n,) arrays."""
    variance = np.square(noise)
    rest = np.maximum(1.0 - variance * q.precision, SMALLEST_REST)
    precision = q.precision / rest
    return q.linear / rest - precision * q.prior.mean, precision
