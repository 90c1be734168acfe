"""Unbiased gradients of log N(y|m, K + diag(noise)), from solvers that are stopped at random.

As in Filippone and Engler (2015), section 4, the trace is estimated with Rademacher vectors r as r'C^-1 dC r, each with
one estimate of C^-1 r, and the quadratic term with two independent estimates of C^-1 (y - m) from one run. In the
article the factor 1/2 of the quadratic term is missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from pmgp.core.iterative.bars import CovarianceBar
from pmgp.core.iterative.gaussian import product_with
from pmgp.core.iterative.preconditioners import Kernel
from pmgp.core.iterative.roulette import Roulette
from pmgp.core.iterative.solvers import Preconditioner
from pmgp.core.numerics.arrays import check_whole


class UnbiasedGradient(NamedTuple):
    """An unbiased estimate of a gradient.

    `covariance`: gradient in K and in the noise; `mean` (n,): gradient in m.
    """

    covariance: CovarianceBar
    mean: np.ndarray


@dataclass(frozen=True)
class Ulisse:
    """An estimator of gradients with solvers that are stopped at random.

    `probes`: number of Rademacher vectors.
    """

    probes: int = 4
    roulette: Roulette = field(default_factory=Roulette)

    def __post_init__(self) -> None:
        check_whole(probes=self.probes)

    def gradient(
        self, rng: np.random.Generator, kernel: Kernel, noise: np.ndarray, y: np.ndarray, preconditioner: Preconditioner
    ) -> UnbiasedGradient:
        """Return an unbiased estimate of the gradient.

        `noise` (n,); `y` (n,): observations less their mean m.
        """
        product = product_with(kernel.product, noise)
        one, other = self.roulette.solve(rng, product, y, preconditioner, 2).T
        signs = rng.choice([-1.0, 1.0], size=(len(y), self.probes))
        solved = [self.roulette.solve(rng, product, r, preconditioner)[:, 0] for r in signs.T]
        left = np.column_stack([0.5 * one, *(-0.5 / self.probes * x for x in solved)])
        right = np.column_stack([other, signs])
        none = np.empty(0, dtype=np.intp)
        bar = CovarianceBar(left, right, none, np.empty((len(y), 0)), np.einsum("ij,ij->i", left, right))
        return UnbiasedGradient(bar, 0.5 * (one + other))
