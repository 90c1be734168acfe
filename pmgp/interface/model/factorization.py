"""A check, with the Hessian in f, whether a likelihood factorizes over f although its terms do not.

One example is a likelihood whose only term is a sum over all observations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.graphs.compilation import CompiledWhenCalled
from pmgp.interface.model.theta_vector import ThetaVector


class HessianInF:
    """Products of the Hessian of log p(y|f, theta) in f with vectors."""

    def __init__(self, terms: list[TensorVariable], latent: TensorVariable, theta: ThetaVector) -> None:
        self._products = CompiledWhenCalled(partial(_compile_products, terms, latent, theta))

    def coupling(self, places: Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> str | None:
        """Return why the likelihood does not factorize over f, or None if it does.

        Products of the Hessian with a random direction are compared with its row sums times the direction: these are
        equal only if it is diagonal.
        """
        rng = np.random.default_rng(0)
        seen = False
        for theta, f, _ in places:
            direction = rng.standard_normal(f.shape)
            along, row_sums = self._products(f, direction, theta)
            diagonal = direction * row_sums
            if not np.isfinite([along, diagonal]).all():
                continue
            if not _close(along, diagonal):
                return "its Hessian is not diagonal"
            seen = True
        return None if seen else "some of its terms depend on several latent values, and its Hessian is not finite"


def _compile_products(terms: list[TensorVariable], latent: TensorVariable, theta: ThetaVector) -> Callable[..., Any]:
    """Compile the Hessian's product with a direction, and its row sums, as a function of (f, direction, theta)."""
    direction = pt.vector("direction")
    gradient = pt.grad(pt.add(*[term.sum() for term in terms], 0.0), latent)
    sums = [(gradient * direction).sum(), gradient.sum()]
    products = [pt.grad(total, latent, disconnected_inputs="ignore") for total in sums]
    return theta.compile([latent, direction], products, interpreted=True)


def _close(first: np.ndarray, second: np.ndarray) -> bool:
    return bool(np.allclose(first, second, rtol=1e-6, atol=1e-8 * (1.0 + np.abs(second).max())))
