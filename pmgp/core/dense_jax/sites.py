"""A prior with its factor, and the same conditioned on Gaussian sites, as arrays that pure functions of JAX pass on.

The formulas are those of `core.numerics.conditioning`. Python never branches on a value here, so that `vmap` can make
one program for many chains.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.lax import while_loop
from jax.lax.linalg import cholesky

from pmgp.core.dense_jax import programs
from pmgp.core.gaussians.dense import RELATIVE_JITTERS


class FactorizedPrior(NamedTuple):
    """N(f|m, K): mean (n,), K and its lower Cholesky factor (n, n), which is NaN if K stays indefinite."""

    mean: Any
    covariance: Any
    factor: Any

    @property
    def definite(self) -> Any:
        """Whether K could be factorized."""
        return _finite(self.factor)

    @property
    def variance(self) -> Any:
        """Prior variances: (n,)."""
        return jnp.diagonal(self.covariance)


def factorized(mean: Any, covariance: Any) -> FactorizedPrior:
    """Return the prior with the first jitter, a fixed function of K, with which K can be factorized."""
    jitters = jnp.diagonal(covariance).mean() * jnp.array((0.0, *RELATIVE_JITTERS))
    identity = jnp.eye(len(covariance))

    def attempted(number: Any) -> tuple[Any, Any]:
        return number, cholesky(covariance + jitters[number] * identity, symmetrize_input=False)

    def failed(attempt: tuple[Any, Any]) -> Any:
        return (attempt[0] < len(jitters) - 1) & ~_finite(attempt[1])

    number, factor = while_loop(failed, lambda attempt: attempted(attempt[0] + 1), attempted(0))
    return FactorizedPrior(mean, covariance + jitters[number] * identity, factor)


class Conditioned(NamedTuple):
    """A prior times sites exp(b_i f_i - w_i f_i^2 / 2), normalized.

    `linear`, `precision` (n,): b and w; `mean` (n,); `log_determinant`: that of B = I + W^1/2 K W^1/2, NaN where B is
    indefinite; `factor` (n, n): its lower Cholesky factor; `log_normalizer`: log of the integral of prior times sites.
    """

    linear: Any
    precision: Any
    mean: Any
    log_determinant: Any
    factor: Any
    log_normalizer: Any

    def log_sites(self, f: Any) -> Any:
        """Return the log of the product of the sites at f: (..., n) -> (...)."""
        return (f * (self.linear - 0.5 * self.precision * f)).sum(axis=-1)


def conditioned(prior: FactorizedPrior, linear: Any, precision: Any) -> Conditioned:
    """Return the prior conditioned on sites with positive precisions."""
    factor, mean, log_determinant = programs.condition(prior.covariance, prior.mean, linear, precision)
    centered = linear - precision * prior.mean
    at_prior_mean = prior.mean @ (linear - 0.5 * precision * prior.mean)
    log_normalizer = at_prior_mean + 0.5 * (centered @ (mean - prior.mean) - log_determinant)
    return Conditioned(linear, precision, mean, log_determinant, factor, log_normalizer)


def _finite(factor: Any) -> Any:
    return jnp.isfinite(jnp.diagonal(factor)).all()
