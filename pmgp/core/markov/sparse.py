"""Precisions on any pattern, such as those of fields on lattices and areas, and of sums of effects.

Q = L D L'. qdldl orders the elements so that L stays sparse; the order and L's pattern are found once. The computations
for each Q proceed by blocks of columns.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from scipy import sparse

from pmgp.core.markov.loading import loop
from pmgp.core.markov.walks import Group, SparseWalk
from pmgp.core.numerics.block_matrices import along_last


@dataclass(frozen=True, eq=False)
class SparseFactor:
    """The factor of a sparse precision, in the order of its pattern.

    - `values` (nnz,): elements of L below its diagonal of ones, by columns
    - `pivots` (m,): D
    - `directions`, `gains` (m,): the vectors p and g of `compiled.pattern`, if a matrix of rank one is added to the
      precision; otherwise zeros
    """

    pattern: SparsePattern
    values: np.ndarray
    pivots: np.ndarray
    directions: np.ndarray
    gains: np.ndarray

    @property
    def log_determinant(self) -> float:
        """Log-determinant of Q."""
        return float(np.log(self.pivots).sum())

    def solve(self, right: np.ndarray) -> np.ndarray:
        """Return Q^-1 b: (m,) -> (m,)."""
        order, out = self.pattern.order, np.empty(len(right))
        ordered = np.ascontiguousarray(right[order], dtype=np.float64)
        loop("pattern.solve")(*self.pattern.columns, *self._parts(len(right)), ordered)
        out[order] = ordered
        return out

    def covariances(self) -> np.ndarray:
        """Return the elements of Q^-1 on the pattern, in the order of Q's values: (nnz,)."""
        below, diagonal = np.empty(len(self.values)), np.empty(len(self.pivots))
        blocks = *self.pattern.supernodes, *self.pattern.columns
        loop("supernodes.selected_inverse")(*blocks, self.values, self.pivots, below, diagonal)
        return np.concatenate([diagonal, below])[self.pattern.in_factor]

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw from N(0, Q^-1): (size, m)."""
        return self.sample_from(rng.standard_normal((size, len(self.pivots))))

    def sample_from(self, normals: np.ndarray) -> np.ndarray:
        """Turn standard normals into draws from N(0, Q^-1): (size, m) -> (size, m)."""
        out = np.empty_like(normals)
        values = np.zeros((len(self.pivots) + 1, len(normals)))
        values[:-1] = normals.T
        out[:, self.pattern.order] = self.drawn(0, len(self.pivots), values)[:-1].T
        return out

    def drawn(self, begin: int, end: int, values: np.ndarray) -> np.ndarray:
        """Draw the elements before `end` back to `begin`, in the factor's order, in place of normals: (m + 1, size).

        The last row is a sum over the elements that are already drawn; it begins with zeros.
        """
        loop("pattern.backward")(*self.pattern.columns, *self._parts(end), begin, values)
        return values

    def normals(self, x: np.ndarray) -> np.ndarray:
        """Return the standard normals from which a draw x is made, in the factor's order: (m,) -> (m,)."""
        starts, rows = self.pattern.columns
        ordered = x[self.pattern.order]
        innovations = ordered + sparse.csc_array((self.values, rows, starts), shape=(len(x), len(x))).T @ ordered
        weighted = self.directions * innovations
        after = weighted.sum() - np.cumsum(weighted)
        return np.sqrt(self.pivots) * (innovations + self.gains * after)

    def _parts(self, end: int) -> tuple[np.ndarray, ...]:
        return self.values, self.pivots[:end], self.directions, self.gains


