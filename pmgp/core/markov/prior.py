"""A Gaussian with a sparse precision as the prior of f, and q on the same pattern.

x ~ N(m, Q^-1) and f = A x + c. Given sites with precisions W, x has the precision Q + A'WA, and f has the covariance
S = A (Q + A'WA)^-1 A'. Laplace's method and expectation propagation need nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pmgp.core.gaussians.shrinking import Shrinkage, ShrinkingPrior, ShrunkConditioning, ShrunkPosterior
from pmgp.core.likelihoods.base import Divisible, Likelihood
from pmgp.core.markov.base import Factor, Pattern
from pmgp.core.numerics.conditioning import log_sites

# A site that pins f down has PENALTY times the precision of q's marginal. Each step then divides the remaining error by
# about this factor, except for combinations of sites that q knows far better than the single sites.
PENALTY, PENALTY_STEPS, SMALLEST_MISS = 1e7, 30, 1e-9
# Precisions of sites whose squares and products with variances are finite.
SMALLEST, LARGEST = 1e-150, 1e150


@dataclass(frozen=True, eq=False)
class PrecisionPrior(ShrinkingPrior):
    """The prior of f = A x + c, where x ~ N(m, Q^-1).

    `pattern`: pattern of Q and A; `values`: Q on its pattern; `state_mean`: m, of the shape of x; `offset` (n,): c.
    """

    pattern: Pattern
    values: np.ndarray
    state_mean: np.ndarray
    offset: np.ndarray

    @classmethod
    def centered(cls, pattern: Pattern, values: np.ndarray, offset: float | np.ndarray = 0.0) -> PrecisionPrior:
        """Make the prior with m = 0, and an offset that is one number or a number for each site."""
        return cls(pattern, values, np.zeros(pattern.shape), np.full(pattern.sites, offset, dtype=float))

    @cached_property
    def mean(self) -> np.ndarray:  # type: ignore[override]
        """Mean of f: (n,)."""
        return self.pattern.observe(self.state_mean) + self.offset

    @cached_property
    def factor(self) -> Factor | None:
        """Factor of Q; None if Q is indefinite."""
        return self.pattern.factorize(self.values)

    @property
    def _factor(self) -> Factor:
        if self.factor is None:
            raise ValueError("the precision of the prior is indefinite: it has no covariance")
        return self.factor

    @cached_property
    def covariances(self) -> np.ndarray:
        """Elements of Q^-1 where Q is not zero; NaN if Q is indefinite."""
        return np.full_like(self.values, np.nan) if self.factor is None else self.factor.covariances()

    @cached_property
    def variance(self) -> np.ndarray:
        """Marginal variances of f: (n,)."""
        return self.pattern.site_variances(self.covariances)

    def factorized(self) -> PrecisionPrior | None:
        """Return the prior itself, or None if Q is indefinite."""
        return None if self.factor is None else self

    def product(self, x: np.ndarray) -> np.ndarray:
        """Return the product of f's covariance with x of shape (n,) or (n, k)."""
        return _product(self.pattern, self._factor, x)

    def sample_deviations(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw f - mean: (size, n)."""
        return self.pattern.observe(self._factor.sample(rng, size))

    def deviations_from(self, normals: np.ndarray) -> np.ndarray:
        """Turn standard normals into draws of f - mean, if x has no more elements than f: (size, n) -> (size, n)."""
        return self.pattern.observe(self._factor.sample_from(self._cut(normals)))

    def _cut(self, normals: np.ndarray) -> np.ndarray:
        elements = int(np.prod(self.pattern.shape))
        if elements > normals.shape[-1]:
            self._lacks("draws made from given normals where there are more states than sites", "draws of its own")
        return normals[..., :elements]

    def shrinkage(self, precision: np.ndarray) -> PrecisionShrinkage | None:
        """Return S for sites with these precisions, or None if Q or Q + A'WA is indefinite."""
        if self.factor is None:
            return None
        factor = self.pattern.factorize(self.pattern.with_sites(self.values, precision))
        return None if factor is None else PrecisionShrinkage(self, precision, factor)

    def conditioning(self) -> PrecisionConditioning:
        """Return the prior in the form that a search for sites conditions."""
        return PrecisionConditioning(self)


@dataclass(frozen=True, eq=False)
class PrecisionShrinkage(Shrinkage):
    """The covariance S = A (Q + A'WA)^-1 A' of f given the sites.

    `precision` (n,): W; `factor`: factor of Q + A'WA.
    """

    prior: PrecisionPrior
    precision: np.ndarray
    factor: Factor

    @property
    def log_determinant(self) -> float:  # type: ignore[override]
        """Log-determinant of Q + A'WA, less that of Q."""
        return self.factor.log_determinant - self.prior._factor.log_determinant

    @cached_property
    def covariances(self) -> np.ndarray:
        """Covariances of x given the sites, where Q + A'WA is not zero."""
        return self.factor.covariances()

    @cached_property
    def _diagonal(self) -> np.ndarray:
        return self.prior.pattern.site_variances(self.covariances)

    def diagonal(self) -> np.ndarray:
        """Return the diagonal of S: (n,)."""
        return self._diagonal

    def product(self, x: np.ndarray) -> np.ndarray:
        """Return S x, for x of shape (n,) or (n, k)."""
        return _product(self.prior.pattern, self.factor, x)

    def covariance_bar(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the gradient in Q's values of a function with the gradient (x y' + y x' - R) / 2 in K = A Q^-1 A'.

        If gradients are not taken in Q's values, the result is x, y and the sites' precisions in its place: (3, n).

        The formula follows from dK = -A Q^-1 dQ Q^-1 A', and because Q^-1 A'RA Q^-1 is the difference of the
        covariances of x under the prior and under q.
        """
        prior, pattern = self.prior, self.prior.pattern
        if not pattern.differentiated:
            return np.stack([x, y, self.precision])
        u, v = (prior._factor.solve(pattern.spread(each)) for each in (x, y))
        return pattern.counted(0.5 * (prior.covariances - self.covariances) - pattern.outer(u, v))


class PrecisionConditioning(ShrunkConditioning):
    """A prior conditioned on one set of sites after another."""

    prior: PrecisionPrior
    shrinkage: PrecisionShrinkage

    @property
    def largest_variance(self) -> np.ndarray:
        """Variances of f without one of the sites, v / (1 - w v), which need no inverse of Q: (n,)."""
        return self.shrinkage.diagonal() / self.inverse_diagonal

    @property
    def precisions(self) -> tuple[np.ndarray, np.ndarray]:
        """The smallest and the largest precisions; variances of q are not computed from 1 - w v: two (n,) arrays."""
        return np.full(self.prior.size, SMALLEST), np.full(self.prior.size, LARGEST)

    def approximation(self, log_evidence: float, iterations: int, converged: bool = True) -> PrecisionPosterior:
        """Return q with the sites on which the prior was last conditioned."""
        sites = self.linear, self.precision
        return PrecisionPosterior(self.prior, *sites, self.mean, self.shrinkage, log_evidence, iterations, converged)


@dataclass(frozen=True, eq=False)
class PrecisionPosterior(ShrunkPosterior):
    """The approximation q(f); see `Posterior`. A draw takes one triangular solve, and is also a draw of x."""

    prior: PrecisionPrior
    shrinkage: PrecisionShrinkage

    @property
    def largest_variance(self) -> np.ndarray:
        """Variances of f without one of the sites, as in `PrecisionConditioning`: (n,)."""
        return self.shrinkage.diagonal() / self.inverse_diagonal

    def conditioned(self) -> PrecisionConditioning:
        """Return the prior conditioned on q's sites."""
        found = PrecisionConditioning(self.prior)
        found.keep(self.linear, self.precision, self.mean, self.shrinkage)
        return found

    def sample_deviations(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw f - mean: (size, n)."""
        return self.prior.pattern.observe(self.shrinkage.factor.sample(rng, size))

    def log_ratios_of(self, likelihood: Likelihood, sites: Any, deviations: np.ndarray) -> np.ndarray:
        """Return the log of the likelihood over some of the sites, given their deviations from q's mean: (draws,)."""
        assert isinstance(likelihood, Divisible)
        f = deviations + self.mean[sites]
        return likelihood.subset(sites).log_likelihood(f) - log_sites(self.linear[sites], self.precision[sites], f)

    def deviation_given(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        """Draw x given f, less its mean under q: (n,) -> shape of x.

        Given f, x has the same distribution under the prior and under q. A draw from q is moved along Q^-1 A' until
        A x + c is f, unless the pattern can draw directly.

        Raises FloatingPointError if no x has this f.
        """
        deviation = f - self.mean
        drawn = self.prior.pattern.drawn_given(rng, self.prior.values, deviation)
        return self._searched(rng, deviation) if drawn is None else drawn

    def _searched(self, rng: np.random.Generator, deviation: np.ndarray) -> np.ndarray:
        """Draw x given f, both minus their means under q, with the method of multipliers (Hestenes 1969)."""
        pattern, factor, weight = self.prior.pattern, self.shrinkage.factor, PENALTY / self.variance
        drawn = factor.sample(rng, 1)[0]
        values = pattern.with_sites(self.prior.values, self.precision + weight)
        inner, multiplier = pattern.factorize(values), np.zeros_like(weight)
        missing = deviation - pattern.observe(drawn)
        allowed = SMALLEST_MISS * np.sqrt(self.variance)
        for _ in range(PENALTY_STEPS):
            if inner is None:
                break
            moved = inner.solve(pattern.spread(weight * missing + multiplier))
            left = missing - pattern.observe(moved)
            if (np.abs(left) <= allowed).all():
                return drawn + moved
            multiplier += weight * left
        raise FloatingPointError("no state of the process gives these latent values")


def _product(pattern: Pattern, factor: Factor, x: np.ndarray) -> np.ndarray:
    if x.ndim == 1:
        return pattern.observe(factor.solve(pattern.spread(x)))
    return np.stack([_product(pattern, factor, column) for column in x.T], axis=1)
