"""Every LAPACK and BLAS call of the project that matters, with the O(n^3) ones counted (`ledger.py`).

Symmetric matrices and triangular factors are Fortran-ordered and stored in their *lower* triangle; elements above the
diagonal are never read. Counts follow Table 2 of the pseudo-marginal article: #C Cholesky
factorizations, #I inversions, #M products of two n x n matrices. The only O(n^2) operations counted are products of a
symmetric matrix with vectors, which dominate the cost of iterative methods.
"""

from __future__ import annotations

from math import isfinite

import numpy as np
from scipy.linalg.blas import dsymm, dsymv, dsyr, dsyr2, dsyrk, dtrmm, dtrmv
from scipy.linalg.lapack import dlauum, dpotrf, dpotrs, dtrtrs

from pmgp.core.numerics.compiled.loading import compiled
from pmgp.core.numerics.ledger import record

# Columns handled at a time by `scaled_plus_identity`: 64 columns of a lower triangle stay in the second-level
# cache, and skipping the upper triangle halves the work.
BLOCK = 64


class NotPositiveDefiniteError(np.linalg.LinAlgError):
    """A matrix that must be positive definite is not, to working precision."""


def cholesky(a: np.ndarray, *, overwrite: bool = False) -> np.ndarray:
    """Return the lower Cholesky factor of a symmetric matrix, given its lower triangle.

    - `a` (n, n): Fortran order avoids a copy. Only the lower triangle is read
    - `overwrite`: put the factor in place of `a`

    The factor is in the lower triangle. Elements above the diagonal are arbitrary; with `overwrite` they
    are those of `a`.

    Raises NotPositiveDefiniteError if a leading minor is not positive, or the matrix is not finite.
    """
    record("cholesky")
    if overwrite:
        factor, order = dpotrf(a, lower=1, overwrite_a=1, clean=0)
        # LAPACK lets NaN and infinite pivots through. No pivot is negative, so the largest one shows both.
        definite = order == 0 and isfinite(np.maximum.reduce(factor.diagonal()))
    else:
        factor = np.empty(a.shape, order="F")
        order = compiled("sites.factorize")(np.asfortranarray(a, np.float64).T, factor.T)
        definite = order == 0
    if not definite:
        raise NotPositiveDefiniteError(f"the leading minor of order {order} is not positive")
    return factor


