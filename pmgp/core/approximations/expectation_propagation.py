"""Expectation propagation: Gaussian sites that give q the moments of the exact terms in their cavities.

Section 2.1.2 of the pseudo-marginal article, with all sites changed at once: a sweep is one factorization of B and one
triangular inversion (`moment_matching`). Sweeps start from Laplace's sites, or from sites predicted from theta, and go
on until q matches; all of that depends on theta alone, so that q does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from math import isfinite, nan
from typing import Any, cast

import numpy as np

from pmgp.core.approximations.block_gradients import matched_block_gradient
from pmgp.core.approximations.block_matching import match_block_moments
from pmgp.core.approximations.block_propagation import propagated
from pmgp.core.approximations.gradients import EvidenceGradient, matched_gradient
from pmgp.core.approximations.laplace import Laplace
from pmgp.core.approximations.moment_matching import LARGEST_SHARE, Conditioned, MatchedSites, Terms, matched_sites
from pmgp.core.gaussians import (
    BlockApproximation,
    BlockConditioning,
    BlockPrior,
    Conditioning,
    DensePrior,
    Posterior,
    Prior,
    SiteApproximation,
)
from pmgp.core.gaussians.sites import SMALLEST_PRECISION
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.likelihoods.blocks import BlockLikelihood
from pmgp.core.likelihoods.compiled_terms import SWEEPS, kernel_with_terms
from pmgp.core.numerics.block_matrices import BlockMatrix, ContrastBlocks
from pmgp.core.numerics.compiled.outcomes import INDEFINITE, MATCHED, NOT_CONVERGED
from pmgp.core.numerics.conditioning import swept

__all__ = ["ExpectationPropagation"]

# Fraction of the way to the matching sites that a sweep goes at least; sites that overshoot together by less than a
# factor of twenty, as those of duplicate inputs do, converge.
SMALLEST_STEP = 0.05
# A predicted start from which a sweep moves q further than this, in nats a site, is given up for Laplace's.
POOR_START = 0.5
SMALLEST_LOG_PRECISION = float(np.log(SMALLEST_PRECISION))
LARGEST_LOG_PRECISION = 30.0


@dataclass(frozen=True)
class ExpectationPropagation:
    """Gaussian approximation by expectation propagation.

    Its evidence and its importance weights are far better than Laplace's where the posterior of f is skewed, as it is
    for binary labels. A fit costs two to four times as much from nothing, and about as much from a predicted start.

    Parameters
    ----------
    tolerance : float
        Sweeps stop when one would change q by less than this: the Kullback-Leibler divergence of the two, in nats. The
        error of the log-evidence that is left is of the same size.
    max_sweeps : int
        Where q does not match after so many sweeps, it is Laplace's approximation, and is marked as not converged.
    laplace : Laplace
        Finds the sites to start from.

    Raises
    ------
    ValueError
        For settings out of range.
    """

    tolerance: float = 0.05
    max_sweeps: int = 50
    laplace: Laplace = field(default_factory=Laplace)

    def __post_init__(self) -> None:
        if not self.tolerance > 0.0:
            raise ValueError(f"tolerance must be positive, not {self.tolerance}")
        if self.max_sweeps < 1:
            raise ValueError(f"max_sweeps must be at least 1, not {self.max_sweeps}")

    def fit(self, prior: Prior, likelihood: Likelihood, start: np.ndarray | None = None) -> Any:
        """Approximate p(f|y, theta).

        Parameters
        ----------
        prior : DensePrior or BlockPrior
        likelihood : Likelihood
            Of terms of one latent value each, or a `BlockLikelihood`.
        start : (2n,) array, optional
            Sites as :meth:`start_from` describes them; Laplace's if they are not given or turn out to be poor.

        Returns
        -------
        SiteApproximation, BlockApproximation or None
            Of the prior's kind. Not ``converged`` where it is Laplace's approximation instead. Where the likelihood is
            zero its log-evidence is minus infinity. None where B is indefinite, as for a covariance with NaN in it.

        Raises
        ------
        ValueError
            If the likelihood does not know its tilted moments.
        """
        if isinstance(prior, BlockPrior):
            return self._fit_blocks(prior, cast("BlockLikelihood", likelihood), start)
        # Of what is not finite the square is not either; nothing is lost with starts whose square overflows.
        if start is not None and isfinite(start.dot(start)):
            matched = self._sweep_from(prior, likelihood, start)
            if isinstance(matched, SiteApproximation):
                return matched
        # Rare enough in a chain for a kernel not to be worth the wait for it.
        at_mode = self.laplace.search(prior, likelihood)
        if at_mode is None or not np.isfinite(at_mode.log_evidence):
            return at_mode
        matched = self._sweep(at_mode, likelihood, np.inf)
        if isinstance(matched, SiteApproximation):
            return matched
        return None if matched is Failure.INDEFINITE else replace(at_mode, converged=False)

    def _fit_blocks(
        self, prior: BlockPrior, likelihood: BlockLikelihood, start: np.ndarray | None
    ) -> BlockApproximation | None:
        """For several latent vectors, from sites as :meth:`start_from` describes them."""
        conditioned = BlockConditioning(prior)
        if start is not None and np.isfinite(start).all():
            linear, parameters = np.split(start, [prior.size])
            if conditioned.on(linear, likelihood.site_form.of(parameters, prior.sites)):
                begun = conditioned.approximation(np.nan, 0)
                matched = propagated(begun, likelihood, self.tolerance, self.max_sweeps, POOR_START * prior.sites)
                if matched is not None:
                    return matched
        at_mode = self.laplace.fit(prior, likelihood)
        if at_mode is None or not np.isfinite(at_mode.log_evidence):
            return at_mode
        matched = propagated(at_mode, likelihood, self.tolerance, self.max_sweeps, np.inf)
        return replace(at_mode, converged=False) if matched is None else matched

    def refine(self, approximation: Posterior, likelihood: Likelihood) -> Posterior:
        """Return the approximation as it is, where its moments match, and sweep once more where they nearly do.

        Sites that cannot match all moments go a share of the way in a sweep, and approach their fixed point more slowly
        than the divergence of two sweeps says; importance weights vary less for one sweep more.
        """
        if not (isinstance(approximation, BlockApproximation) and approximation.converged):
            return approximation
        if not _in_shares(approximation.precision):
            return approximation
        return match_block_moments(approximation, cast("BlockLikelihood", likelihood), 1) or approximation

    def start_from(self, approximation: Posterior) -> np.ndarray:
        """Sites (b, log w), as one (2n,) array, or of several latent vectors (b, what W is made of)."""
        if isinstance(approximation, BlockApproximation):
            linear, precision = approximation.matching or (approximation.linear, approximation.precision)
            return np.concatenate([linear, precision.parameters])
        return np.concatenate([approximation.linear, np.log(approximation.precision)])

    def evidence_gradient(self, approximation: Posterior, likelihood: Likelihood) -> EvidenceGradient | None:
        """Gradient of the log-evidence; Laplace's where that stands in. None where K is indefinite."""
        if not approximation.converged:
            return self.laplace.evidence_gradient(approximation, likelihood)
        if isinstance(approximation, BlockApproximation):
            return matched_block_gradient(approximation, cast("BlockLikelihood", likelihood))
        return matched_gradient(approximation, likelihood)

    def sweep(self, conditioned: Conditioning, terms: Terms) -> bool:
        """Sweep over any terms from the sites that a prior is conditioned on; whether q matches in the end.

        Parameters
        ----------
        conditioned : Conditioning
            Left with the sites of the last sweep, and without its factor of B.
        terms : Terms
        """
        return isinstance(self._sweep(conditioned, terms, np.inf), SiteApproximation)

    def _sweep_from(self, prior: DensePrior, likelihood: Likelihood, start: np.ndarray) -> SiteApproximation | Failure:
        """Sweep from sites that are a guess."""
        sites, largest = _sites_of(start), POOR_START * prior.size
        sweeps = kernel_with_terms(likelihood, SWEEPS)
        if sweeps is not None:
            return self._swept_from(prior, sweeps, sites, largest)
        # One whose sweeps are compiled is positive everywhere.
        if not np.isfinite(likelihood.log_likelihood(prior.mean)):
            return Failure.NOT_CONVERGED
        conditioned = Conditioning(prior)
        return self._sweep(conditioned, likelihood, largest) if conditioned.on(*sites) else Failure.INDEFINITE

    def _swept_from(
        self, prior: DensePrior, sweeps: Callable[..., Any], sites: np.ndarray, largest: float
    ) -> SiteApproximation | Failure:
        """The same by a kernel, which conditions on the sites first."""
        n = prior.size
        mean, factor = np.empty(n), np.empty((n, n), order="F")
        known = prior.covariance, prior.mean, nan
        found = swept(sweeps, *known, self._settings(largest), sites, mean, factor)
        status, number, log_evidence, log_determinant, normalizer = found
        if status != MATCHED:
            return Failure(status)
        return SiteApproximation.written(
            prior,
            (sites, mean, factor),
            log_evidence,
            number,
            log_determinant=log_determinant,
            log_normalizer=normalizer,
        )

    def _sweep(self, start: Conditioned, likelihood: Terms, largest: float) -> SiteApproximation | Failure:
        """Sweep until q matches; it fails where q moves by more than `largest` nats at once, too."""
        sweeps = kernel_with_terms(likelihood, SWEEPS)
        if sweeps is not None:
            return self._swept(start, sweeps, largest)
        current, conditioned = start, start if isinstance(start, Conditioning) else Conditioning(start.prior)
        iterations = start.iterations if isinstance(start, SiteApproximation) else 0
        step, last = 1.0, None
        for sweep in range(1, self.max_sweeps + 1):
            matched = matched_sites(current, likelihood)
            if matched is None:
                return Failure.INDEFINITE
            change = np.array([matched.linear - current.linear, matched.precision - current.precision])
            if last is not None:
                step = _secant_step(step * last, last - change, current.mean, matched.marginal_variance)
            divergence = _move(conditioned, current, matched, step * change)
            if divergence is None:
                return Failure.INDEFINITE
            current = conditioned
            # Nearly a quadratic function of the step; a short one does not count as a small change.
            divergence /= step**2
            if divergence < self.tolerance:
                return conditioned.approximation(matched.log_evidence, iterations + sweep)
            if not divergence < largest:
                break
            last = change
        return Failure.NOT_CONVERGED

    def _swept(self, start: Conditioned, sweeps: Callable[..., Any], largest: float) -> SiteApproximation | Failure:
        """The same by a kernel."""
        conditioned = start if isinstance(start, Conditioning) else Conditioning.of(cast("SiteApproximation", start))
        iterations = start.iterations if isinstance(start, SiteApproximation) else 0
        status, number, log_evidence = conditioned.swept(sweeps, *self._settings(largest))
        if status != MATCHED:
            return Failure(status)
        return conditioned.approximation(log_evidence, iterations + number)

    def _settings(self, largest: float) -> tuple[float, ...]:
        """Of a kernel."""
        return self.tolerance, largest, SMALLEST_STEP, SMALLEST_PRECISION, LARGEST_SHARE, self.max_sweeps


