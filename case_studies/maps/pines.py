"""Models of the pine saplings: counts on a grid, with a sparse or a dense prior of the log of their intensity.

The priors of the length-scale and the variance are those of the public code of Hensman, Matthews, Filippone and
Ghahramani (2015), whose processes have the squared exponential kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt

import pmgp
from case_studies.tools.saplings import SIDE, counts, middles

__all__ = ["BORDER", "PRIORS", "Matern1", "Model", "model"]

BORDER = 1.25
"""Meters that the lattice has around the square, some two and a half length-scales."""


class Matern1(pm.gp.cov.Stationary):
    """The Matern kernel of order 1, that of a field of :class:`pmgp.gp.SPDE`."""

    def full_from_distance(self, dist: Any, squared: bool = False) -> Any:
        """Evaluate the kernel at distances over the length-scale."""
        scaled = np.sqrt(2.0) * (pt.sqrt(dist) if squared else dist)
        apart = pt.maximum(scaled, 1e-6)
        return pt.switch(scaled > 1e-6, apart * pt.kv(1.0, apart), 1.0)


class Field(NamedTuple):
    """The log of the intensity, and which of its elements are those of the square's cells."""

    values: Any
    seen: np.ndarray


class Model(NamedTuple):
    """A model with what :class:`Field` says of it."""

    model: pm.Model
    seen: np.ndarray


def _sparse(side: int, lengthscale: Any, variance: Any) -> Field:
    spacing = SIDE / side
    lattice = pmgp.gp.Lattice((side, side), spacing=spacing, border=round(BORDER / spacing))
    field = pmgp.gp.SPDE(lattice, lengthscale=lengthscale, sigma=pm.math.sqrt(variance))
    return Field(field.prior("f"), lattice.interior)


def _dense(kernel: type, side: int, lengthscale: Any, variance: Any) -> Field:
    process = pm.gp.Latent(cov_func=variance * kernel(2, ls=lengthscale))
    return Field(process.prior("f", X=middles(side), reparameterize=False), np.full(side**2, True))


PRIORS: dict[str, Callable[[int, Any, Any], Field]] = {
    "SPDE": _sparse,
    "dense Matern 1": lambda *given: _dense(Matern1, *given),
    "dense squared exponential": lambda *given: _dense(pm.gp.cov.ExpQuad, *given),
}
"""By name: from the number of squares along a side, the length-scale and the variance to the field."""


def model(prior: str, side: int) -> Model:
    """Return the model of the counts on a grid with `side` squares along a side, with one of :data:`PRIORS`."""
    with pm.Model() as found:
        lengthscale, variance = pm.Gamma("lengthscale", 1.75, 1.0), pm.Gamma("variance", 1.2, 1.0)
        field = PRIORS[prior](side, lengthscale, variance)
        rate = (SIDE / side) ** 2 * pm.math.exp(field.values[field.seen] if prior == "SPDE" else field.values)
        pm.Poisson("y", rate, observed=counts(side))
    return Model(found, field.seen)
