"""Laplace's approximation: Newton's method for the mode of p(f|y, theta).

This follows section 2.1.1 of the pseudo-marginal article, with two changes that save factorizations. q takes its
curvature from the last point at which B was factorized, so that no factorization is made at the mode itself; and the
start can be predicted from theta (see `pmgp.core.adaptation.mode_prediction`). With both, q is still a function of
theta alone, as an importance density must be.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import NamedTuple

import numpy as np

from pmgp.core.approximations.block_propagation import SHARP
from pmgp.core.approximations.families import family_of
from pmgp.core.approximations.gradients import EvidenceGradient
from pmgp.core.approximations.moment_matching import UnknownMomentsError
from pmgp.core.approximations.terms_alone import approximation_by_terms
from pmgp.core.gaussians import SMALLEST_PRECISION, BlockApproximation, ConditionedPrior, Posterior, Prior
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.numerics.arrays import check_tolerance, check_whole
from pmgp.core.numerics.compiled.outcomes import INDEFINITE

MAX_HALVINGS = 20
# A caller who allows fewer iterations wants the iterate that they reach. After this many, Newton's method is lost.
PATIENCE = 20
# A negative square that is no rounding error of zero.
ROUNDED = 1e-3
# Nats by which q may still move where expectation propagation replaces a spike.
NEAR = 0.05
# The mean square of the last change of f may be larger in deviations of the sites than in units of f by this factor. It
# need not be smaller than rounding allows.
RELATIVE_STEP, SMALLEST_STEP = 50.0, 1e-10


class Iterate(NamedTuple):
    """An iterate of Newton's method: f, a = K^-1 (f - m) and the log of p(y|f) N(f|m, K) up to a constant."""

    f: np.ndarray
    a: np.ndarray
    objective: float

    @classmethod
    def at(cls, likelihood: Likelihood, m: np.ndarray, f: np.ndarray, a: np.ndarray) -> Iterate:
        """Return the iterate with its objective, minus infinity if rounding has made (f - m)' K^-1 (f - m) negative."""
        square = float(a @ (f - m))
        return cls(f, a, float(likelihood.log_likelihood(f)) - 0.5 * square if square > -ROUNDED else -np.inf)