def cholesky_pullback(factor: np.ndarray, cotangent: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Return the gradient with respect to A = L L' of a function of L x, in reverse mode.

    With g the gradient with respect to L x, and h = L' g, it is the sum of h_r (u_r s_r' + s_r u_r') / 2 over the rows
    that :func:`_rows_and_sums` returns: the adjoint of :func:`cholesky_pushforward`. Counted as one factorization.

    `factor` (n, n): L; `cotangent` (n,): g; `vector` (n,): x.

    Returns both triangles of the symmetric matrix: (n, n).
    """
    record("cholesky")
    rows, sums = _rows_and_sums(factor, vector)
    sums *= 0.5 * triangular_product(factor, cotangent, transpose=True)[:, None]
    half = dtrmm(1.0, rows, sums, lower=1, trans_a=1, overwrite_b=1)
    return half + half.T


def cholesky_pushforward(factor: np.ndarray, tangents: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Return dL x for A = L L' and each of several changes dA.

    It is L P x, where P is the lower half of L^-1 dA L^-T with half its diagonal. Element r of P x is u_r' dA s_r, with
    the rows that :func:`_rows_and_sums` returns. Counted as one factorization each.

    `factor` (n, n): L; `tangents` (p, n, n): the symmetric dA; `vector` (n,): x.

    Returns a (p, n) array.
    """
    record("cholesky", len(tangents))
    rows, sums = _rows_and_sums(factor, vector)
    # All changes side by side: one product with a triangle, in Fortran order without a copy since each is symmetric.
    side_by_side = np.ascontiguousarray(tangents).reshape(-1, len(factor)).T
    products = dtrmm(1.0, sums, side_by_side, lower=1).T.reshape(tangents.shape)
    return triangular_product(factor, np.einsum("kr,jkr->rj", rows.T, products, order="F")).T


def _rows_and_sums(factor: np.ndarray, vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return L^-1, with rows u_r, and the rows s_r: the sum of x_c u_c over the rows c < r, plus x_r u_r / 2.

    Both are lower triangles in Fortran order, with zeros above the diagonal.
    """
    rows, sums = factor.copy(order="F"), np.empty(factor.shape, order="F")
    compiled("inversion.inverse_with_sums")(rows.T, np.ascontiguousarray(vector, np.float64), sums.T)
    return rows, sums


def cholesky_solve(factor: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Solve ``L L' x = b`` for one or several right-hand sides, `b` of shape (n,) or (n, k)."""
    if b.ndim == 1:
        # For one right-hand side LAPACK's combined routine takes four times as long.
        return triangular_solve(factor, triangular_solve(factor, b), transpose=True)
    return dpotrs(factor, b, lower=1)[0]


def triangular_inverse(factor: np.ndarray) -> np.ndarray:
    """Invert a lower triangle; elements above the diagonal stay as they were."""
    inverse = factor.copy(order="F")
    compiled("inversion.triangular_inverse")(inverse.T)
    return inverse


def inverse(factor: np.ndarray) -> np.ndarray:
    """Return the lower triangle of ``(L L')^-1`` from the factor.

    LAPACK's own routine would spend most of its time on the triangle's inverse: see :func:`triangular_inverse`.
    """
    record("inverse")
    return dlauum(triangular_inverse(factor), lower=1, overwrite_c=1)[0]


def inverse_diagonal(factor: np.ndarray, *, overwrite: bool = False) -> np.ndarray:
    """Return the diagonal of ``(L L')^-1`` from the factor: the squared column norms of L^-1, half of an inversion.

    With `overwrite` the factor is lost, and an n x n buffer is saved.
    """
    record("inverse")
    if not (overwrite and factor.flags.f_contiguous):
        factor = factor.copy(order="F")
    diagonal = np.empty(len(factor))
    compiled("moments.inverse_diagonal")(factor.T, diagonal)
    return diagonal


def triangular_solve(factor: np.ndarray, b: np.ndarray, *, transpose: bool = False) -> np.ndarray:
    """Solve ``L x = b`` or ``L' x = b`` for `b` of shape (n,) or (n, k)."""
    return dtrtrs(factor, b, lower=1, trans=int(transpose))[0]


def triangular_product(factor: np.ndarray, x: np.ndarray, *, transpose: bool = False) -> np.ndarray:
    """Return ``L x`` or ``L' x`` for `x` of shape (n,) or (n, k)."""
    if x.ndim == 1:
        return dtrmv(factor, x, lower=1, trans=int(transpose))
    if x.shape[1] == 1:
        # The level-3 routine takes ten times as long for one column.
        return dtrmv(factor, x[:, 0], lower=1, trans=int(transpose))[:, None]
    return dtrmm(1.0, factor, x, lower=1, trans_a=int(transpose))


def symmetric_product(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return ``A x`` for a symmetric A, given its lower triangle, and `x` of shape (n,) or (n, k)."""
    if x.ndim == 1:
        record("matvec")
        return dsymv(1.0, a, x, lower=1)
    record("matvec", x.shape[1])
    if x.shape[1] == 1:
        return dsymv(1.0, a, x[:, 0], lower=1)[:, None]
    return dsymm(1.0, a, x, lower=1)


def log_determinant(factor: np.ndarray) -> float:
    """Return the log-determinant of ``L L'`` from its factor."""
    return 2.0 * float(np.log(factor.diagonal()).sum())


def scaled_plus_identity(a: np.ndarray, scale: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Return the lower triangle of ``I + diag(scale) A diag(scale)``, in `out` where it is given.

    - `a` (n, n): symmetric, Fortran order, lower triangle
    - `scale` (n,)
    - `out` (n, n): Fortran-ordered buffer; its upper triangle is left undefined
    """
    n = scale.shape[0]
    if out is None:
        out = np.empty((n, n), order="F")
    # Elements above the diagonal may be anything; factorizing detects non-finite ones below.
    with np.errstate(invalid="ignore", over="ignore"):
        for start in range(0, n, BLOCK):
            columns = slice(start, start + BLOCK)
            block = out[start:, columns]
            np.multiply(a[start:, columns], scale[columns], out=block)
            block *= scale[start:, None]
    np.einsum("ii->i", out)[:] += 1.0
    return out


def add_outer(a: np.ndarray, x: np.ndarray, y: np.ndarray | None = None) -> np.ndarray:
    """Add ``x x' / 2``, or ``(x y' + y x') / 2``, to the lower triangle of A in place; Fortran order."""
    if y is None:
        return dsyr(0.5, x, lower=1, a=a, overwrite_a=1)
    return dsyr2(0.5, x, y, lower=1, a=a, overwrite_a=1)


def sum_of_outer(x: np.ndarray, scale: float) -> np.ndarray:
    """Return the lower triangle of ``scale x x'`` for `x` of shape (n, k); Fortran order."""
    return dsyrk(scale, x, lower=1)


def symmetrized(a: np.ndarray) -> np.ndarray:
    """Return the full symmetric matrix of a lower triangle."""
    return np.where(np.tri(len(a), dtype=bool), a, a.T)


def matrix_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return ``A B`` for a symmetric A, given its lower triangle, and `b` of shape (n, n)."""
    record("matmul")
    return dsymm(1.0, a, b, lower=1)


def product_traces(matrices: np.ndarray) -> np.ndarray:
    """Return ``tr(A_i A_j)`` for all pairs of matrices of shape (p, n, n), from one product."""
    p = len(matrices)
    return matrices.reshape(p, -1) @ matrices.transpose(0, 2, 1).reshape(p, -1).T
