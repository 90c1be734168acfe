"""Draws from N(0, A) for a matrix A that is only multiplied with vectors, from draws of a preconditioner's N(0, P).

For w ~ N(0, P), (A P^-1)^1/2 w has the covariance A. The root is a sum over the nodes of a quadrature rule for the
inverse root, of terms A (A + t P)^-1 w (Hale, Higham and Trefethen 2008, method 3; Pleiss, Jankowiak, Eriksson, Damle
and Gardner 2020, Fast matrix square roots). Conjugate gradients for t = 0 solve all of the systems: the residuals of a
shifted system are multiples of theirs (Frommer and Maass 1999), so each iteration takes one product with A.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ellipj, ellipk

from pmgp.core.iterative.solvers import NotConvergedError, Preconditioner, Product, columnwise, refuse_indefinite, tell

# Relative error of the rule is exp(-2 pi^2 NODES / (log(largest) + 3)): 2e-9 where eigenvalues range from 1 to 1e9.
NODES = 24


def correlated(
    product: Product,
    preconditioner: Preconditioner,
    w: np.ndarray,
    *,
    largest: float,
    units: np.ndarray | float,
    tolerance: float,
    cap: int,
) -> np.ndarray:
    """Return (A P^-1)^1/2 w, which is a draw from N(0, A) for each column w that is a draw from N(0, P).

    Parameters
    ----------
    product : callable
        The product of A with columns.
    preconditioner : Preconditioner
        P, at most A.
    w : (n, k) array
    largest : float
        A bound of the eigenvalues of P^-1 A, which are at least 1.
    units : float, or array that broadcasts to (n, k)
        The units in which errors are measured.
    tolerance : float
        The largest error of a column, in norm; it is estimated from the residuals of the systems.
    cap : int
        Largest number of iterations.

    Raises
    ------
    NotConvergedError
        At the cap.
    IndefiniteMatrixError
        If A or P is not positive definite.
    """
    shifts, weights = (values[:, None] for values in inverse_root(largest))
    # P times the directions of each system, their last factors and the products of these; at first, all are equal.
    directions, factor, share = np.repeat(w[None], NODES, axis=0), np.ones((NODES, 1)), np.ones((NODES, w.shape[1]))
    residual, moved = w.copy(), np.zeros_like(w)
    direction = preconditioner.solve(residual)
    slope, before, ratio = columnwise(residual, direction), 1.0, 0.0
    for iteration in range(cap):
        image = product(direction)
        curvature = columnwise(direction, image)
        refuse_indefinite(curvature, slope)
        step = slope / curvature
        factor = 1.0 / (1.0 + step * shifts + step * ratio / before * (1.0 - factor))
        moved += np.einsum("qk,qnk->nk", weights * shifts * step * factor, directions)
        share *= factor
        residual -= step * image
        error = np.linalg.norm(residual / units, axis=0) * (weights * shifts / (1.0 + shifts) * share).sum(axis=0)
        tell(iteration + 1, error.max(), tolerance)
        if np.all(error <= tolerance):
            return weights.sum() * w - moved
        z = preconditioner.solve(residual)
        following = columnwise(residual, z)
        ratio, slope, before = following / slope, following, step
        direction = z + ratio * direction
        for one, changed, part in zip(directions, ratio * factor**2, share, strict=True):
            one *= changed
            one += part * residual
    raise NotConvergedError(
        f"a draw by conjugate gradients has not converged: after {cap} iterations its error is up to "
        f"{error.max():.3g}, and the tolerance is {tolerance:.3g}. There is no draw. Use a preconditioner of higher "
        f"rank, a cap over {cap}, or a Cholesky factorization"
    )


def inverse_root(largest: float) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes t and weights w with sum w / (x + t) = x^-1/2 for x between 1 and `largest`: (q,), (q,)."""
    complement = 1.0 - 1.0 / largest
    quarter = ellipk(complement)
    sn, cn, dn, _ = ellipj((np.arange(NODES) + 0.5) * quarter / NODES, complement)
    return (sn / cn) ** 2, 2.0 * quarter / (np.pi * NODES) * dn / cn**2
