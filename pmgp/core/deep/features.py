"""Random features Phi with E[Phi Phi'] = K (Cutajar, Bonilla, Michiardi and Filippone 2017, section 3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp


@dataclass(frozen=True)
class Kernel:
    """A kernel as an expectation over Omega ~ N(0, diag(l)^-2), given by its features of the projections X Omega.

    Attributes
    ----------
    activation : callable
        From projections, shape (n, N), to features of unit variance, shape (n, N * copies), not yet divided by sqrt(N).
    copies : int
        Features for each column of Omega.
    """

    activation: Callable[[Any], Any]
    copies: int

    def features(self, projections: Any, variance: Any) -> Any:
        """Return Phi, shape (n, N * copies), for projections of shape (n, N)."""
        return jnp.sqrt(variance / projections.shape[-1]) * self.activation(projections)


def _waves(projections: Any) -> Any:
    return jnp.concatenate([jnp.cos(projections), jnp.sin(projections)], axis=-1)


def _steps(projections: Any) -> Any:
    return jnp.sqrt(2.0) * (projections > 0).astype(projections.dtype)


def _ramps(projections: Any) -> Any:
    return jnp.sqrt(2.0) * jnp.maximum(projections, 0.0)


KERNELS = {"rbf": Kernel(_waves, 2), "arc-cosine-0": Kernel(_steps, 1), "arc-cosine-1": Kernel(_ramps, 1)}