class SparsePattern:
    """The nonzero elements of a precision, and the elements of x on which the sites depend.

    The values of a precision are its elements in the upper triangle of the pattern of Q + A'A, by columns.

    - `precision` (m, m): an array that stores an element wherever Q may differ from zero; the values of the elements
      are ignored
    - `design` (n, m): A; by default the identity
    - `coupled`: if each site is over C values, matrices (n, m) of which row i gives one of the values of site i; by
      default a site is over one element of A x. The sites' precisions are then the elements of their blocks: those of
      the first row of the upper triangle for all sites, and so on, with those off the diagonal counted twice

    Raises ValueError if the precision is not square, or the design has another number of columns.
    """

    def __init__(self, precision: Any, design: Any = None, coupled: Sequence[Any] = ()) -> None:
        number = precision.shape[0]
        design = sparse.eye_array(number) if design is None else design
        if precision.shape != (number, number) or design.shape[1] != number:
            raise ValueError(
                "the precision must be square, with a row for each column of the design; their shapes are "
                f"{precision.shape} and {design.shape}"
            )
        self.design = sparse.csr_array(design, dtype=np.float64)
        self.coupled = tuple(sparse.csr_array(one, dtype=np.float64) for one in coupled)
        self._given = upper_triangle(precision)
        joined = _union(self.coupled or (self.design,))
        products = joined.T @ joined
        everywhere = _ones(self._given) + _ones(upper_triangle(products)) + sparse.eye_array(number)
        self._upper = sparse.csc_array(sparse.triu(everywhere, format="csc"))
        self._upper.sort_indices()
        self._groups: dict[int, list[Group]] = {}

    @property
    def differentiated(self) -> bool:
        """True, because gradients are taken with respect to Q's values."""
        return True

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """Pickle only the constructor's arguments."""
        return SparsePattern, (self._given, self.design, self.coupled)

    @property
    def shape(self) -> tuple[int]:
        """Shape of x, (m,)."""
        return (self._upper.shape[0],)

    @property
    def sites(self) -> int:
        """Number of sites n."""
        return int(self.design.shape[0])

    @cached_property
    def positions(self) -> tuple[np.ndarray, np.ndarray]:
        """Row and column of each value."""
        return self._upper.indices, np.repeat(np.arange(self.shape[0]), np.diff(self._upper.indptr))

    @cached_property
    def _on_diagonal(self) -> np.ndarray:
        return np.equal(*self.positions)

    @cached_property
    def _symbolic(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Starts of L's columns, its rows, and the order of elements, from a matrix that is certainly definite."""
        from qdldl import Solver

        values = np.where(self._on_diagonal, 1.0 + self.shape[0], 1.0)
        lower, _, order = Solver(self._matrix(values), upper=True).factors()
        return lower.indptr.astype(np.int64), lower.indices.astype(np.int64), np.asarray(order, dtype=np.int64)

    @property
    def columns(self) -> tuple[np.ndarray, np.ndarray]:
        """Start of each column of L, (m + 1,), and the rows of its elements."""
        return self._symbolic[:2]

    @cached_property
    def supernodes(self) -> tuple[np.ndarray, np.ndarray]:
        """The first columns of blocks that have the same rows below them, (k + 1,), and the block of each column."""
        starts, rows = self.columns
        number, lengths = self.shape[0], np.diff(starts)
        follows = np.zeros(number, dtype=bool)
        longer = np.flatnonzero(lengths[:-1] == lengths[1:] + 1)
        follows[longer + 1] = rows[starts[longer]] == longer + 1
        return np.append(np.flatnonzero(~follows), number), np.cumsum(~follows) - 1

    @property
    def order(self) -> np.ndarray:
        """Order of the elements of x in the factorization: (m,)."""
        return self._symbolic[2]

    @cached_property
    def in_factor(self) -> np.ndarray:
        """Position of each value of Q in D followed by L's values."""
        starts, rows = self.columns
        number = self.shape[0]
        place = np.empty(number, dtype=np.int64)
        place[self.order] = np.arange(number)
        first, second = (place[each] for each in self.positions)
        key = np.minimum(first, second) * number + np.maximum(first, second)
        keys = np.repeat(np.arange(number), np.diff(starts)) * number + rows
        return np.where(first == second, first, number + np.searchsorted(keys, key))

    @cached_property
    def _by_site(self) -> Any:
        """Coefficients of the sites' precisions in A'WA: (nnz, n), sparse.

        For value k, in row a and column b of the precision, and site i, the coefficient is A_ia A_ib.
        """
        if not self.coupled:
            return _products(self.design, self.design, self._upper)
        pairs = combinations_with_replacement(self.coupled, 2)
        return sparse.hstack([_products(*pair, self._upper) for pair in pairs], format="csr")

    def values(self, precision: Any) -> np.ndarray:
        """Return the values of a precision that stores the same elements as the one that was given first.

        Raises ValueError if it stores other elements.
        """
        upper = upper_triangle(precision)
        same = np.array_equal(upper.indptr, self._given.indptr) and np.array_equal(upper.indices, self._given.indices)
        if not same:
            raise ValueError(
                "the precision has another pattern than at first; store the same elements for every theta, including "
                "those that are zero"
            )
        return self.placed(upper.data)

    def placed(self, upper: np.ndarray) -> np.ndarray:
        """Return the values, given the elements in the upper triangle of the pattern that was given, by columns."""
        out = np.zeros(len(self._upper.indices))
        out[self._given_positions] = upper
        return out

    def upper(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return rows and columns of the upper triangle of Q, and the position of each element in Q's values."""
        return *self.positions, np.arange(len(self._upper.indices))

    @cached_property
    def _given_positions(self) -> np.ndarray:
        return _at_pattern(self._upper, self._given)

    def part(self, matrix: Any) -> np.ndarray:
        """Return the values of a symmetric matrix that stores only elements of the pattern, perhaps not all: (nnz,)."""
        upper, out = upper_triangle(matrix), np.zeros(len(self._upper.indices))
        out[_at_pattern(self._upper, upper)] = upper.data
        return out

    def factorize(self, values: np.ndarray) -> SparseFactor | None:
        """Return the factor of Q, or None if Q is indefinite."""
        number = self.shape[0]
        placed = np.zeros(number + len(self.columns[1]))
        placed[self.in_factor] = values
        pivots, lower = placed[:number], placed[number:]
        sound = loop("supernodes.factorize")(*self.supernodes, *self.columns, lower, pivots)
        return SparseFactor(self, lower, pivots, *np.zeros((2, number))) if sound else None

    def factorize_with_sums(self, values: np.ndarray, sums: np.ndarray) -> SparseFactor | None:
        """Return the factor of Q, whose last pivots follow from Q 1, (m,), or None if Q is indefinite.

        A precision that hardly restricts the level of x has a last pivot that is the small difference of large numbers.
        L D L' 1 = Q 1, and L' 1 is one where L has no elements below its diagonal: D is L^-1 Q 1 there. That is so for
        the last element of each connected part.
        """
        last = np.flatnonzero(np.diff(self.columns[0]) == 0)
        raised = np.array(values)
        # The pivot, which is replaced, must only be positive.
        raised[np.flatnonzero(self._on_diagonal)[self.order[last]]] *= 2.0
        factor = self.factorize(raised)
        if factor is None:
            return None
        solved = np.array(sums[self.order], dtype=np.float64, order="C")
        loop("pattern.forward")(*self.columns, factor.values, solved)
        factor.pivots[last] = solved[last]
        return factor if (solved[last] > 0.0).all() and np.isfinite(solved[last]).all() else None

    def _matrix(self, values: np.ndarray) -> Any:
        return sparse.csc_matrix((values, self._upper.indices, self._upper.indptr), shape=self._upper.shape)

    def with_sites(self, values: np.ndarray, precision: np.ndarray) -> np.ndarray:
        """Return the values of Q + A' W A."""
        return values + self._by_site @ precision

    def with_blocks(self, values: np.ndarray, blocks: np.ndarray) -> np.ndarray:
        """Return the values of Q + E'WE, for sites over C values each, with precisions W: (n, C, C)."""
        counted = [
            blocks[:, c, d] * (1.0 if c == d else 2.0)
            for c, d in combinations_with_replacement(range(len(self.coupled)), 2)
        ]
        return self.with_sites(values, np.concatenate(counted))

    def site_blocks(self, covariances: np.ndarray) -> np.ndarray:
        """Return the covariances of the C values of each site, given the elements of Q^-1 on the pattern: (n, C, C)."""
        number = len(self.coupled)
        found = self.site_variances(covariances).reshape(-1, self.coupled[0].shape[0])
        out = np.empty((found.shape[1], number, number))
        for (c, d), one in zip(combinations_with_replacement(range(number), 2), found, strict=True):
            out[:, c, d] = out[:, d, c] = one
        return out

    def at_sites(self, x: np.ndarray) -> np.ndarray:
        """Return the values of the sites, all first ones, then all second ones, and so on: (..., m) -> (..., C n)."""
        return along_last(self._joined, x)

    def from_sites(self, b: np.ndarray) -> np.ndarray:
        """Return E' b: (C n,) -> (m,)."""
        return self._joined.T @ b

    @cached_property
    def _joined(self) -> Any:
        return sparse.vstack(self.coupled, format="csr")

    def variances(self, covariances: np.ndarray) -> np.ndarray:
        """Return the variances of x, given the elements of Q^-1 on the pattern: (m,)."""
        return covariances[: len(self._on_diagonal)][self._on_diagonal]

    def observe(self, x: np.ndarray) -> np.ndarray:
        """Return A x: (..., m) -> (..., n)."""
        return along_last(self.design, x)

    def spread(self, sites: np.ndarray) -> np.ndarray:
        """Return A' b: (n,) -> (m,)."""
        return self.design.T @ sites

    def site_variances(self, covariances: np.ndarray) -> np.ndarray:
        """Return the diagonal of A Q^-1 A': (n,)."""
        return self._by_site.T @ self.counted(covariances)

    def product(self, values: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return Q x: (m,)."""
        upper = self._matrix(values)
        return upper @ x + upper.T @ x - upper.diagonal() * x

    def drawn_given(self, rng: np.random.Generator, values: np.ndarray, f: np.ndarray) -> np.ndarray | None:
        """Return x, if some element of f is equal to each element of x: (n,) -> (m,). Otherwise return None."""
        return None if self._seen is None else f[self._seen]

    @cached_property
    def _seen(self) -> np.ndarray | None:
        """For each element of x, a site that is equal to it, (m,); None if some element has no such site."""
        single = np.flatnonzero(np.diff(self.design.indptr) == 1)
        single = single[self.design.data[self.design.indptr[single]] == 1.0]
        found = np.full(self.shape, -1)
        found[self.design.indices[self.design.indptr[single]]] = single
        return found if (found >= 0).all() else None

    def outer(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the symmetric part of x y' on the pattern: (nnz,)."""
        rows, columns = self.positions
        return 0.5 * (x[rows] * y[columns] + y[rows] * x[columns])

    def counted(self, values: np.ndarray) -> np.ndarray:
        """Return values times one on the diagonal, and times two above it."""
        return np.where(self._on_diagonal, values, 2.0 * values)

    def walk(self, factor: SparseFactor, draws: int, width: int, kept: np.ndarray | None = None) -> SparseWalk:
        """Return particles that are drawn backwards in the order of elimination."""
        return SparseWalk(self, factor, draws, width, kept)

    def groups(self, width: int) -> list[Group]:
        """Return groups of at most `width` elements, the last elements in the order of elimination first."""
        if width not in self._groups:
            ordered = [sparse.csr_array(sparse.csc_array(one)[:, self.order]) for one in self.coupled or [self.design]]
            joined = _union(ordered)
            # A site that depends on no element can be passed at once.
            ready, some = np.full(joined.shape[0], self.shape[0] - 1), np.diff(joined.indptr) > 0
            ready[some] = np.minimum.reduceat(joined.indices, joined.indptr[:-1][some])
            sites = np.argsort(ready, kind="stable")
            ends = np.arange(self.shape[0], 0, -width)
            begins = np.maximum(ends - width, 0)
            parts = [sites[slice(*np.searchsorted(ready[sites], [a, b]))] for a, b in zip(begins, ends, strict=True)]
            self._groups[width] = [
                Group(int(begin), int(end), part, sparse.vstack([one[part][:, int(begin) :] for one in ordered]))
                for begin, end, part in zip(begins, ends, parts, strict=True)
            ]
        return self._groups[width]


def _union(matrices: Sequence[Any]) -> Any:
    """Return a matrix that stores an element wherever one of the matrices does, in compressed rows."""
    return sparse.csr_array(reduce(operator.add, map(abs, matrices)))


def upper_triangle(matrix: Any) -> Any:
    """Return the upper triangle in compressed columns, whose row numbers increase."""
    upper = sparse.csc_array(sparse.triu(matrix, format="csc"), dtype=np.float64)
    upper.sort_indices()
    return upper


def _ones(pattern: Any) -> Any:
    return sparse.csc_array((np.ones(len(pattern.indices)), pattern.indices, pattern.indptr), shape=pattern.shape)


def _keys(upper: Any) -> np.ndarray:
    """Return a number for each stored element, in increasing order."""
    number = upper.shape[0]
    return np.repeat(np.arange(number), np.diff(upper.indptr)) * number + upper.indices


def _at_pattern(upper: Any, part: Any) -> np.ndarray:
    """Return the positions of a part's elements in a pattern."""
    return np.searchsorted(_keys(upper), _keys(part))


def _products(left: Any, right: Any, upper: Any) -> Any:
    """Return the symmetric part of A_ia B_ib for each site i and each element (a, b) of the upper triangle.

    The result is sparse: (nnz, n).
    """
    number, sites = upper.shape[0], left.shape[0]
    lengths = np.diff(right.indptr).astype(np.int64)
    counts = np.diff(left.indptr) * lengths
    site = np.repeat(np.arange(sites), counts)
    # All pairs of an element of A's row and one of B's row.
    within = np.arange(len(site)) - np.repeat(np.cumsum(counts) - counts, counts)
    i, j = left.indptr[site] + within // lengths[site], right.indptr[site] + within % lengths[site]
    a, b = left.indices[i].astype(np.int64), right.indices[j].astype(np.int64)
    positions = np.searchsorted(_keys(upper), np.maximum(a, b) * number + np.minimum(a, b))
    products = left.data[i] * right.data[j] * np.where(a == b, 1.0, 0.5)
    return sparse.csr_array((products, (positions, site)), shape=(len(upper.indices), sites))
