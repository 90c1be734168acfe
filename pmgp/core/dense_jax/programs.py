"""JAX's programs of O(n^3) and O(n^2) operations with the matrices of a Gaussian.

They have the arguments and results of `core.numerics.conditioning`, with both triangles of K, and compute in double
precision whatever JAX's flag says. Matrices stay on the device where K is; vectors may be NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import jax
import jax.numpy as jnp
from jax.lax.linalg import cholesky, triangular_solve

# A triangle is inverted by halves down to this size, or to a sixteenth of the matrix, because products of matrices are
# several times as fast as solving for the identity. XLA takes a fifth of a second to compile each part.
SMALLEST_PART, MOST_PARTS = 64, 16


def in_double[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that runs with JAX's flag for double precision set."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with jax.enable_x64(True):
            return function(*args, **kwargs)

    return call


def program(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that compiles a function in double precision, with the options of `jax.jit`."""
    return lambda function: in_double(jax.jit(function, **options))


@program()
def factorize(covariance: Any) -> tuple[Any, Any]:
    """Return the lower Cholesky factor of K, and whether it is finite."""
    factor = cholesky(covariance, symmetrize_input=False)
    return factor, jnp.isfinite(jnp.diagonal(factor)).all()


@program()
def diagonal(covariance: Any) -> tuple[Any, Any]:
    """Return the diagonal of K, and whether all of K is finite."""
    return jnp.diagonal(covariance), jnp.isfinite(covariance).all()


@program()
def raised(covariance: Any, jitter: float) -> Any:
    """Return K plus a jitter on its diagonal."""
    index = jnp.arange(len(covariance))
    return covariance.at[index, index].add(jitter)


@program()
def condition(covariance: Any, prior_mean: Any, linear: Any, precision: Any) -> tuple[Any, Any, Any]:
    """Return the factor of B, q's mean, and the log-determinant of B, which is NaN where B is indefinite."""
    root = jnp.sqrt(precision)
    # The identity is added as a matrix: XLA fuses that with the products, and copies B if its diagonal is changed.
    factor = cholesky(root[:, None] * covariance * root + jnp.eye(len(root)), symmetrize_input=False)
    centered = linear - precision * prior_mean
    # f = m + K a, and where a site is sharp f = m + (b' - a) / w, as in `core.numerics.compiled.sites`.
    residual = root * _solved(factor, (centered / root)[:, None])[:, 0]
    sharp = precision * jnp.diagonal(covariance) > 1.0
    moved = jnp.where(sharp, (centered - residual) / precision, covariance @ residual)
    return factor, prior_mean + moved, 2.0 * jnp.log(jnp.diagonal(factor)).sum()


def log_normal(mean: Any, covariance: Any, y: Any, jitter: Any) -> Any:
    """Return log N(y|m, C), NaN where C is indefinite; the jitter is in units of the mean variance."""
    factor = _factor_with(covariance, jitter)
    whitened = triangular_solve(factor, (y - mean)[:, None], left_side=True, lower=True)
    return _log_normal(factor, jnp.square(whitened).sum())


def evidence_bars(mean: Any, covariance: Any, y: Any, jitter: Any, signs: Any = None) -> tuple[Any, Any, Any]:
    """Return log N(y|m, C) with its gradients in m, (n,), and in C, both triangles.

    With the `signs` (n, k) of independent probes, the gradient in C is an estimate.
    """
    factor = _factor_with(covariance, jitter)
    weighted = _solved(factor, (y - mean)[:, None])[:, 0]
    if signs is None:
        root = inverse_of_triangle(factor, _smallest(factor))
    else:
        root = triangular_solve(factor, signs, left_side=True, lower=True, transpose_a=True).T / signs.shape[1] ** 0.5
    bar = 0.5 * (jnp.outer(weighted, weighted) - root.T @ root)
    # The jitter grows with the mean variance.
    bar = bar + jitter * jnp.trace(bar) / len(y) * jnp.eye(len(y))
    return _log_normal(factor, weighted @ (y - mean)), weighted, bar


