"""Precisions with a pattern beside the dense matrices that they stand for."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from pmgp.core.markov import ChainPattern, Pattern, SparsePattern
from pmgp.core.markov.soft_sums import soft_sum

__all__ = ["Case", "chain_case", "disconnected_case", "lattice_case", "soft_sum_case", "sparse_case"]


class Case(NamedTuple):
    """A pattern with values, and the dense matrices."""

    pattern: Pattern
    values: np.ndarray
    precision: np.ndarray
    design: np.ndarray


def chain_case(length: int, width: int, sites: int = 9, seed: int = 0) -> Case:
    """Blocks in time; sites look at several elements of a block, in no order and some at the same one."""
    rng = np.random.default_rng(seed)
    number = length * width
    block = np.arange(number) // width
    near = (block[:, None] == block) | (block[:, None] == block + 1)
    factor = np.where(near, rng.normal(size=(number, number)), 0.0)
    factor = np.tril(factor, -1) + np.diag(1.0 + rng.random(number))
    precision = factor @ factor.T + np.eye(number)
    values = np.zeros((2, length, width, width))
    for t in range(length):
        part = slice(t * width, (t + 1) * width)
        values[0, t] = precision[part, part]
        if t:
            values[1, t] = precision[part, (t - 1) * width : t * width]
    pattern = ChainPattern(rng.integers(0, length, sites), rng.normal(size=(sites, width)), length)
    design = np.zeros((sites, number))
    for site, t in enumerate(pattern.where):
        design[site, t * width : (t + 1) * width] = pattern.loading[site]
    return Case(pattern, values, precision, design)


def sparse_case(number: int = 12, sites: int = 9, seed: int = 0) -> Case:
    """A pattern without any order, beside a design that has a few elements in each row."""
    rng = np.random.default_rng(seed)
    half: Any = sparse.random_array((number, number), density=0.15, rng=rng, data_sampler=rng.standard_normal)
    precision = sparse.csc_array(half @ half.T + sparse.eye_array(number))
    design = np.where(rng.random((sites, number)) < 0.2, rng.normal(size=(sites, number)), 0.0)
    design[np.arange(sites), rng.integers(0, number, sites)] = 1.0
    pattern = SparsePattern(precision, sparse.csr_array(design))
    return Case(pattern, pattern.values(precision), precision.toarray(), design)


def disconnected_case() -> Case:
    """Two pieces that know nothing of each other, and an element without neighbors."""
    first, second = sparse_case(5, 3, seed=1), sparse_case(6, 4, seed=2)
    precision = sparse.block_diag(
        [sparse.csc_array(first.precision), sparse.csc_array(second.precision), sparse.csc_array([[2.0]])], format="csc"
    )
    design = sparse.block_diag(
        [sparse.csr_array(first.design), sparse.csr_array(second.design), sparse.csr_array([[1.0]])], format="csr"
    )
    pattern = SparsePattern(precision, design)
    return Case(pattern, pattern.values(precision), precision.toarray(), design.toarray())


def lattice_case(rows: int = 5, columns: int = 4) -> Case:
    """Neighbors on a lattice, each element seen once."""
    number = rows * columns
    index = np.arange(number).reshape(rows, columns)
    pairs = np.concatenate(
        [
            np.stack([index[1:].ravel(), index[:-1].ravel()]),
            np.stack([index[:, 1:].ravel(), index[:, :-1].ravel()]),
        ],
        axis=1,
    )
    adjacent = sparse.coo_array((np.ones(pairs.shape[1]), tuple(pairs)), shape=(number, number)).tocsc()
    adjacent = adjacent + adjacent.T
    precision = sparse.csc_array(4.5 * sparse.eye_array(number) - adjacent)
    pattern = SparsePattern(precision)
    return Case(pattern, pattern.values(precision), precision.toarray(), np.eye(number))


def soft_sum_case(rows: int = 5, columns: int = 4, deviation: float = 0.1) -> Case:
    """Differences of neighbors on a lattice, and the sum of all with a deviation of its own: singular without it."""
    pattern = lattice_case(rows, columns).precision
    off = pattern - np.diag(np.diag(pattern))
    laplacian = off - np.diag(off.sum(axis=0))
    summed, values = soft_sum(sparse.csc_array(laplacian), deviation**-2)
    return Case(summed, values, laplacian + deviation**-2, np.eye(rows * columns))