class Failure(Enum):
    """Why sweeps gave no q."""

    NOT_CONVERGED = NOT_CONVERGED
    INDEFINITE = INDEFINITE


def _in_shares(sites: BlockMatrix) -> bool:
    """Whether sites are those of a softmax with too many classes for them to match all covariances."""
    return isinstance(sites, ContrastBlocks) and len(sites.scale) > 3


def _sites_of(start: np.ndarray) -> np.ndarray:
    """b and w, in memory of their own: (2, n)."""
    sites = start.reshape(2, -1).copy()
    precision = sites[1]
    np.maximum(precision, SMALLEST_LOG_PRECISION, out=precision)
    np.minimum(precision, LARGEST_LOG_PRECISION, out=precision)
    np.exp(precision, out=precision)
    return sites


def _secant_step(moved: np.ndarray, reduced: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> float:
    """Length of the next step (Barzilai and Borwein 1988), from how much the last one reduced the change asked for.

    Where sites overshoot together that is more than all of it, and the steps become shorter: <s, r> / <r, r> for the
    last step s and the reduction r, in the metric of the marginal divergences that a change of the sites makes.

    Parameters
    ----------
    moved, reduced : (2, n) array
        Changes of b and w.
    mean, variance : (n,) array
        Of q's marginals.
    """
    s, r = _standardized(moved, mean, variance), _standardized(reduced, mean, variance)
    square = float(r @ r)
    return float(np.clip(s @ r / square, SMALLEST_STEP, 1.0)) if square > 0.0 else 1.0


def _standardized(change: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    linear, precision = change
    return np.concatenate([np.sqrt(variance) * (linear - precision * mean), variance * precision / np.sqrt(2.0)])


def _move(conditioned: Conditioning, current: Conditioned, matched: MatchedSites, change: np.ndarray) -> float | None:
    """Change the sites; how far q moves, in nats, or None where B is indefinite.

    With changes db, dw and dmu, and v the variances of the old q, the Kullback-Leibler divergence of the new q from it
    is [v' dw - log|B_new| + log|B_old| + dmu' (db - dw mu_old)] / 2: no inverse is needed.
    """
    db, dw = change
    old = current.mean
    if not conditioned.on(current.linear + db, np.maximum(current.precision + dw, SMALLEST_PRECISION)):
        return None
    spread = float(matched.marginal_variance @ dw) - conditioned.log_determinant + matched.log_determinant
    return 0.5 * (spread + float((conditioned.mean - old) @ (db - dw * old)))
