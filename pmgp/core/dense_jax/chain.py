"""The exact pseudo-marginal chain as pure functions of JAX, which `vmap` turns into programs for many chains.

The chain is that of `core.marginal.pseudo_marginal`: transitions on the screen, one unbiased estimate that corrects
them, and a refreshment given the draw of f. A proposal whose approximation has not converged, or whose K is indefinite,
has a log-screen of minus infinity and is rejected. Whether it converges depends on theta and on a start that is frozen
when tuning ends, so the chain is exact for the posterior restricted to those theta where it does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from pmgp.core.dense_jax.estimates import Estimate, estimated, renewed
from pmgp.core.dense_jax.fits import Fit, Terms, selected
from pmgp.core.dense_jax.sites import FactorizedPrior, factorized

# As in `core.transitions.proposals`; only efficiency depends on them.
DEGREES_OF_FREEDOM, INFLATION = 5, 1.15


class Target(NamedTuple):
    """A model and its approximation as functions of JAX, and the settings of the chain.

    - `prior`: from theta, (dimension,), to log p(theta), the mean (n,) and the covariance (n, n) of f
    - `terms`: from theta to log p(y_i|f_i, theta) as a function of f
    - `fit`: from the prior of f, the terms as a function of f, and a start, to a `Fit`
    - `begin`: from the prior of f and the terms to a start, where none is known
    - `draws`: importance samples, an even number
    - `transitions`: moves on the screen in each iteration
    - `latent_moves`: slice moves of f in each iteration
    """

    prior: Callable[[Any], tuple[Any, Any, Any]]
    terms: Callable[[Any], Terms]
    fit: Callable[[FactorizedPrior, Terms, Any], Fit]
    begin: Callable[[FactorizedPrior, Terms], Any]
    draws: int
    transitions: int = 1
    latent_moves: int = 1


class Proposal(NamedTuple):
    """The proposal of `core.transitions.proposals.AdaptiveProposal`: a random walk, mixed with draws from a t density.

    `independence`: probability of the t; `scale`: of the random walk; `location` (dimension,); `factor` (dimension,
    dimension): lower Cholesky factor of the covariance; `inverse_factor`: its inverse.
    """

    independence: Any
    scale: Any
    location: Any
    factor: Any
    inverse_factor: Any


class Point(NamedTuple):
    """The screen at theta: log p(theta) plus the log-evidence of q, or minus infinity where that cannot be relied on.

    `definite`: whether K could be factorized.
    """

    theta: Any
    log_screen: Any
    prior: FactorizedPrior
    fit: Fit
    definite: Any


class State(NamedTuple):
    """The state of a chain: the screen at its theta, and the stored estimate with the retained particle."""

    point: Point
    estimate: Estimate


class Screened(NamedTuple):
    """A report of moves on the screen; `independent`: whether the last proposal was a draw from the t.

    `converged` and `definite` are true if they hold at all proposals with a positive prior density.
    """

    rate: Any
    independent: Any
    steps: Any
    converged: Any
    definite: Any


class Info(NamedTuple):
    """A report of an iteration; `latent` (n,) is the trace's draw of f."""

    accepted: Any
    rate: Any
    screened: Screened
    latent: Any


def screen(target: Target, theta: Any, start: Any) -> Point:
    """Evaluate the screen at theta, with a fit from a start that does not depend on the chain's state."""
    log_prior, mean, covariance = target.prior(theta)
    prior = factorized(mean, covariance)
    fit = target.fit(prior, target.terms(theta), start)
    value = log_prior + fit.log_evidence
    usable = jnp.isfinite(value) & fit.converged & prior.definite & jnp.isfinite(fit.q.log_determinant)
    # Outside the support of the prior, nothing counts as a failure.
    outside = ~jnp.isfinite(log_prior)
    fit = fit._replace(converged=fit.converged | outside | ~prior.definite)
    return Point(theta, jnp.where(usable, value, -jnp.inf), prior, fit, prior.definite | outside)


def proposed(key: Any, theta: Any, proposal: Proposal) -> tuple[Any, Any, Any]:
    """Draw theta'; return it, the log of the Hastings ratio, and whether it is independent of theta."""
    choosing, walking, dividing = jax.random.split(key, 3)
    independent = jax.random.uniform(choosing) < proposal.independence
    step = proposal.factor @ jax.random.normal(walking, theta.shape)
    divisor = jnp.sqrt(jnp.square(jax.random.normal(dividing, (DEGREES_OF_FREEDOM,))).mean())
    drawn = proposal.location + INFLATION * step / divisor
    ratio = _log_t(theta, proposal) - _log_t(drawn, proposal)
    moved = jnp.where(independent, drawn, theta + proposal.scale * step)
    return moved, jnp.where(independent, ratio, 0.0), independent


def _log_t(theta: Any, proposal: Proposal) -> Any:
    standard = proposal.inverse_factor @ (theta - proposal.location) / INFLATION
    return -0.5 * (DEGREES_OF_FREEDOM + len(theta)) * jnp.log1p(standard @ standard / DEGREES_OF_FREEDOM)


def move_on_screen(
    target: Target, proposal: Proposal, key: Any, current: Point, start: Any
) -> tuple[Point, Any, Screened]:
    """Make one transition on the screen: the point, whether theta has moved, and a report."""
    proposing, accepting = jax.random.split(key)
    theta, log_hastings, independent = proposed(proposing, current.theta, proposal)
    point = screen(target, theta, start)
    rate = jnp.exp(jnp.minimum(0.0, point.log_screen - current.log_screen + log_hastings))
    accepted = jax.random.uniform(accepting) < rate
    report = Screened(rate, independent, point.fit.steps, point.fit.converged, point.definite)
    return selected(accepted, point, current), accepted, report


def iterate(target: Target, proposal: Proposal, key: Any, state: State, start: Any) -> tuple[State, Info]:
    """Make one iteration of the exact chain."""
    screening, estimating, accepting, renewing = jax.random.split(key, 4)
    candidate, moved = state.point, False
    reports: list[Screened] = []
    for number in range(target.transitions):
        own = jax.random.fold_in(screening, number)
        candidate, accepted, report = move_on_screen(target, proposal, own, candidate, start)
        moved, reports = moved | accepted, [*reports, report]
    estimate = estimate_at(target, estimating, candidate)
    # The prior density is the same in the target and in the screen.
    log_ratio = estimate.log_evidence - candidate.fit.log_evidence
    log_ratio -= state.estimate.log_evidence - state.point.fit.log_evidence
    rate = jnp.where(moved, jnp.exp(jnp.minimum(0.0, log_ratio)), 0.0)
    accepted = jax.random.uniform(accepting) < rate
    point, kept = selected(accepted, State(candidate, estimate), state)
    terms, counts = target.terms(point.theta), (target.draws, target.latent_moves)
    latent, refreshed = renewed(renewing, point.prior, point.fit.q, terms, kept.particle, *counts)
    return State(point, refreshed), Info(accepted, rate, _summed(reports), latent)


def estimate_at(target: Target, key: Any, point: Point) -> Estimate:
    """Return an unbiased estimate of p(y|theta)."""
    return estimated(key, point.prior, point.fit.q, target.terms(point.theta), target.draws)


def _summed(reports: list[Screened]) -> Screened:
    rate, independent, steps, converged, definite = (jnp.stack(part) for part in zip(*reports, strict=True))
    return Screened(rate.mean(), independent[-1], steps.sum(), converged.all(), definite.all())