@dataclass(frozen=True)
class Laplace:
    """Gaussian approximation at the posterior mode of f.

    Parameters
    ----------
    tolerance : float
        Newton's method stops when the mean squared change of f falls below this; the article uses 1e-4. In deviations
        of the sites, it must fall below fifty times this, which matters where f is measured in large units. The
        remaining error is of the order of the square of the last change.
    max_iterations : int
        Largest number of Newton steps. If it is reached, or the likelihood has no curvature, the result of expectation
        propagation is returned, marked as not converged. With a number below twenty it is the last iterate instead.
    sweeps : int
        Sweeps of moment matching in :meth:`refine`, before importance samples are drawn; 0 for plain Laplace.

    Raises
    ------
    ValueError
        For settings out of range.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> with pmgp.models.classifier(X, X[:, 0] > 0.5):
    ...     step = pmgp.PseudoMarginal(approximation=pmgp.approximations.Laplace(sweeps=2))
    """

    tolerance: float = 1e-3
    max_iterations: int = 100
    sweeps: int = 2

    def __post_init__(self) -> None:
        check_tolerance(self.tolerance)
        check_whole(max_iterations=self.max_iterations)
        check_whole(0, sweeps=self.sweeps)

    def fit(self, prior: Prior, likelihood: Likelihood, start: np.ndarray | None = None) -> Posterior | None:
        """Approximate p(f|y, theta).

        Parameters
        ----------
        prior : Prior
        likelihood : Likelihood
            A likelihood with one latent value a term, or a `BlockLikelihood`.
        start : (n,) array, optional
            Start of Newton's method; the prior mean if it is not given or turns out to be worse than that.

        Returns
        -------
        Posterior or None
            An approximation of the prior's kind; None if B is indefinite, for example because K contains NaN.
        """
        # A non-finite start has a non-finite norm; a start whose norm overflows is not worth keeping.
        start = start if start is not None and isfinite(start.dot(start)) else None
        conditioned = prior.conditioning()
        settings = self.tolerance, SMALLEST_PRECISION, self.max_iterations, MAX_HALVINGS
        reached = conditioned.newton(likelihood, start, settings)
        if reached is None:
            return self.search(prior, likelihood, start)
        if reached.status == INDEFINITE:
            return None
        return conditioned.approximation(reached.log_evidence, reached.iterations)

    def search(self, prior: Prior, likelihood: Likelihood, start: np.ndarray | None = None) -> Posterior | None:
        """Do the same as :meth:`fit` step by step, for any likelihood and without kernels to compile.

        Where Newton's method ends nowhere, it begins again at an approximation that needs no curvature. Where this does
        not help, as at a kink, there is no Laplace's approximation: expectation propagation's is returned, marked as
        not converged. So it is where the mode is a spike, as that of a process for the noise's scale can be.
        """
        # Far from the mode of a steep density its derivatives overflow, and there is no way on.
        with np.errstate(over="ignore", invalid="ignore"):
            return self._search(prior, likelihood, start)

    def _search(self, prior: Prior, likelihood: Likelihood, start: np.ndarray | None) -> Posterior | None:
        found = self._climb(prior, likelihood, start)
        if found is not None and found.converged:
            return self._beside_spike(found, likelihood) or found
        made = found.iterations if found is not None else 0
        instead = approximation_by_terms(prior, likelihood, made)
        if instead is None:
            at_kink = 0 < made < self.max_iterations
            return self._climb(prior, likelihood, start, made, past_kinks=True) if at_kink else found
        again = self._climb(prior, likelihood, instead.mean, instead.iterations)
        if again is not None and again.converged:
            return again
        matched = family_of(prior).propagated(instead, likelihood, self.tolerance, self.max_iterations)
        q = matched if isinstance(matched, Posterior) else instead
        return q.conditioned().approximation(q.log_evidence, q.iterations, converged=False)

    def _beside_spike(self, found: Posterior, likelihood: Likelihood) -> Posterior | None:
        """Return expectation propagation's q if the mode that was found is a spike, marked as not converged."""
        if not (isinstance(found, BlockApproximation) and found.sharpness > SHARP):
            return None
        try:
            q = family_of(found.prior).propagated_from_prior(found.prior, likelihood, NEAR, self.max_iterations)
        except UnknownMomentsError:
            return None
        if not isinstance(q, Posterior):
            return None
        return q.conditioned().approximation(q.log_evidence, found.iterations + q.iterations, converged=False)

    def _climb(
        self, prior: Prior, likelihood: Likelihood, start: np.ndarray | None, made: int = 0, past_kinks: bool = False
    ) -> Posterior | None:
        """Return q where Newton's method ends, marked if that is no mode; None where B is indefinite.

        `made`: number of earlier iterations, to which those made here are added.
        """
        m = prior.mean
        conditioned = prior.conditioning()
        origin = Iterate(m, np.zeros_like(m), float(likelihood.log_likelihood(m)))
        trusted = start is None or not np.isfinite(start).all()
        current = origin if start is None or trusted else origin._replace(f=start)
        steps = 0
        while True:
            steps += 1
            if not conditioned.on(*conditioned.expansion(likelihood, current.f)):
                return None
            reached = Iterate.at(likelihood, m, conditioned.mean, conditioned.residual)
            if not trusted and not reached.objective >= origin.objective:
                current, trusted = origin, True
                continue
            change, size = reached.f - current.f, len(current.f)
            # Where f is small in its units and well determined, a small change may be many deviations.
            short = change.dot(change) < self.tolerance * size
            short = short and conditioned.information(change) < largest_step(self.tolerance) * size
            lost = not (past_kinks or _has_curvature(conditioned, current.f))
            if short or lost or steps >= self.max_iterations:
                break
            current = reached if not trusted else damped(likelihood, m, current, reached)
            trusted = True
        found = bool(short or (steps < PATIENCE and not lost))
        return conditioned.approximation(reached.objective - 0.5 * conditioned.log_determinant, made + steps, found)

    def refine(self, approximation: Posterior, likelihood: Likelihood) -> Posterior | None:
        """Match the mean and the variances of q to those of the posterior, for importance sampling.

        The log-evidence stays Laplace's. Likelihoods without tilted moments keep Laplace's sites.
        """
        return family_of(approximation.prior).matched(approximation, likelihood, self.sweeps)

    def start_from(self, approximation: Posterior) -> np.ndarray:
        """Return the mean of q, which is the mode: an (n,) array."""
        return approximation.mean

    def evidence_gradient(self, approximation: Posterior, likelihood: Likelihood) -> EvidenceGradient | None:
        """Return the gradient of the log-evidence, as exact as the mode is; None where K is indefinite."""
        family = family_of(approximation.prior)
        if approximation.converged or approximation.prior.in_blocks:
            return family.laplace_gradient(approximation, likelihood)
        return family.matched_gradient(approximation, likelihood)


def _has_curvature(conditioned: ConditionedPrior, f: np.ndarray) -> bool:
    """Whether each term whose slope at f would move f by a deviation of the prior also has a curvature there."""
    if conditioned.prior.in_blocks:
        return True
    gradient = conditioned.linear - conditioned.precision * f
    drawn = np.abs(gradient) * np.sqrt(conditioned.prior.variance) > 1.0
    return not np.any(drawn & (conditioned.precision <= conditioned.precisions[0]))


def largest_step(tolerance: float) -> float:
    """Return the largest mean square of the last change of f in units of the deviations of the sites."""
    return max(RELATIVE_STEP * tolerance, SMALLEST_STEP)


def damped(likelihood: Likelihood, m: np.ndarray, current: Iterate, reached: Iterate) -> Iterate:
    """Halve Newton's step until the objective does not fall; steps are linear in f and in a = K^-1 (f - m)."""
    step, candidate = 1.0, reached
    slack = 1e-9 * (1.0 + abs(current.objective))
    for _ in range(MAX_HALVINGS):
        if candidate.objective >= current.objective - slack:
            break
        step *= 0.5
        f = current.f + step * (reached.f - current.f)
        candidate = Iterate.at(likelihood, m, f, current.a + step * (reached.a - current.a))
    return candidate
