"""The posterior of the last layer's weights given its features, with the Gaussian that touches it at its mode.

The weights W, shape (P, C), are N(0, 1) a priori, and f = Phi W.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular

from pmgp.core.deep.likelihoods import JaxLikelihood

STEPS = 100
HALVINGS = 30
TOLERANCE = 1e-8  # in nats: the search ends when a step is expected to raise the log posterior by less


class Reference(NamedTuple):
    """N(mean, A^-1) with A = factor factor': the mode, shape (P, C), and a lower triangular factor, (PC, PC)."""

    mean: Any
    factor: Any

    def deviation(self, normals: Any) -> Any:
        """Turn standard normals, shape (PC,), into a draw of W less the mean, shape (P, C)."""
        return solve_triangular(self.factor, normals, trans=1, lower=True).reshape(self.mean.shape)


@partial(jax.jit, static_argnames="likelihood")
def log_posterior(likelihood: JaxLikelihood, theta: Any, Phi: Any, y: Any, W: Any) -> Any:
    """Return log p(y | Phi W) + log p(W), up to a constant."""
    return jnp.sum(likelihood.log_density(y, Phi @ W, theta)) - jnp.sum(W**2) / 2


@partial(jax.jit, static_argnames="likelihood")
def log_ratio(likelihood: JaxLikelihood, theta: Any, Phi: Any, y: Any, reference: Reference, normals: Any) -> Any:
    """Return the log posterior less the log reference, up to a constant, at the W to which `normals` correspond."""
    W = reference.mean + reference.deviation(normals)
    return log_posterior(likelihood, theta, Phi, y, W) + jnp.sum(normals**2) / 2


def touching(likelihood: JaxLikelihood, theta: Any, Phi: Any, y: Any, processes: int) -> Reference:
    """Return the Gaussian at the mode, found by Newton's steps that are halved until the log posterior rises.

    Raises
    ------
    FloatingPointError
        If the search does not end, as for a likelihood without a mode.
    """
    value = partial(log_posterior, likelihood, theta, Phi, y)
    W = jnp.zeros((Phi.shape[1], processes), Phi.dtype)
    for _ in range(STEPS):
        step, rise, factor = _newton(likelihood, theta, Phi, y, W)
        if rise < TOLERANCE:
            return Reference(W, factor)
        W = _risen(value, W, step)
    raise FloatingPointError(
        f"no mode of the last layer's weights after {STEPS} steps, the last of which should have gained {rise:.2g} "
        "nats: is the likelihood bounded, and are its derivatives continuous? Scale X and y to unit variance"
    )


def _risen(value: Any, W: Any, step: Any) -> Any:
    start = value(W)
    for halving in range(HALVINGS):
        candidate = W + step / 2**halving
        if value(candidate) > start:
            return candidate
    return W


@partial(jax.jit, static_argnames="likelihood")
def _newton(likelihood: JaxLikelihood, theta: Any, Phi: Any, y: Any, W: Any) -> tuple[Any, Any, Any]:
    """Return Newton's step, (P, C), the rise that it promises, and the factor of minus the Hessian."""
    curvature = jax.vmap(lambda one, f: _curvature(lambda g: likelihood.log_density(one[None], g[None], theta)[0], f))
    blocks = jnp.einsum("ncd,np,nq->pcqd", curvature(y, Phi @ W), Phi, Phi, optimize="optimal")
    factor = jnp.linalg.cholesky(blocks.reshape(W.size, W.size) + jnp.eye(W.size, dtype=Phi.dtype))
    gradient = jax.grad(partial(log_posterior, likelihood, theta, Phi, y))(W).ravel()
    step = cho_solve((factor, True), gradient)
    return step.reshape(W.shape), gradient @ step / 2, factor


def _curvature(log_density: Any, f: Any) -> Any:
    """Return the positive part of minus the Hessian in the values of one point, (C, C)."""
    values, vectors = jnp.linalg.eigh(-jax.hessian(log_density)(f))
    return (vectors * jnp.maximum(values, 0.0)) @ vectors.T
