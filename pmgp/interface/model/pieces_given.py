"""Latent pieces that have grown: their new elements given theta and the elements that were sampled.

Later values of a series, and effects of new groups, are independent of the observations given theta and the sampled
elements, so their distribution is the prior conditioned on these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse


@dataclass(frozen=True, eq=False)
class GrownPiece:
    """A piece with some known elements, and the function from theta to the prior of all."""

    piece: Any
    known: np.ndarray

    def given(self, theta: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean of the new elements, and the lower Cholesky factor of their precision.

        Only the known elements of x (m,) are read.
        """
        block, pattern = self.piece(theta), self.piece.pattern
        upper = sparse.csc_array((block.upper, pattern.indices, pattern.indptr), shape=pattern.shape)
        precision = sparse.csr_array(upper + sparse.triu(upper, k=1).T)
        rows = precision[np.flatnonzero(~self.known)]
        own, cross = rows[:, np.flatnonzero(~self.known)].toarray(), rows[:, np.flatnonzero(self.known)]
        factor = linalg.cholesky(own, lower=True)
        pull = cross @ (x - block.mean)[self.known]
        return block.mean[~self.known] - linalg.cho_solve((factor, True), pull), factor