def _factor_with(covariance: Any, jitter: Any) -> Any:
    variance = jnp.diagonal(covariance).mean()
    return cholesky(covariance + jitter * variance * jnp.eye(len(covariance)), symmetrize_input=False)


def _log_normal(factor: Any, squares: Any) -> Any:
    return -0.5 * (squares + len(factor) * jnp.log(2.0 * jnp.pi)) - jnp.log(jnp.diagonal(factor)).sum()


@program()
def inverse_diagonal(factor: Any) -> Any:
    """Return the diagonal of B^-1, given the factor of B: (n,)."""
    # The norms of the columns of the factor's inverse, whose parts need not be assembled.
    parts = _inverse_in_parts(factor, _smallest(factor))
    upper, across, lower = (jnp.square(part).sum(axis=0) for part in parts)
    return jnp.concatenate([upper + across, lower])


@program(static_argnames="informative")
def deviations(prior_factor: Any, covariance: Any, factor: Any, precision: Any, normals: Any, informative: bool) -> Any:
    """Return draws less their mean, as `core.numerics.conditioning.deviations`: (2, size, n) -> (size, n).

    If all sites are `informative`, no product with K is made.
    """
    root = jnp.sqrt(precision)[:, None]
    u = prior_factor @ normals[0].T
    solved = _solved(factor, root * u + normals[1].T)
    return ((solved - normals[1].T) / root).T if informative else (u - covariance @ (root * solved)).T


@program()
def prior_deviations(prior_factor: Any, normals: Any) -> Any:
    """Return draws of the prior less their mean: (size, n) -> (size, n)."""
    return (prior_factor @ normals.T).T


@program()
def product(covariance: Any, x: Any) -> Any:
    """Return K x."""
    return covariance @ x


@program()
def shrunk_product(covariance: Any, factor: Any, precision: Any, x: Any) -> Any:
    """Return the product of q's covariance with x of shape (n, k)."""
    root, along = jnp.sqrt(precision)[:, None], covariance @ x
    return along - covariance @ (root * _solved(factor, root * along))


@program()
def covariance_bar(factor: Any, precision: Any, alpha: Any) -> tuple[Any, Any]:
    """Return both triangles of (alpha alpha' - W^1/2 B^-1 W^1/2) / 2, and the diagonal of B^-1."""
    triangle, root = inverse_of_triangle(factor, _smallest(factor)), jnp.sqrt(precision)
    inverse = triangle.T @ triangle
    return 0.5 * (jnp.outer(alpha, alpha) - root[:, None] * inverse * root), jnp.diagonal(inverse)


@program()
def shifted_bar(bar: Any, shift: Any, alpha: Any) -> Any:
    """Return a bar plus (shift alpha' + alpha shift') / 2."""
    across = jnp.outer(shift, alpha)
    return bar + 0.5 * (across + across.T)


def inverse_of_triangle(factor: Any, smallest: int) -> Any:
    """Return L^-1, by halves down to a size: its lower left block is -L_22^-1 L_21 L_11^-1."""
    if len(factor) <= smallest:
        return triangular_solve(factor, jnp.eye(len(factor)), left_side=True, lower=True)
    upper, across, lower = _inverse_in_parts(factor, smallest)
    return jnp.block([[upper, jnp.zeros((len(upper), len(lower)))], [across, lower]])


def _inverse_in_parts(factor: Any, smallest: int) -> tuple[Any, Any, Any]:
    """Return the upper left, lower left and lower right block of L^-1."""
    half = len(factor) // 2
    upper = inverse_of_triangle(factor[:half, :half], smallest)
    lower = inverse_of_triangle(factor[half:, half:], smallest)
    return upper, -lower @ (factor[half:, :half] @ upper), lower


def _smallest(matrix: Any) -> int:
    return max(SMALLEST_PART, -(-len(matrix) // MOST_PARTS))


def _solved(factor: Any, x: Any) -> Any:
    """Return (L L')^-1 x for x of shape (n, k)."""
    solve = partial(triangular_solve, factor, left_side=True, lower=True)
    return solve(solve(x), transpose_a=True)
