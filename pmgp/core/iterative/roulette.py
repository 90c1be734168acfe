"""ULISSE: solutions of linear systems that are stopped at random, with increments weighted so that the mean is exact.

Filippone and Engler (2015), Enabling scalable stochastic gradient-based inference for Gaussian processes by employing
the Unbiased LInear System SolvEr, section 4. With conjugate gradients x is a sum of increments. Those until the
residual is below a threshold are all added; each later increment j is added with probability P_j, divided by P_j.

The article's P_j = exp(-beta (0 + 1 + ... + j)) fall faster than the increments do. The mean is exact, but in practice
every solution is truncated: rare long runs have such large weights that the variance is enormous, and on Concrete the
formal standard deviation is 10^1895 times the solution. With :class:`Matched` P_j falls as the residuals do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pmgp.core.iterative.solvers import NotConvergedError, Preconditioner, Product, columnwise
from pmgp.core.iterative.solvers.conjugate_gradients import Conjugate

# Residuals that are this small relative to the right-hand side are rounding errors, and so are further increments.
ROUNDING = 1e-13


class Survival(Protocol):
    """Probabilities of keeping the increments after the threshold."""

    def probability(self, before: float, number: int, decrease: float) -> float:
        """Return P_j, given P_(j-1).

        `before`: P_(j-1), or one at first; `number`: j, from zero; `decrease`: norm of the residual, divided by the
        first norm below the threshold.
        """


@dataclass(frozen=True)
class Matched:
    """Probabilities P_j in proportion to the smallest residual so far, so that weighted increments keep their size."""

    def probability(self, before: float, number: int, decrease: float) -> float:
        """Return P_j, given P_(j-1)."""
        return min(before, decrease)


def increments(product: Product, b: np.ndarray, preconditioner: Preconditioner) -> Iterator[tuple[np.ndarray, float]]:
    """Yield the increments of conjugate gradients from zero, each with the norm of the residual before it.

    They end when residuals are only rounding errors.

    `product`: product of C with columns; `b` (n,).
    """
    directions, residual, whole = Conjugate(), b[:, None].copy(), float(np.linalg.norm(b))
    while (norm := float(np.linalg.norm(residual))) > ROUNDING * whole:
        direction, _ = directions.following(residual, preconditioner.solve(residual))
        image = product(direction)
        step = columnwise(direction, residual) / columnwise(direction, image)
        residual = residual - step * image
        yield (step * direction)[:, 0], norm


@dataclass(frozen=True)
class Roulette:
    """An unbiased solver of C x = b, with conjugate gradients that stop at random.

    - `threshold`: q: all increments are added while the norm of the residual is at least q sqrt(n)
    - `cap`: largest number of iterations
    """

    threshold: float = 1.0
    survival: Survival = Matched()
    cap: int = 10_000

    def solve(
        self, rng: np.random.Generator, product: Product, b: np.ndarray, preconditioner: Preconditioner, size: int = 1
    ) -> np.ndarray:
        """Return independent unbiased estimates of C^-1 b from one run of conjugate gradients: (n, size).

        Raises NotConvergedError at the cap, because stopping there would leave a bias.
        """
        return self.stopped_at(rng.random(size), product, b, preconditioner)

    def stopped_at(
        self, uniforms: np.ndarray, product: Product, b: np.ndarray, preconditioner: Preconditioner
    ) -> np.ndarray:
        """Return estimates that add increments while P_j exceeds their uniform number: (size,) -> (n, size)."""
        x = np.zeros((len(b), len(uniforms)))
        limit, reached, probability, after = self.threshold * np.sqrt(len(b)), 0.0, 1.0, 0
        for number, (increment, norm) in enumerate(increments(product, b, preconditioner)):
            if norm < limit:
                reached = reached or norm
                probability = self.survival.probability(probability, after, norm / reached)
                after += 1
            continuing = uniforms < probability
            if not continuing.any():
                break
            if number == self.cap:
                raise NotConvergedError(
                    f"the roulette has not stopped after {self.cap} iterations, where the residual is {norm:.3g}. "
                    "There is no estimate. Use a preconditioner of higher rank or a larger cap"
                )
            x[:, continuing] += increment[:, None] / probability
        return x
