"""Importance sampling of all latent vectors but one, which is normal given the others and is integrated out exactly.

With a process for the mean of a normal observation and one for the logarithm of its scale, p(y|g) is a normal density
for each draw g of the log-scale: f is integrated out by regression. The weights p(y|g) p(g) / q(g) vary far less than
those of draws of (f, g), whose spread f follows the scale (Rao-Blackwell). Given a g that is picked by weight, f is
drawn from p(f|g, y). Where f can pass through observations, g is as uncertain as in the prior, and far from q: every
eighth draw is from the prior, and q(g) is the mixture.

A term that is quadratic in f_i is peak - w (f_i - location)^2 / 2, where three values of the term give its three
numbers. The sites of q are of this form too, so the same integral gives q(g) / p(g).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import expit

from pmgp.core.estimators.importance import WeightedParticles, check_draws, log_mean_exp, number_of_draws
from pmgp.core.gaussians import BlockApproximation
from pmgp.core.gaussians.held import HeldCovariance
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.numerics import linalg
from pmgp.core.numerics.arrays import check_whole
from pmgp.core.numerics.block_matrices import stacked

# Third difference of a quadratic term relative to its values. Smallest precision of a term, in units of the steps of
# its second difference; below it is a rounding error.
ROUNDING, FAINT = 1e-9, 1e-12
# One of so many draws is from the prior.
WIDE = 8
# How often the maximum of a term is computed anew, and the smallest width of a term relative to where its maximum is.
RENEWALS, RESOLUTION = 2, 1e-13
# Evaluations of a slice before it stays where it is.
MOST_ANGLES = 100


@dataclass(frozen=True)
class RaoBlackwellSampling:
    """An estimator of p(y|theta) for several processes, one of which is normal given the others and the data.

    That is the process for the mean of normal observations. It is integrated out exactly, for each importance sample of
    the others. An importance sample takes a factorization, but a few do where thousands of samples of all processes
    would not.

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
    ) -> IntegratedParticles:
        """Return an estimate from draws of q and of the prior; `draws` is used if the own number is "auto"."""
        number = number_of_draws(self.draws if draws is None else draws)
        integrated = _Integrated.of(approximation, likelihood, self.vector)
        return self._weighed(integrated, approximation, self._drawn(rng, approximation, number))

    def estimate_given(
        self,
        rng: np.random.Generator,
        approximation: Any,
        likelihood: Likelihood,
        retained: np.ndarray,
        draws: int | None = None,
    ) -> IntegratedParticles:
        """Return an estimate in which the other vectors of one particle are kept, with their mirror image.

        See `ImportanceSampling.estimate_given`. The particle takes the place of a draw of q or of the prior, with the
        probability that it is one.
        """
        number = number_of_draws(self.draws if draws is None else draws)
        integrated = _Integrated.of(approximation, likelihood, self.vector)
        kept = retained - approximation.mean
        for direction in approximation.sample_deviations(rng, self.slices):
            kept = integrated.sliced(rng, approximation, kept, direction)
        drawn, moved = self._drawn(rng, approximation, number), approximation.mean + kept
        drawn.keep(integrated.place(rng, approximation, moved, drawn.wide), moved)
        return self._weighed(integrated, approximation, drawn)

    def _drawn(self, rng: np.random.Generator, q: BlockApproximation, number: int) -> _Drawn:
        paired = self.antithetic and number > 1
        size = number // 2 if paired else number
        wide = np.arange(size) % WIDE == WIDE - 1
        deviations = np.empty((size, len(q.mean)))
        deviations[~wide] = q.sample_deviations(rng, int((~wide).sum()))
        deviations[wide] = q.prior.sample_deviations(rng, int(wide.sum()))
        return _Drawn(wide, np.where(wide[:, None], q.prior.mean, q.mean), deviations, paired)

    def _weighed(self, integrated: _Integrated, q: BlockApproximation, drawn: _Drawn) -> IntegratedParticles:
        f = drawn.particles
        logs = integrated.log_weights(f, q, float(drawn.wide.mean()))
        return IntegratedParticles(WeightedParticles(float(log_mean_exp(logs)), f, logs), integrated)


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

    def keep(self, place: int, f: np.ndarray) -> None:
        """Put a particle in the place of a draw: (C n,)."""
        self.deviation[place] = f - self.center[place]

    @property
    def particles(self) -> np.ndarray:
        """The draws, followed by their mirror images: (k, C n) or (2 k, C n)."""
        f = self.center + self.deviation
        return np.concatenate([f, self.center - self.deviation]) if self.paired else f


