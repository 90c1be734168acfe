"""Searches for sites as pure functions of JAX: expectation propagation and Laplace's method.

They make the steps of `core.approximations`, at most a given number of them, and report whether the last one was small
enough. Under `vmap` a search that has ended keeps its result while others go on. The caller has to reject fits that
have not converged; whether they converge is a function of theta, as the search is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.lax import while_loop

from pmgp.core.approximations.laplace import MAX_HALVINGS, largest_step
from pmgp.core.approximations.moment_matching import LARGEST_SHARE
from pmgp.core.approximations.propagation import SMALLEST_STEP
from pmgp.core.dense_jax.programs import inverse_diagonal
from pmgp.core.dense_jax.sites import Conditioned, FactorizedPrior, conditioned
from pmgp.core.dense_jax.tilted import tilted_moments
from pmgp.core.gaussians.base import SMALLEST_PRECISION, SMALLEST_VARIANCE


class Terms(NamedTuple):
    """`log_density`: log p(y_i|f_i) as a function of f, (n,) -> (n,); `derivatives`: its first and second ones."""

    log_density: Callable[[Any], Any]
    derivatives: Callable[[Any], tuple[Any, Any]]


class Fit(NamedTuple):
    """q for importance samples, the approximation's own log-evidence, and a start for fits at a nearby theta.

    `steps`: number of sweeps or of Newton steps; `converged`: whether the search ended before the largest number.
    """

    q: Conditioned
    log_evidence: Any
    start: Any
    steps: Any
    converged: Any

    @property
    def sites(self) -> Any:
        """The sites (b, log w) from which :func:`propagated` may start: (2, n)."""
        return jnp.stack([self.q.linear, jnp.log(self.q.precision)])


class _Matched(NamedTuple):
    """Changes of the sites that give q the tilted moments, the evidence and q's variances before them."""

    linear: Any
    precision: Any
    log_evidence: Any
    variance: Any


class _Sweep(NamedTuple):
    q: Conditioned
    change: Any
    step: Any
    log_evidence: Any
    number: Any
    divergence: Any


def propagated(prior: FactorizedPrior, terms: Terms, start: Any, tolerance: float, most: int) -> Fit:
    """Sweep from sites (b, log w), a (2, n) array, until a sweep would move q by less than a tolerance, in nats."""
    smallest = _smallest_precision(prior.variance)
    q = conditioned(prior, start[0], jnp.maximum(jnp.exp(start[1]), smallest))

    def goes_on(last: _Sweep) -> Any:
        return (last.number < most) & (last.divergence >= tolerance)

    def swept(last: _Sweep) -> _Sweep:
        matched = _matched(prior, terms, last.q)
        change = jnp.stack([matched.linear, matched.precision])
        shorter = _secant(last.step * last.change, last.change - change, last.q.mean, matched.variance)
        step = jnp.where(last.number > 0, shorter, 1.0)
        b, w = last.q.linear + step * change[0], last.q.precision + step * change[1]
        moved = conditioned(prior, b, jnp.maximum(w, smallest))
        spread = matched.variance @ change[1] * step - moved.log_determinant + last.q.log_determinant
        across = step * (moved.mean - last.q.mean) @ (change[0] - change[1] * last.q.mean)
        # The divergence is nearly quadratic in the step; a short step must not count as a small change.
        divergence = 0.5 * (spread + across) / step**2
        return _Sweep(moved, change, step, matched.log_evidence, last.number + 1, divergence)

    first = _Sweep(q, jnp.zeros_like(start), 1.0, jnp.nan, 0, jnp.inf)
    found = while_loop(goes_on, swept, first)
    fit = Fit(found.q, found.log_evidence, None, found.number, found.divergence < tolerance)
    return fit._replace(start=fit.sites)


def _matched(prior: FactorizedPrior, terms: Terms, q: Conditioned) -> _Matched:
    """Return the changes of the sites by one sweep of moment matching; NaN where K turns out to be indefinite."""
    share = inverse_diagonal(q.factor)
    share = jnp.where((share <= LARGEST_SHARE).all(), share, jnp.nan)
    spread = (1.0 - share) / q.precision
    variance = jnp.where(spread <= 0.0, prior.variance, spread)
    c, s = (q.mean - q.linear * variance) / share, jnp.minimum(variance / share, prior.variance)
    tilted = tilted_moments(terms.log_density, c, s, (q.mean, variance))
    b, w = q.linear, q.precision
    log_site = 0.5 * jnp.log(share) + share * (b * c + 0.5 * (b * b * s - w * c * c))
    precision = jnp.maximum(1.0 / tilted.variance - 1.0 / s, _smallest_precision(s))
    linear = tilted.mean * (1.0 / s + precision) - c / s
    sound = jnp.isfinite(tilted.mean) & (tilted.variance > 0.0)
    log_evidence = q.log_normalizer + (tilted.log_normalizer - log_site).sum()
    return _Matched(jnp.where(sound, linear - b, 0.0), jnp.where(sound, precision - w, 0.0), log_evidence, variance)


