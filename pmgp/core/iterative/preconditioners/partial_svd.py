"""P = the largest eigenvalues of K with their vectors, by random projections, + D (Cutajar et al. 2016, section 3.2.2).

Halko, Martinsson and Tropp (2011), algorithms 4.4 and 5.3: the range of K from products with random columns, and the
eigenvalues of K on that range.
"""

from __future__ import annotations

import numpy as np

from pmgp.core.iterative.preconditioners.base import Kernel
from pmgp.core.iterative.preconditioners.low_rank import Diagonal, LowRank

# Columns beyond the rank, as Halko et al. recommend.
EXCESS = 10


def partial_svd(
    kernel: Kernel, noise: np.ndarray, rank: int, rng: np.random.Generator, repetitions: int = 1
) -> LowRank:
    """Precondition by a truncated singular value decomposition.

    Parameters
    ----------
    kernel : Kernel
    noise : (n,) array
        Added to the diagonal of K, positive.
    rank : int
    rng : numpy.random.Generator
    repetitions : int
        How often the range is multiplied by K again, which costs n^2 rank each.
    """
    basis = rng.standard_normal((kernel.size, min(rank + EXCESS, kernel.size)))
    for _ in range(1 + repetitions):
        basis, _ = np.linalg.qr(kernel.product(basis))
    inner = basis.T @ kernel.product(basis)
    values, vectors = np.linalg.eigh(0.5 * (inner + inner.T))
    largest = slice(max(len(values) - rank, 0), None)
    return LowRank(basis @ vectors[:, largest] * np.sqrt(np.maximum(values[largest], 0.0)), Diagonal(noise))
