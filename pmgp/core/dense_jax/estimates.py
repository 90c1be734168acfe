"""Unbiased estimates of p(y|theta) and exact draws of f, by importance samples from q, as pure functions of JAX.

Samples are pairs mu + e, mu - e, as in `core.estimators.importance`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.lax import while_loop
from jax.lax.linalg import triangular_solve
from jax.scipy.special import logsumexp

from pmgp.core.dense_jax.fits import Terms
from pmgp.core.dense_jax.sites import Conditioned, FactorizedPrior

# An ellipse that has shrunk this many times is a point, up to rounding.
MOST_SHRINKS = 100


class Estimate(NamedTuple):
    """An estimate of p(y|theta).

    `log_evidence`: log of the estimate, which is unbiased; `particle` (n,): a sample picked by its weight;
    `effective_size`: effective number of samples, NaN if all weights vanish.
    """

    log_evidence: Any
    particle: Any
    effective_size: Any


def deviations(key: Any, prior: FactorizedPrior, q: Conditioned, size: int) -> Any:
    """Return draws from q less its mean: (size, n).

    The draws are u - K W^1/2 B^-1 (W^1/2 u + e), with u a draw of the prior less its mean and e standard normal.
    """
    normals = jax.random.normal(key, (2, len(q.mean), size))
    root, u = jnp.sqrt(q.precision)[:, None], prior.factor @ normals[0]
    half = triangular_solve(q.factor, root * u + normals[1], left_side=True, lower=True)
    solved = triangular_solve(q.factor, half, left_side=True, lower=True, transpose_a=True)
    return (u - prior.covariance @ (root * solved)).T


def estimated(key: Any, prior: FactorizedPrior, q: Conditioned, terms: Terms, draws: int) -> Estimate:
    """Return an estimate from an even number of draws from q."""
    drawing, picking = jax.random.split(key)
    return weighed(picking, q, terms, deviations(drawing, prior, q, draws // 2))


def weighed(key: Any, q: Conditioned, terms: Terms, off: Any) -> Estimate:
    """Return the estimate from q's mean plus and minus deviations, (draws / 2, n)."""
    particles = jnp.concatenate([q.mean + off, q.mean - off])
    logs = jax.vmap(lambda f: log_ratio(q, terms, f))(particles) + q.log_normalizer
    logs = jnp.where(jnp.isnan(logs), -jnp.inf, logs)
    total = logsumexp(logs)
    effective = jnp.exp(2.0 * total - logsumexp(2.0 * logs))
    return Estimate(total - jnp.log(len(logs)), particles[jax.random.categorical(key, logs)], effective)


def log_ratio(q: Conditioned, terms: Terms, f: Any) -> Any:
    """Return the log of the likelihood over the sites at f, (n,)."""
    return terms.log_density(f).sum() - q.log_sites(f)


def renewed(
    key: Any, prior: FactorizedPrior, q: Conditioned, terms: Terms, particle: Any, draws: int, moves: int
) -> tuple[Any, Estimate]:
    """Move a draw from p(f|theta, y) by slices, and estimate given it (conditional importance sampling).

    It returns the moved draw, (n,), and the estimate. Both leave the extended target invariant: the estimate is made
    from the moved draw, its mirror image, and new pairs.
    """
    drawing, slicing, picking = jax.random.split(key, 3)
    off = deviations(drawing, prior, q, moves + draws // 2 - 1)
    for number in range(moves):
        particle = sliced(jax.random.fold_in(slicing, number), q, terms, particle, off[number])
    given = jnp.concatenate([(particle - q.mean)[None], off[moves:]])
    return particle, weighed(picking, q, terms, given)


class _Shrinking(NamedTuple):
    key: Any
    f: Any
    value: Any
    lower: Any
    upper: Any
    number: Any


def sliced(key: Any, q: Conditioned, terms: Terms, f: Any, off: Any) -> Any:
    """Move f, (n,), on an ellipse about q's mean through a deviation from it; p(f|theta, y) stays invariant."""
    waiting, turning = jax.random.split(key)
    level = log_ratio(q, terms, f) - jax.random.exponential(waiting)
    start = f - q.mean

    def tried(key: Any, lower: Any, upper: Any, number: Any) -> _Shrinking:
        key, own = jax.random.split(key)
        angle = jax.random.uniform(own, minval=lower, maxval=upper)
        moved = q.mean + start * jnp.cos(angle) + off * jnp.sin(angle)
        lower, upper = jnp.where(angle < 0.0, angle, lower), jnp.where(angle < 0.0, upper, angle)
        return _Shrinking(key, moved, log_ratio(q, terms, moved), lower, upper, number)

    def below(last: _Shrinking) -> Any:
        return ~(last.value >= level) & (last.number < MOST_SHRINKS)

    key, own = jax.random.split(turning)
    upper = jax.random.uniform(own, maxval=2.0 * jnp.pi)
    first = tried(key, upper - 2.0 * jnp.pi, upper, 0)
    return while_loop(below, lambda last: tried(last.key, last.lower, last.upper, last.number + 1), first).f
