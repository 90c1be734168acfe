"""The factor Q = L D L' of a sparse precision, and its inverse where L is not zero, by blocks of columns.

Columns of L that follow each other and have the same elements below them are a supernode (Ng and Peyton 1993). It is a
dense triangle J above a dense rectangle, whose rows R are columns of L too. So BLAS does nearly all of the work: the
elements of a rectangle's square, R times R, are gathered and scattered once per supernode, and not once per column.
"""

from __future__ import annotations

import math

import numpy as np

from pmgp.core.numerics.compiled.declaration import COUNTS, FLAG, NOTHING, VECTOR, WRITTEN_VECTOR, inlined, kernel
from pmgp.core.numerics.compiled.routines import (
    LEFT,
    LOWER,
    NOT_TRANSPOSED,
    NOT_UNIT,
    RIGHT,
    TRANSPOSED,
    UNIT,
    dgemm,
    dpotrf,
    dsymm,
    dsyrk,
    dtrsm,
)


@inlined
def relative_positions(
    first: np.ndarray,
    node: np.ndarray,
    starts: np.ndarray,
    rows: np.ndarray,
    below: np.ndarray,
    begin: int,
    relative: np.ndarray,
) -> int:
    """Find the positions of rows in a supernode; return the end of those that are also its columns.

    - first, node, starts, rows: as for :func:`factorize`
    - below (r,) of int: rows in increasing order
    - begin: the first of these that is a column of the supernode
    - relative (r,) of int: written: their positions in the supernode's first column, whose diagonal is the position 0
    """
    block = node[below[begin]]
    a, b = first[block], first[block + 1]
    end = begin
    while end < len(below) and below[end] < b:
        relative[end] = below[end] - a
        end += 1
    q, offset = starts[b - 1], (b - a) - starts[b - 1]
    for x in range(end, len(below)):
        while rows[q] != below[x]:
            q += 1
        relative[x] = q + offset
    return end


@kernel(FLAG, COUNTS, COUNTS, COUNTS, COUNTS, WRITTEN_VECTOR, WRITTEN_VECTOR)
def factorize(
    first: np.ndarray, node: np.ndarray, starts: np.ndarray, rows: np.ndarray, values: np.ndarray, pivots: np.ndarray
) -> bool:
    """Write L and D in place of Q; false where Q is not positive definite.

    first (k + 1,) of int: the first column of each supernode, and the number of columns; node (n,) of int: supernode of
    each column; starts (n + 1,) of int; rows (nnz,) of int: rows of L below its diagonal, by columns; values (nnz,): Q
    below its diagonal on L's pattern, and L; pivots (n,): Q's diagonal, and D.
    """
    relative = np.empty(len(pivots), np.int64)
    for number in range(len(first) - 1):
        a, b = first[number], first[number + 1]
        s, below = b - a, rows[starts[b - 1] : starts[b]]
        r = len(below)
        height = s + r
        panel = np.empty((s, height))
        for j in range(s):
            column, begin = panel[j], starts[a + j] - j - 1
            column[j] = pivots[a + j]
            for i in range(j + 1, height):
                column[i] = values[begin + i]
        if dpotrf((LOWER, s, panel, height)) != 0:
            return False
        if r:
            dtrsm((RIGHT, LOWER, TRANSPOSED, NOT_UNIT, r, s, 1.0, panel, height, (panel, s), height))
            update = np.empty((r, r))
            dsyrk((LOWER, NOT_TRANSPOSED, r, s, 1.0, (panel, s), height, 0.0, update, r))
            c = 0
            while c < r:
                end = relative_positions(first, node, starts, rows, below, c, relative)
                origin = first[node[below[c]]]
                for k in range(c, end):
                    row, column_number = update[k], below[k]
                    base = starts[column_number] - (column_number - origin) - 1
                    pivots[column_number] -= row[k]
                    for x in range(k + 1, r):
                        values[base + relative[x]] -= row[x]
                c = end
        for j in range(s):
            column, begin = panel[j], starts[a + j] - j - 1
            root = column[j]
            if not root < math.inf:
                return False
            pivots[a + j] = root * root
            for i in range(j + 1, height):
                values[begin + i] = column[i] / root
    return True


@kernel(NOTHING, COUNTS, COUNTS, COUNTS, COUNTS, VECTOR, VECTOR, WRITTEN_VECTOR, WRITTEN_VECTOR)
def selected_inverse(
    first: np.ndarray,
    node: np.ndarray,
    starts: np.ndarray,
    rows: np.ndarray,
    values: np.ndarray,
    pivots: np.ndarray,
    inverse: np.ndarray,
    diagonal: np.ndarray,
) -> None:
    """Write the elements of S = Q^-1 on L's pattern (Takahashi, Fagan and Chen 1973), from the last supernode on.

    With X = L_RJ L_JJ^-1, S_RJ = -S_RR X and S_JJ = L_JJ^-T D_J^-1 L_JJ^-1 - X' S_RJ. The pattern of a column is part
    of that of each column in it, so all of S_RR is known.

    - first, node, starts, rows: as for :func:`factorize`
    - values (nnz,): L below its diagonal
    - pivots (n,): D
    - inverse (nnz,)
    - diagonal (n,)
    """
    relative = np.empty(len(pivots), np.int64)
    for number in range(len(first) - 2, -1, -1):
        a, b = first[number], first[number + 1]
        s, below = b - a, rows[starts[b - 1] : starts[b]]
        r = len(below)
        triangle, rectangle = np.zeros((s, s)), np.empty((s, r))
        inner, outer = np.zeros((s, s)), np.empty((s, r))
        for j in range(s):
            begin, column = starts[a + j], rectangle[j]
            inner[j, j] = 1.0 / math.sqrt(pivots[a + j])
            for i in range(j + 1, s):
                triangle[j, i] = values[begin + i - j - 1]
            for x in range(r):
                column[x] = values[begin + s - j - 1 + x]
        # D^-1/2 L_JJ^-1, whose square is the inverse of a supernode that has nothing below it.
        dtrsm((RIGHT, LOWER, NOT_TRANSPOSED, UNIT, s, s, 1.0, triangle, s, inner, s))
        square = np.empty((s, s))
        dgemm((TRANSPOSED, NOT_TRANSPOSED, s, s, s, 1.0, inner, s, inner, s, 0.0, square, s))
        if r:
            dtrsm((RIGHT, LOWER, NOT_TRANSPOSED, UNIT, r, s, 1.0, triangle, s, rectangle, r))
            known = np.empty((r, r))
            c = 0
            while c < r:
                end = relative_positions(first, node, starts, rows, below, c, relative)
                origin = first[node[below[c]]]
                for k in range(c, end):
                    row, column_number = known[k], below[k]
                    base = starts[column_number] - (column_number - origin) - 1
                    row[k] = diagonal[column_number]
                    for x in range(k + 1, r):
                        row[x] = inverse[base + relative[x]]
                c = end
            dsymm((LEFT, LOWER, r, s, -1.0, known, r, rectangle, r, 0.0, outer, r))
            dgemm((TRANSPOSED, NOT_TRANSPOSED, s, s, r, -1.0, rectangle, r, outer, r, 1.0, square, s))
        for j in range(s):
            begin, column = starts[a + j], outer[j]
            diagonal[a + j] = square[j, j]
            for i in range(j + 1, s):
                inverse[begin + i - j - 1] = square[j, i]
            for x in range(r):
                inverse[begin + s - j - 1 + x] = column[x]