def _smallest_precision(variance: Any) -> Any:
    """Return the smallest precisions of sites, given the variances of f without them."""
    return SMALLEST_PRECISION / jnp.maximum(variance, SMALLEST_VARIANCE)


def _secant(moved: Any, reduced: Any, mean: Any, variance: Any) -> Any:
    """Return the length of the next step; see `core.approximations.propagation`."""

    def product(one: Any, other: Any) -> Any:
        along, across = one[0] - one[1] * mean, other[0] - other[1] * mean
        return (variance * along * across + 0.5 * jnp.square(variance) * one[1] * other[1]).sum()

    square = product(reduced, reduced)
    return jnp.where(square > 0.0, jnp.clip(product(moved, reduced) / square, SMALLEST_STEP, 1.0), 1.0)


class _Iterate(NamedTuple):
    """f, a = K^-1 (f - m), and the log of p(y|f) N(f|m, K) up to a constant."""

    f: Any
    a: Any
    objective: Any


class _Newton(NamedTuple):
    current: _Iterate
    reached: _Iterate
    q: Conditioned
    number: Any
    change: Any


def at_mode(prior: FactorizedPrior, terms: Terms, start: Any, tolerance: float, most: int, sweeps: int = 0) -> Fit:
    """Find the mode by Newton's method from an f, (n,), or from the prior mean if that is better.

    `tolerance`: mean squared change of f in the last step, unless that is many deviations of the sites; `sweeps`: the
    number of moment matchings that improve q afterwards. The log-evidence stays Laplace's.
    """
    origin = _iterate(prior, terms, prior.mean, jnp.zeros_like(prior.mean))
    first, q = _stepped(prior, terms, start)
    begin = selected(first.objective >= origin.objective, first, origin)

    def goes_on(last: _Newton) -> Any:
        return (last.number < most) & (last.change >= tolerance)

    def moved(last: _Newton) -> _Newton:
        reached, q = _stepped(prior, terms, last.current.f)
        squares = jnp.square(reached.f - last.current.f)
        # As in `core.approximations.laplace`, both must be small.
        change = jnp.maximum(squares.mean(), tolerance / largest_step(tolerance) * (q.precision * squares).mean())
        return _Newton(_damped(prior, terms, last.current, reached), reached, q, last.number + 1, change)

    found = while_loop(goes_on, moved, _Newton(begin, begin, q, 1, jnp.inf))
    q, log_evidence = found.q, found.reached.objective - 0.5 * found.q.log_determinant
    for _ in range(sweeps):
        matched = _matched(prior, terms, q)
        q = conditioned(prior, q.linear + matched.linear, q.precision + matched.precision)
    return Fit(q, log_evidence, found.reached.f, found.number, found.change < tolerance)


def _iterate(prior: FactorizedPrior, terms: Terms, f: Any, a: Any) -> _Iterate:
    return _Iterate(f, a, terms.log_density(f).sum() - 0.5 * a @ (f - prior.mean))


def _stepped(prior: FactorizedPrior, terms: Terms, f: Any) -> tuple[_Iterate, Conditioned]:
    """Return a whole Newton step from f, and the prior conditioned on the sites that the terms have there."""
    gradient, slope = terms.derivatives(f)
    # The absolute curvature stands for the Fisher information where the term is not concave.
    precision = jnp.maximum(jnp.abs(slope), _smallest_precision(prior.variance))
    q = conditioned(prior, precision * f + gradient, precision)
    return _iterate(prior, terms, q.mean, q.linear - precision * q.mean), q


def _damped(prior: FactorizedPrior, terms: Terms, current: _Iterate, reached: _Iterate) -> _Iterate:
    """Halve Newton's step until the objective does not fall; steps are linear in f and in a."""
    least = current.objective - 1e-9 * (1.0 + jnp.abs(current.objective))

    def falls(attempt: tuple[Any, _Iterate]) -> Any:
        return (attempt[0] < MAX_HALVINGS) & ~(attempt[1].objective >= least)

    def halved(attempt: tuple[Any, _Iterate]) -> tuple[Any, _Iterate]:
        share = 0.5 ** (attempt[0] + 1.0)
        f, a = (one + share * (other - one) for one, other in zip(current[:2], reached[:2], strict=True))
        return attempt[0] + 1, _iterate(prior, terms, f, a)

    return while_loop(falls, halved, (0, reached))[1]


def selected(condition: Any, one: Any, other: Any) -> Any:
    """Return one tree of arrays or the other, by a single condition."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), one, other)
