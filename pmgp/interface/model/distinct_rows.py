"""Equal rows of a sparse matrix, which observations with the same linear predictor have in common."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from pmgp.core.likelihoods.shared_sites import SharedSites


def distinct_rows(rows: Any) -> tuple[Any, SharedSites]:
    """Return the identity with each further distinct row of a matrix below it, and the place of each row in the result.

    The matrix (N, m) is in canonical format: sorted, without duplicates.
    """
    counts, size = np.diff(rows.indptr), rows.shape[1]
    where = np.full(rows.shape[0], -1)
    unit = np.flatnonzero(counts == 1)
    unit = unit[rows.data[rows.indptr[unit]] == 1.0]
    where[unit] = rows.indices[rows.indptr[unit]]
    others = np.flatnonzero((where < 0) & (counts > 0))
    first, found = distinct(rows, others)
    where[others] = size + found
    below = rows[others[first]]
    where[counts == 0] = size + len(first)
    design = sparse.csr_array(sparse.vstack([sparse.eye_array(size, format="csr"), below], format="csr"))
    return design, SharedSites(where, int(design.shape[0]))


def distinct(rows: Any, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first of the chosen rows of each kind, and the number of the kind of each chosen row."""
    widest = np.diff(rows.indptr)[chosen].max(initial=1)
    starts, ends = rows.indptr[chosen][:, None], rows.indptr[chosen + 1][:, None]
    places = starts + np.arange(widest)
    inside = places < ends
    places = np.where(inside, places, 0)
    keys = np.hstack([np.where(inside, rows.indices[places], -1), np.where(inside, rows.data[places], 0.0)])
    _, first, found = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[found.ravel()]
