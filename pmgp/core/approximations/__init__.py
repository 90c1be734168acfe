"""Gaussian approximations q(f) of p(f|y, theta).

May import: core.numerics, core.likelihoods, core.gaussians.
"""

from collections.abc import Callable
from functools import partial

from pmgp.core.approximations.base import Approximation, Differentiable
from pmgp.core.approximations.expectation_propagation import ExpectationPropagation
from pmgp.core.approximations.laplace import Laplace

__all__ = ["NAMES", "TIGHT", "Approximation", "Differentiable", "ExpectationPropagation", "Laplace"]

# Approximations by name.
NAMES: dict[str, type[Approximation]] = {"ep": ExpectationPropagation, "laplace": Laplace}
# The same for uses of their own evidence, or of its gradient, which holds only at the fixed point. Chains are exact
# even if their fits end earlier.
TIGHT: dict[str, Callable[[], Differentiable]] = {
    "ep": partial(ExpectationPropagation, tolerance=1e-8, max_sweeps=200),
    "laplace": partial(Laplace, tolerance=1e-12),
}
