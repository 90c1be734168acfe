"""One latent vector that is normal given the others and the data: its integrals, in closed form, and its draws.

A term that is quadratic in f_i is peak - w (f_i - location)^2 / 2, where three values of the term give its three
numbers. The sites of q are of this form too, so the same integral gives p(y|g) and q(g) / p(g) for the other vectors g.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.special import expit

from pmgp.core.gaussians import BlockApproximation
from pmgp.core.gaussians.held import HeldCovariance, HeldCovariances
from pmgp.core.numerics import linalg
from pmgp.core.numerics.block_matrices import stacked

# Third difference of a quadratic term relative to its values. Smallest precision of a term, in units of the steps of
# its second difference; below it is a rounding error. Smallest width of a term relative to where its maximum is.
ROUNDING, FAINT, RESOLUTION = 1e-9, 1e-12, 1e-13
# Evaluations of a slice before it stays where it is.
MOST_ANGLES = 100


class Quadratic(NamedTuple):
    """Terms peak - precision (f_i - location)^2 / 2: (n,) arrays, or (k, n)."""

    peak: np.ndarray
    precision: np.ndarray
    location: np.ndarray

    def log_integral(self, prior: HeldCovariance, factor: np.ndarray) -> float:
        """Return log of the integral of N(f|m, K) times the terms, given the factor of B = I + W^1/2 K W^1/2."""
        residual = np.sqrt(self.precision) * (self.location - prior.mean)
        solved = linalg.triangular_solve(factor, residual)
        return float(self.peak.sum() - 0.5 * solved @ solved) - 0.5 * linalg.log_determinant(factor)


@dataclass(frozen=True, eq=False)
class IntegratedVector:
    """One of the vectors of q as a function of the others, which are the g of a particle.

    `vector`: which one; `likelihood`: terms that are quadratic in it.
    """

    q: BlockApproximation
    likelihood: Any
    vector: int

    @cached_property
    def prior(self) -> HeldCovariance:
        """The prior of the vector."""
        return cast(HeldCovariances, self.q.prior).parts[self.vector]

    @cached_property
    def block(self) -> slice:
        """The elements of the vector in f."""
        n = self.q.prior.sites
        return slice(self.vector * n, (self.vector + 1) * n)

    @cached_property
    def site_precision(self) -> np.ndarray:
        """The precisions of q's sites in the vector, the same for all g: (n,)."""
        return self.q.precision.blocks[:, self.vector, self.vector]

    @cached_property
    def site_factor(self) -> np.ndarray:
        """The factor of B for q's sites."""
        return self.factor(self.site_precision)

    def log_weights(self, f: np.ndarray, share: float = 0.0) -> np.ndarray:
        """Return log p(y|g) p(g) / q(g) for the other vectors of each row: (k, C n) to (k,).

        `share`: that of the prior in a mixture with q, which is in the place of q(g).
        """
        # Far from q, terms may overflow; such weights are zero.
        with np.errstate(all="ignore"):
            ratio = self.log_sites(f)
            mixed = np.logaddexp(np.log1p(-share) + ratio, np.log(share)) if share > 0.0 else ratio
            logs = self.log_likelihood(f) - mixed
        return np.where(np.isfinite(logs), logs, -np.inf)

    def log_likelihood(self, f: np.ndarray) -> np.ndarray:
        """Return log p(y|g) for the other vectors of each row: (k, C n) to (k,)."""
        return np.array([self._log_integral(Quadratic(*one)) for one in zip(*self.quadratic(f), strict=True)])

    def log_sites(self, f: np.ndarray) -> np.ndarray:
        """Return log q(g) / p(g) for the other vectors of each row, with the sites' integral: (k, C n) to (k,)."""
        q, n = self.q, self.q.prior.sites
        others, linear, blocks = np.delete(stacked(f, n), self.vector, axis=1), stacked(q.linear, n), q.precision.blocks
        known = [each for each in range(q.prior.vectors) if each != self.vector]
        own = linear[self.vector] - np.einsum("io,koi->ki", blocks[:, self.vector, known], others)
        rest = np.einsum("oi,koi->k", linear[known], others)
        rest -= 0.5 * np.einsum("koi,iop,kpi->k", others, blocks[:, known][:, :, known], others, optimize=True)
        precision = self.site_precision
        sites = [Quadratic(0.5 * b * b / precision, precision, b / precision) for b in own]
        integrals = [site.log_integral(self.prior, self.site_factor) for site in sites]
        return np.array(integrals) + rest - q.log_normalizer

    def quadratic(self, f: np.ndarray) -> Quadratic:
        """Return the terms as functions of the vector: (k, C n) to (k, n) arrays.

        Far from its maximum, a sharp term is so low that neither the value at the maximum nor the curvature survive
        rounding. So they are computed anew from points about the maximum.
        """
        location, width = f[:, self.block], 1.0 / np.sqrt(self.site_precision)
        _, slope, curvature = self._differences(f, location, width)
        precision = np.maximum(curvature, FAINT / np.square(width))
        location = location + slope / precision
        # Wide steps about the maximum resolve the curvature, and narrow ones the maximum.
        _, slope, curvature = self._differences(f, location, np.maximum(width, 1.0 / np.sqrt(precision)))
        precision = np.maximum(curvature, FAINT / np.square(width))
        location = location + slope / precision
        at, slope, _ = self._differences(f, location, 1.0 / np.sqrt(precision))
        location = location + slope / precision
        # The value at the maximum is unknown where double precision has no number near enough to it.
        precision = np.where(1.0 / np.sqrt(precision) > RESOLUTION * np.abs(location), precision, np.nan)
        return Quadratic(at + 0.5 * slope * slope / precision, precision, location)

    def draw(self, rng: np.random.Generator, particle: np.ndarray) -> np.ndarray:
        """Return a particle with a draw of the vector given the others: u + K W^1/2 B^-1 (W^1/2 (location - u) - e)."""
        terms = Quadratic(*(part[0] for part in self.quadratic(particle[None, :])))
        root, u = np.sqrt(terms.precision), self.prior.sample(rng, 1)[0]
        difference = root * (terms.location - u) - rng.standard_normal(u.size)
        solved = linalg.cholesky_solve(self.factor(terms.precision), difference)
        drawn = particle.copy()
        drawn[self.block] = u + self.prior.product(root * solved)
        return drawn

    def sliced(self, rng: np.random.Generator, deviation: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """Move the other vectors by a slice of their weights along an ellipse about q's mean (Nishihara et al. 2014).

        This leaves p(g|y) invariant, which is the weight times q(g).

        `deviation`, `direction` (C n,): f less q's mean, and a draw from q less its mean.
        """
        mean = self.q.mean
        level = self.log_weights((mean + deviation)[None, :])[0] + np.log(rng.random())
        angle = rng.uniform(0.0, 2.0 * np.pi)
        low, high = angle - 2.0 * np.pi, angle
        for _ in range(MOST_ANGLES):
            moved = deviation * np.cos(angle) + direction * np.sin(angle)
            if self.log_weights((mean + moved)[None, :])[0] >= level:
                return moved
            low, high = (angle, high) if angle < 0.0 else (low, angle)
            angle = rng.uniform(low, high)
        return deviation

    def is_of_prior(self, rng: np.random.Generator, f: np.ndarray, share: float) -> bool:
        """Draw whether a particle, (C n,), is of the prior in its mixture with q, of which this is the share."""
        odds = np.log1p(-share) - np.log(share) + self.log_sites(f[None, :])[0]
        return bool(rng.random() < expit(-odds))

    def factor(self, precision: np.ndarray) -> np.ndarray:
        """Return the factor of B = I + W^1/2 K W^1/2 for terms with these precisions: (n,) to (n, n)."""
        scaled = linalg.scaled_plus_identity(self.prior.covariance, np.sqrt(precision))
        return linalg.cholesky(scaled, overwrite=True)

    def _differences(self, f: np.ndarray, where: np.ndarray, width: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the terms, their slopes and minus their curvatures at places of the vector: (k, n) arrays."""
        rows = np.stack([f, f, f])
        for row, moved in zip(rows, (where, where + width, where - width), strict=True):
            row[:, self.block] = moved
        at, above, below = self.likelihood.log_density(rows.reshape(3 * len(f), -1)).reshape(3, len(f), -1)
        return at, (above - below) / (2.0 * width), (2.0 * at - above - below) / np.square(width)

    def _log_integral(self, terms: Quadratic) -> float:
        try:
            return terms.log_integral(self.prior, self.factor(terms.precision))
        except linalg.NotPositiveDefiniteError:
            return -np.inf


def is_normal_given_others(likelihood: Any, mean: np.ndarray, deviation: np.ndarray, vectors: int, vector: int) -> bool:
    """Return whether each term is a concave quadratic function of one vector, or does not depend on it.

    `mean`, `deviation` (C n,): moments of the prior.
    """
    n = mean.size // vectors
    block, rng = slice(vector * n, (vector + 1) * n), np.random.default_rng(0)
    for _ in range(3):
        rows = np.tile(mean + deviation * rng.uniform(-1.0, 1.0, mean.size), (4, 1))
        rows[:, block] = mean[block] + np.outer([-1.5, -0.5, 0.5, 1.5], deviation[block])
        with np.errstate(all="ignore"):
            values = likelihood.log_density(rows)
            rounded = ROUNDING * np.abs(values).sum(axis=0)
            third = np.abs(np.diff(values, 3, axis=0)[0])
            concave = values[0] - values[1] - values[2] + values[3] < -rounded
            constant = np.ptp(values, axis=0) <= rounded
        if not ((third <= rounded) & (concave | constant)).all() or constant.all():
            return False
    return True
