"""Conjugate gradients for preconditioners that iterate themselves, and so differ from one iteration to the next.

As in Notay (2000), Flexible conjugate gradients, each new direction is made conjugate to the stored ones with their
actual products, and not with a recursion, which holds only for a fixed preconditioner.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pmgp.core.iterative.solvers import NotConvergedError, Preconditioner, Product, columnwise, refuse_indefinite
from pmgp.core.iterative.solvers.conjugate_gradients import STAGNATION

__all__ = ["FlexibleConjugateGradients", "Solved"]


class Solved(NamedTuple):
    """The part of a `Solution` that the study needs: `x` (n, 1), `iterations` (1,) of int."""

    x: np.ndarray
    iterations: np.ndarray


@dataclass(frozen=True)
class FlexibleConjugateGradients:
    """A solver of a linear system with conjugate gradients that allow preconditioners to iterate.

    - `tolerance`: the largest norm of b - C x in a solution
    - `cap`: largest number of iterations
    - `kept`: number of earlier directions to which a new one is made conjugate
    """

    tolerance: float
    cap: int = 1000
    kept: int = 15

    def solve(self, product: Product, b: np.ndarray, preconditioner: Preconditioner) -> Solved:
        """Return the solution of C x = b.

        Passes of the iteration start from recomputed residuals, as in `ConjugateGradients`, and errors are the same.

        `product`: product of C with columns; `b` (n, 1).
        """
        x, residual, iterations = np.zeros(b.shape), b, 0
        norm = _norm(residual)
        while not norm <= self.tolerance:
            step, made = self._one_pass(product, residual, preconditioner, self.cap - iterations)
            x, iterations = x + step, iterations + made
            residual = b - product(x)
            before, norm = norm, _norm(residual)
            if not norm <= self.tolerance and (iterations >= self.cap or not norm <= STAGNATION * before):
                raise NotConvergedError(
                    f"flexible conjugate gradients have not converged: after {iterations} iterations the residual is "
                    f"{norm:.3g}, and the tolerance is {self.tolerance:.3g}"
                )
        return Solved(x, np.array([iterations]))

    def _one_pass(
        self, product: Product, b: np.ndarray, preconditioner: Preconditioner, cap: int
    ) -> tuple[np.ndarray, int]:
        """Iterate from zero until the recursion's residual has converged, or up to the cap."""
        x, residual, made = np.zeros(b.shape), b, 0
        kept: deque[tuple[np.ndarray, np.ndarray, np.ndarray]] = deque(maxlen=self.kept)
        while made < cap and not _norm(residual) <= self.tolerance:
            direction = z = preconditioner.solve(residual)
            for earlier, image, curvature in kept:
                direction = direction - columnwise(image, z) / curvature * earlier
            image = product(direction)
            curvature, slope = columnwise(direction, image), columnwise(direction, residual)
            refuse_indefinite(curvature, slope)
            kept.append((direction, image, curvature))
            x = x + slope / curvature * direction
            residual = residual - slope / curvature * image
            made += 1
        return x, made


def _norm(residual: np.ndarray) -> float:
    return float(np.linalg.norm(residual, axis=0)[0])
