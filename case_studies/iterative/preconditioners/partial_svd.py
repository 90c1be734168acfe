"""P = the part of K with the largest eigenvalues, from random projections, + D (Cutajar et al. 2016, section 3.2.2).

The range of K comes from products with random columns, and the eigenvalues are those of K on that range (Halko,
Martinsson and Tropp 2011, algorithms 4.4 and 5.3).
"""

from __future__ import annotations

import numpy as np

from pmgp.core.iterative.preconditioners import Diagonal, Kernel, LowRank

__all__ = ["partial_svd"]

# The number of columns beyond the rank, as Halko et al. recommend.
EXCESS = 10


def partial_svd(
    kernel: Kernel, noise: np.ndarray, rank: int, rng: np.random.Generator, repetitions: int = 1
) -> LowRank:
    """Return the preconditioner of a truncated singular value decomposition.

    `noise` (n,): positive numbers that are added to the diagonal of K; `repetitions`: number of further products of K
    with the range, each of which costs O(n^2 rank).
    """
    basis = rng.standard_normal((kernel.size, min(rank + EXCESS, kernel.size)))
    for _ in range(1 + repetitions):
        basis, _ = np.linalg.qr(kernel.product(basis))
    inner = basis.T @ kernel.product(basis)
    values, vectors = np.linalg.eigh(0.5 * (inner + inner.T))
    largest = slice(max(len(values) - rank, 0), None)
    return LowRank(basis @ vectors[:, largest] * np.sqrt(np.maximum(values[largest], 0.0)), Diagonal(noise))
