"""q(f), the prior times Gaussian sites, the form of both Laplace's method and expectation propagation.

q(f) is proportional to N(f|m, K) prod_i exp(b_i f_i - w_i f_i^2 / 2). In this form an importance weight costs O(n)
and a draw O(n^2): neither K^-1 nor the posterior covariance is ever formed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from math import nan
from typing import Any

import numpy as np

from pmgp.core.gaussians.base import INFORMATIVE, ConditionedPrior, Posterior, Reached
from pmgp.core.gaussians.held import HeldCovariance
from pmgp.core.gaussians.site_groups import SiteGroups, site_groups
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.likelihoods.compiled_terms import (
    ESTIMATED,
    LOG_RATIOS,
    NEWTON,
    RENEWED,
    SLICE,
    SWEEPS,
    WEIGHED,
    kernel_with_terms,
)
from pmgp.core.numerics import linalg
from pmgp.core.numerics.block_matrices import DenseBlocks
from pmgp.core.numerics.compiled.loading import for_rows, uniform_numbers, vectors
from pmgp.core.numerics.compiled.outcomes import INDEFINITE, MATCHED
from pmgp.core.numerics.conditioning import condition, deviations, log_normalizer, log_sites, stepped, swept
from pmgp.core.numerics.ledger import record

__all__ = ["Conditioning", "SiteApproximation", "moved_by_kernel"]

Weighed = tuple[float, np.ndarray, np.ndarray, np.ndarray]
"""Log of the mean weight, particles, their log-weights, and weights that sum to one."""


@dataclass(frozen=True, eq=False)
class SiteApproximation(Posterior):
    """A Gaussian q(f) close to p(f|y, theta); `Posterior` describes its other attributes.

    Attributes
    ----------
    factor : (n, n) array
        Lower Cholesky factor of B = I + W^1/2 K W^1/2.
    """

    prior: HeldCovariance
    linear: np.ndarray
    precision: np.ndarray
    mean: np.ndarray
    factor: np.ndarray
    log_evidence: float
    iterations: int
    converged: bool = True

    @classmethod
    def written(
        cls,
        prior: HeldCovariance,
        memory: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
        log_evidence: float,
        iterations: int,
        converged: bool,
        known: dict[str, Any],
    ) -> SiteApproximation:
        """Make q from b, w, mean and factor, and from other attributes that are already known."""
        q, (linear, precision, mean, factor) = object.__new__(cls), memory
        # The same as the constructor, which takes longer because it sets frozen fields one by one.
        q.__dict__.update(
            prior=prior,
            linear=linear,
            precision=precision,
            mean=mean,
            factor=factor,
            log_evidence=log_evidence,
            iterations=iterations,
            converged=converged,
            **known,
        )
        return q

    @cached_property
    def matrices(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """L, K and the factor of B, transposed, as kernels take them: (n, n) each."""
        prior_factor, covariance = np.asfortranarray(self.prior.factor), np.asfortranarray(self.prior.covariance)
        return prior_factor.T, covariance.T, np.asfortranarray(self.factor).T

    @cached_property
    def log_determinant(self) -> float:
        """Log-determinant of B."""
        return linalg.log_determinant(self.factor)

    @cached_property
    def inverse_diagonal(self) -> np.ndarray:
        """Diagonal of B^-1: (n,)."""
        return linalg.inverse_diagonal(self.factor)

    @property
    def variance(self) -> np.ndarray:
        """Marginal variances of q: (n,)."""
        return self.variance_given(self.inverse_diagonal)

    def variance_given(self, inverse_diagonal: np.ndarray) -> np.ndarray:
        """Return the variances of q for a known diagonal of B^-1: (n,)."""
        variance = super().variance_given(inverse_diagonal)
        flat = np.flatnonzero(self.precision * self.prior.variance < INFORMATIVE)
        if flat.size:
            # 1 - diag(B^-1) has lost its digits.
            unit = np.zeros((self.size, flat.size))
            unit[flat, np.arange(flat.size)] = 1.0
            variance[flat] = self.product(unit)[flat, np.arange(flat.size)]
        return variance

    @cached_property
    def log_normalizer(self) -> float:
        """Log of the integral of N(f|m, K) prod_i exp(b_i f_i - w_i f_i^2 / 2) over f."""
        linear, precision, mean = self.sites_and_mean
        return log_normalizer(self.prior.mean, linear, precision, mean, self.log_determinant)

    @cached_property
    def sites_and_mean(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """b, w and the mean, as kernels take them: (n,) each."""
        linear, precision, mean = vectors(self.linear, self.precision, self.mean)
        return linear, precision, mean

    def log_ratio(self, likelihood: Likelihood, f: np.ndarray) -> np.ndarray:
        """Return the log of the likelihood over the sites, prod_i p(y_i|f_i) / site_i(f_i): (..., n) -> (...)."""
        kernel = kernel_with_terms(likelihood, LOG_RATIOS)
        if kernel is None:
            return likelihood.log_likelihood(f) - log_sites(self.linear, self.precision, f)
        return for_rows(partial(kernel, *self.sites_and_mean[:2]), f)

    def sample_deviations(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw f - mean from q: (size, n)."""
        return deviations(*self.matrices, self.sites_and_mean[1], rng.standard_normal((2, size, self.size)))

    def deviations_from(self, normals: np.ndarray) -> np.ndarray:
        """Turn standard normals into draws of f - mean from q: (2, size, n) -> (size, n)."""
        return deviations(*self.matrices, self.sites_and_mean[1], np.array(normals, dtype=float, order="C"))

    def product(self, x: np.ndarray) -> np.ndarray:
        """Return products of q's covariance with vectors: (n,) or (n, k)."""
        root = np.sqrt(self.precision).reshape(-1, *[1] * (x.ndim - 1))
        along = self.prior.product(x)
        return along - self.prior.product(root * linalg.cholesky_solve(self.factor, root * along))

    def project(self, cross: np.ndarray) -> np.ndarray:
        """Return C_B^-1 W^1/2 C for the covariances C of shape (n, k) with other variables, C_B the factor of B.

        The squared norms of its columns are the reductions of those variables' variances by the sites.
        """
        return linalg.triangular_solve(self.factor, np.asfortranarray(np.sqrt(self.precision)[:, None] * cross))

    def regressions(self, variance: np.ndarray) -> np.ndarray:
        """Return the coefficients of regressions of all latent values on each one, a row for each: (n, n)."""
        covariance = self.prior.product(np.eye(self.size))
        projected = self.project(covariance)
        slopes = (covariance - projected.T @ projected) / variance[:, None]
        np.fill_diagonal(slopes, 1.0)
        return slopes

    def conditioned(self) -> ConditionedPrior:
        """Return the prior conditioned on q's sites, in its own memory."""
        found = Conditioning(self.prior)
        found._memory = found._factor = self.factor.copy(order="F")
        found.linear, found.precision = self.linear, self.precision
        found.mean, found.log_determinant = self.mean, self.log_determinant
        return found

    def covariance_bar(self, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower triangle of (alpha alpha' - W^1/2 B^-1 W^1/2) / 2 and the diagonal of B^-1."""
        inverse, root = linalg.inverse(self.factor), np.sqrt(0.5 * self.precision)
        diagonal = inverse.diagonal().copy()
        # Elements above the diagonal are arbitrary.
        with np.errstate(all="ignore"):
            inverse *= root
            inverse *= -root[:, None]
        return linalg.add_outer(inverse, alpha), diagonal

    def shifted_bar(self, bar: np.ndarray, shift: np.ndarray, alpha: np.ndarray) -> np.ndarray:
        """Add (shift alpha' + alpha shift') / 2 to the lower triangle of a bar, in place."""
        return linalg.add_outer(bar, shift, alpha)

    def site_groups(self, number: int) -> SiteGroups:
        """Return the groups of sites that `SequentialSampling` takes in turn."""
        return site_groups(self, (self.prior,), DenseBlocks(self.precision[:, None, None]), number)

    def moved(
        self, rng: np.random.Generator, f: np.ndarray, value: float, likelihood: Likelihood, auxiliary: np.ndarray
    ) -> tuple[np.ndarray, float, int] | None:
        """Move f on an ellipse with a kernel."""
        # A derived class may have another log-ratio.
        if type(self).log_ratio is not SiteApproximation.log_ratio:
            return None
        return moved_by_kernel(self.sites_and_mean, rng, f, value, likelihood, auxiliary)

    def estimated(self, rng: np.random.Generator, likelihood: Likelihood, size: int, paired: bool) -> Weighed | None:
        """Draw from q and weigh the draws with one kernel."""
        kernel = kernel_with_terms(likelihood, ESTIMATED)
        if kernel is None or type(self).log_ratio is not SiteApproximation.log_ratio:
            return None
        first, second = rng.standard_normal((2, size, self.size))
        written = self._written(2 * size if paired else size)
        known = *self.sites_and_mean, *self.matrices, self.log_normalizer, paired
        log_evidence, multiplied = kernel(*known, first, second, *written)
        if multiplied:
            record("matvec", size)
        return log_evidence, *written

    def weighed(self, likelihood: Likelihood, deviations: np.ndarray, paired: bool) -> Weighed | None:
        """Weigh given draws of f - mean with one kernel."""
        kernel = kernel_with_terms(likelihood, WEIGHED)
        if kernel is None:
            return None
        written = self._written(2 * len(deviations) if paired else len(deviations))
        known = *self.sites_and_mean, np.ascontiguousarray(deviations, np.float64), paired, self.log_normalizer
        return kernel(*known, *written), *written

    def renewed(
        self, rng: np.random.Generator, particle: np.ndarray, likelihood: Likelihood, draws: int, paired: bool
    ) -> tuple[np.ndarray, Weighed, np.ndarray] | None:
        """Move a particle on an ellipse, and weigh `draws` draws that include it, with one kernel."""
        kernel = kernel_with_terms(likelihood, RENEWED)
        size = draws // 2 if paired else draws
        if kernel is None or size < 2:
            return None
        normals, moved, written = rng.standard_normal((2, size, self.size)), np.empty(self.size), self._written(draws)
        given = np.ascontiguousarray(particle, np.float64), rng.standard_exponential(), *uniform_numbers(rng)
        known = *self.sites_and_mean, *self.matrices, self.log_normalizer
        log_evidence, multiplied, chosen = kernel(*known, *given, paired, normals[0], normals[1], moved, *written)
        if multiplied:
            record("matvec", size)
        return moved, (log_evidence, *written), written[0][chosen]

    def _written(self, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Allocate memory for particles, log-weights and weights."""
        return np.empty((number, self.size)), np.empty(number), np.empty(number)


def moved_by_kernel(
    sites_and_mean: tuple[np.ndarray, np.ndarray, np.ndarray],
    rng: np.random.Generator,
    f: np.ndarray,
    value: float,
    likelihood: Likelihood,
    auxiliary: np.ndarray,
) -> tuple[np.ndarray, float, int] | None:
    """Make a slice move of f on an ellipse as `Gaussian.moved` does; the kernel draws its angles from the generator."""
    kernel = kernel_with_terms(likelihood, SLICE)
    if kernel is None:
        return None
    moved, outcome = np.empty(len(f)), np.array([value])
    given = *vectors(f, auxiliary), rng.standard_exponential(), *uniform_numbers(rng)
    evaluations = kernel(*sites_and_mean, *given, moved, outcome)
    return moved, float(outcome[0]), evaluations


class Conditioning(ConditionedPrior):
    """A prior that is conditioned on one set of sites after another, in the same memory.

    A search for sites uses it; `ConditionedPrior` describes its attributes. At the end, :meth:`approximation` hands the
    memory over to q, so that no two q share it.

    Parameters
    ----------
    prior : HeldCovariance
    """

    prior: HeldCovariance

    def __init__(self, prior: HeldCovariance) -> None:
        self.prior = prior
        self._memory: np.ndarray | None = None
        self._factor: np.ndarray | None = None
        self._known: dict[str, Any] = {}

    def on(self, linear: np.ndarray, precision: np.ndarray) -> bool:
        """Condition on sites, with one Cholesky factorization; return False if B is indefinite, as with NaN in K.

        Parameters
        ----------
        linear, precision : (n,) array
        """
        if self._memory is None:
            self._memory = np.empty((self.prior.size, self.prior.size), order="F")
        self._factor = None
        reached = condition(self.prior.covariance, self.prior.mean, linear, precision, self._memory)
        if reached is None:
            return False
        self._factor, self.linear, self.precision, self._known = self._memory, linear, precision, {}
        self.mean, self.log_determinant = reached
        return True

    def swept(self, terms: Any, settings: tuple[float, ...], sites: np.ndarray | None = None) -> Reached | None:
        """Sweep with a kernel, from the current sites or from given sites (2, n), which are changed."""
        kernel, n = kernel_with_terms(terms, SWEEPS), self.prior.size
        if kernel is None:
            return None
        if sites is None:
            sites, mean, factor = np.array([self.linear, self.precision]), np.array(self.mean), self._take()
            log_determinant = self.log_determinant
        else:
            mean, factor, log_determinant = np.empty(n), np.empty((n, n), order="F"), nan
        known = self.prior.covariance, self.prior.mean, log_determinant
        found = swept(kernel, *known, settings, sites, mean, factor)
        status, number, log_evidence, log_determinant, normalizer = found
        self._keep(None if status == INDEFINITE else factor, sites, mean, log_determinant)
        self._known["log_normalizer"] = normalizer
        return Reached(status, number, log_evidence)

    def newton(self, likelihood: Likelihood, start: np.ndarray | None, settings: tuple[float, ...]) -> Reached | None:
        """Find the mode with a kernel."""
        kernel, n = kernel_with_terms(likelihood, NEWTON), self.prior.size
        if kernel is None:
            return None
        mean = np.array(self.prior.mean if start is None else start)
        sites, factor = np.empty((2, n)), np.empty((n, n), order="F")
        known = self.prior.covariance, self.prior.mean, (*settings, start is None)
        found = stepped(kernel, *known, sites, mean, factor)
        if found is None:
            return Reached(INDEFINITE, 0, nan)
        number, log_evidence, log_determinant = found
        self._keep(factor, sites, mean, log_determinant)
        return Reached(MATCHED, number, log_evidence)

    def _keep(self, factor: np.ndarray | None, sites: np.ndarray, mean: np.ndarray, log_determinant: float) -> None:
        """Take over the memory that a kernel has written."""
        self._memory = self._factor = factor
        self.linear, self.precision = sites
        self.mean, self.log_determinant = mean, log_determinant
        self._known = {"sites_and_mean": (self.linear, self.precision, mean)}

    @property
    def inverse_diagonal(self) -> np.ndarray:
        """Diagonal of B^-1, which overwrites B's factor: no q can be made from these sites afterwards."""
        factor, self._factor = self._take(), None
        return linalg.inverse_diagonal(factor, overwrite=True)

    def approximation(self, log_evidence: float, iterations: int, converged: bool = True) -> SiteApproximation:
        """Return q for the current sites, which takes the memory over: the next sites get new memory."""
        factor = self._take()
        memory, self._memory, self._factor = (self.linear, self.precision, self.mean, factor), None, None
        known = {"log_determinant": self.log_determinant, **self._known}
        return SiteApproximation.written(self.prior, memory, log_evidence, iterations, converged, known)

    def _take(self) -> np.ndarray:
        if self._factor is None:
            raise ValueError("the factor of B is missing: condition on sites first")
        return self._factor