@dataclass(frozen=True, eq=False)
class IntegratedParticles:
    """An unbiased estimate of p(y|theta) with the draws of the other vectors from which it was made.

    `weighted`: particles of all vectors, of which one has no meaning; `integrated`: the distribution of that vector.
    """

    weighted: WeightedParticles
    integrated: _Integrated

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
        """Return a draw of all vectors, whose others are picked with probability proportional to weight: (C n,)."""
        return self.integrated.completed(rng, self.weighted.choose(rng))


class _Quadratic(NamedTuple):
    """Terms peak - precision (f_i - location)^2 / 2: (n,) arrays, or (k, n)."""

    peak: np.ndarray
    precision: np.ndarray
    location: np.ndarray

    def log_integral(self, prior: HeldCovariance, factor: np.ndarray) -> float:
        """Return log of the integral of N(f|m, K) times the terms, given the factor of B = I + W^1/2 K W^1/2."""
        residual = np.sqrt(self.precision) * (self.location - prior.mean)
        solved = linalg.triangular_solve(factor, residual)
        return float(self.peak.sum() - 0.5 * solved @ solved) - 0.5 * linalg.log_determinant(factor)

    def factor(self, covariance: np.ndarray) -> np.ndarray:
        """Return the lower Cholesky factor of B."""
        return linalg.cholesky(linalg.scaled_plus_identity(covariance, np.sqrt(self.precision)), overwrite=True)


