"""Conjugate gradients for preconditioners that iterate themselves, and so differ from one iteration to the next.

As in Notay (2000), Flexible conjugate gradients, each new direction is made conjugate to the stored ones with their
actual products, and not with a recursion, which holds only for a fixed preconditioner.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from pmgp.core.iterative.solvers.base import Preconditioner, columnwise
from pmgp.core.iterative.solvers.conjugate_gradients import ConjugateGradients, Directions
from pmgp.core.numerics.arrays import check_whole


class Kept:
    """p = z minus its components along the stored directions, in the inner product of C."""

    def __init__(self, number: int) -> None:
        self._kept: deque[tuple[np.ndarray, np.ndarray, np.ndarray]] = deque(maxlen=number)

    def following(self, residual: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the next directions, with NaN for ratios, which have no meaning here."""
        direction = z
        for earlier, image, curvature in self._kept:
            direction = direction - columnwise(image, z) / curvature * earlier
        return direction, np.full(z.shape[1], np.nan)

    def took(self, direction: np.ndarray, image: np.ndarray, curvature: np.ndarray) -> None:
        """Store a direction in place of the oldest one."""
        self._kept.append((direction, image, curvature))

    def keep(self, columns: np.ndarray) -> None:
        """Keep only the given columns."""
        for place, (direction, image, curvature) in enumerate(self._kept):
            self._kept[place] = direction[:, columns], image[:, columns], curvature[columns]


@dataclass(frozen=True)
class FlexibleConjugateGradients(ConjugateGradients):
    """A solver of linear systems with conjugate gradients that allow preconditioners to iterate.

    Parameters
    ----------
    tolerance, cap
        See `ConjugateGradients`.
    kept : int
        Number of earlier directions to which a new one is made conjugate. For k right-hand sides they take the memory
        of 2 n k kept numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from pmgp.core.iterative.preconditioners import Identity
    >>> C = np.diag([1.0, 2.0, 4.0])
    >>> solution = FlexibleConjugateGradients(1e-10).solve(C.__matmul__, np.ones((3, 1)), Identity(3))
    >>> bool(np.allclose(solution.x[:, 0], [1.0, 0.5, 0.25]))
    True
    """

    kept: int = 15

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(kept=self.kept)

    def _refuse(self, preconditioner: Preconditioner) -> None:
        """Do nothing, since any preconditioner will do."""

    def _directions(self) -> Directions:
        return Kept(self.kept)
