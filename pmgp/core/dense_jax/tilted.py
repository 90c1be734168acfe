"""Moments of terms times normal densities by quadrature, as `core.numerics.quadrature` computes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from pmgp.core.numerics.quadrature import RESOLUTION, TiltedMoments, normal_rule

ORDER = 32


def tilted_moments(log_density: Callable[[Any], Any], mean: Any, variance: Any, near: tuple[Any, Any]) -> TiltedMoments:
    """Return the moments of the densities proportional to exp(log_density(f)) N(f|mean, variance), one for each site.

    `log_density`: log p(y_i|f_i), (n,) -> (n,); `mean`, `variance` (n,); `near`: means and variances, (n,) each, of the
    normals about which nodes are placed. Mean and variance are NaN where a term vanishes at all nodes.
    """
    nodes, weights = (jnp.asarray(part)[:, None] for part in normal_rule(ORDER))
    center, width = near
    # Rounding would move the sum of center and node by more than a very small variance.
    deviations = (center - mean) + jnp.sqrt(width) * nodes
    logs = jax.vmap(log_density)(mean + deviations) + 0.5 * (jnp.square(nodes) - jnp.square(deviations) / variance)
    largest = logs.max(axis=0)
    values = weights * jnp.exp(logs - largest)
    total = values.sum(axis=0)
    first = (values * nodes).sum(axis=0) / total
    second = (values * jnp.square(nodes - first)).sum(axis=0) / total
    return TiltedMoments(
        mean + ((center - mean) + jnp.sqrt(width) * first),
        width * jnp.maximum(second, RESOLUTION),
        largest + jnp.log(total) + 0.5 * jnp.log(width / variance),
    )