class _Integrated(NamedTuple):
    """The vector that is integrated out: its prior, and the likelihood as a function of it given the other vectors.

    `block`: its elements in f; `width` (n,): steps on the scale of its sites, from which the quadratics are found.
    """

    prior: HeldCovariance
    covariance: np.ndarray
    likelihood: Any
    block: slice
    width: np.ndarray

    @classmethod
    def of(cls, q: BlockApproximation, likelihood: Likelihood, vector: int) -> _Integrated:
        n, prior = q.prior.sites, q.prior.parts[vector]
        width = 1.0 / np.sqrt(q.precision.blocks[:, vector, vector])
        return cls(prior, prior.covariance, likelihood, slice(vector * n, (vector + 1) * n), width)

    def log_weights(self, f: np.ndarray, q: BlockApproximation, share: float = 0.0) -> np.ndarray:
        """Return log p(y|g) p(g) / q(g) for the other vectors of each row: (k, C n) to (k,).

        `share`: that of the prior in a mixture with q, which is in the place of q(g).
        """
        # Far from q, terms may overflow; such weights are zero.
        with np.errstate(all="ignore"):
            ratio = self.log_sites(f, q)
            mixed = np.logaddexp(np.log1p(-share) + ratio, np.log(share)) if share > 0.0 else ratio
            logs = self.log_likelihood(f) - mixed
        return np.where(np.isfinite(logs), logs, -np.inf)

    def place(self, rng: np.random.Generator, q: BlockApproximation, f: np.ndarray, wide: np.ndarray) -> int:
        """Return the first place of draws of the kind that a particle is of, given its densities: (C n,)."""
        share = wide.mean()
        if share == 0.0:
            return 0
        odds = np.log1p(-share) - np.log(share) + self.log_sites(f[None, :], q)[0]
        return int(np.argmax(wide == (rng.random() < expit(-odds))))

    def sliced(
        self, rng: np.random.Generator, q: BlockApproximation, deviation: np.ndarray, direction: np.ndarray
    ) -> np.ndarray:
        """Move the other vectors by a slice of their weights along an ellipse about q's mean (Nishihara et al. 2014).

        This leaves p(g|y) invariant, which is the weight times q(g).

        `deviation`, `direction` (C n,): f less q's mean, and a draw from q less its mean.
        """
        level = self.log_weights((q.mean + deviation)[None, :], q)[0] + np.log(rng.random())
        angle = rng.uniform(0.0, 2.0 * np.pi)
        low, high = angle - 2.0 * np.pi, angle
        for _ in range(MOST_ANGLES):
            moved = deviation * np.cos(angle) + direction * np.sin(angle)
            if self.log_weights((q.mean + moved)[None, :], q)[0] >= level:
                return moved
            low, high = (angle, high) if angle < 0.0 else (low, angle)
            angle = rng.uniform(low, high)
        return deviation

    def log_likelihood(self, f: np.ndarray) -> np.ndarray:
        """Return log p(y|g) for the other vectors of each row: (k, C n) to (k,)."""
        terms = self.quadratic(f)
        return np.array([self._log_integral(_Quadratic(*one)) for one in zip(*terms, strict=True)])

    def log_sites(self, f: np.ndarray, q: BlockApproximation) -> np.ndarray:
        """Return log q(g) / p(g) for the other vectors of each row: (k, C n) to (k,).

        The integral over f of the sites, which have one precision in f for all g.
        """
        n = q.prior.sites
        vector = self.block.start // n
        others = np.delete(stacked(f, n), vector, axis=1)
        linear, blocks = stacked(q.linear, n), q.precision.blocks
        known = [each for each in range(q.prior.vectors) if each != vector]
        own = linear[vector] - np.einsum("io,koi->ki", blocks[:, vector, known], others)
        rest = np.einsum("oi,koi->k", linear[known], others)
        rest -= 0.5 * np.einsum("koi,iop,kpi->k", others, blocks[:, known][:, :, known], others, optimize=True)
        precision = blocks[:, vector, vector]
        sites = [_Quadratic(0.5 * b * b / precision, precision, b / precision) for b in own]
        factor = sites[0].factor(self.covariance)
        return np.array([site.log_integral(self.prior, factor) for site in sites]) + rest - q.log_normalizer

    def quadratic(self, f: np.ndarray) -> _Quadratic:
        """Return the terms as functions of the vector: (k, C n) to (k, n) arrays.

        Far from its maximum, a sharp term is so low that the value at the maximum does not survive rounding. So that is
        computed anew from points about the maximum.
        """
        at, slope, curvature = self._differences(f, f[:, self.block], self.width)
        precision = np.maximum(curvature, FAINT / np.square(self.width))
        location = f[:, self.block] + slope / precision
        for _ in range(RENEWALS):
            at, slope, _ = self._differences(f, location, 1.0 / np.sqrt(precision))
            location = location + slope / precision
        # The value at the maximum is unknown where double precision has no number near enough to it.
        precision = np.where(1.0 / np.sqrt(precision) > RESOLUTION * np.abs(location), precision, np.nan)
        return _Quadratic(at + 0.5 * slope * slope / precision, precision, location)

    def _differences(self, f: np.ndarray, where: np.ndarray, width: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the terms, their slopes and minus their curvatures at places of the vector: (k, n) arrays."""
        rows = np.stack([f, f, f])
        for row, moved in zip(rows, (where, where + width, where - width), strict=True):
            row[:, self.block] = moved
        at, above, below = self.likelihood.log_density(rows.reshape(3 * len(f), -1)).reshape(3, len(f), -1)
        return at, (above - below) / (2.0 * width), (2.0 * at - above - below) / np.square(width)

    def completed(self, rng: np.random.Generator, particle: np.ndarray) -> np.ndarray:
        """Return a particle with a draw of the vector given the others: u + K W^1/2 B^-1 (W^1/2 (location - u) - e)."""
        terms = _Quadratic(*(part[0] for part in self.quadratic(particle[None, :])))
        root, u = np.sqrt(terms.precision), self.prior.sample(rng, 1)[0]
        difference = root * (terms.location - u) - rng.standard_normal(u.size)
        solved = linalg.cholesky_solve(terms.factor(self.covariance), difference)
        completed = particle.copy()
        completed[self.block] = u + self.prior.product(root * solved)
        return completed

    def _log_integral(self, terms: _Quadratic) -> float:
        if not (np.isfinite(terms.precision).all() and np.isfinite(terms.location).all()):
            return -np.inf
        try:
            return terms.log_integral(self.prior, terms.factor(self.covariance))
        except linalg.NotPositiveDefiniteError:
            return -np.inf


def is_normal_given_others(likelihood: Any, mean: np.ndarray, deviation: np.ndarray, vectors: int, vector: int) -> bool:
    """Return whether each term is a concave quadratic function of one vector, or does not depend on it.

    `mean`, `deviation` (C n,): moments of the prior.
    """
    n = mean.size // vectors
    rng = np.random.default_rng(0)
    for _ in range(3):
        rows = np.tile(mean + deviation * rng.uniform(-1.0, 1.0, mean.size), (4, 1))
        block = slice(vector * n, (vector + 1) * n)
        rows[:, block] = mean[block] + np.outer([-1.5, -0.5, 0.5, 1.5], deviation[block])
        with np.errstate(all="ignore"):
            values = likelihood.log_density(rows)
            size = np.abs(values).sum(axis=0)
            third = np.abs(np.diff(values, 3, axis=0)[0])
            second = values[0] - values[1] - values[2] + values[3]
        if not (np.isfinite(size).all() and (third <= ROUNDING * size).all() and (second <= ROUNDING * size).all()):
            return False
        if not (second < 0.0).any():
            return False
    return True
