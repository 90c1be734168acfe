"""A normal vector conditioned on Gaussian sites, in the form of `core.gaussians.sites`, with compiled kernels.

W is the diagonal matrix of the sites' precisions, and B = I + W^1/2 K W^1/2.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import isfinite
from typing import Any

import numpy as np

from pmgp.core.numerics.compiled.loading import compiled, for_rows, vectors
from pmgp.core.numerics.ledger import record, record_several


def condition(
    covariance: np.ndarray, prior_mean: np.ndarray, linear: np.ndarray, precision: np.ndarray, memory: np.ndarray
) -> tuple[np.ndarray, float] | None:
    """Factorize B in given memory; return the mean and the log-determinant of B, or None if B is indefinite.

    With centered sites b' = b - W m and c = B^-1 W^1/2 K b', the mean is m + W^-1/2 c: B c = W^1/2 K b' gives
    K W^1/2 c = W^-1/2 (W^1/2 K b' - c), so the second product with K cancels. Precisions must be positive.

    `covariance` (n, n): lower triangle of K; `prior_mean`, `linear`, `precision` (n,); `memory` (n, n): in Fortran
    order.
    """
    record_several(cholesky=1, matvec=1)
    mean, work = np.empty(len(linear)), np.empty((2, len(linear)))
    log_determinant = compiled("sites.condition")(
        np.asfortranarray(covariance).T, *vectors(prior_mean, linear, precision), memory.T, mean, work
    )
    return (mean, log_determinant) if isfinite(log_determinant) else None


def swept(
    sweeps: Callable[..., Any],
    covariance: np.ndarray,
    prior_mean: np.ndarray,
    log_determinant: float,
    settings: tuple[float, ...],
    sites: np.ndarray,
    mean: np.ndarray,
    factor: np.ndarray,
) -> tuple[int, int, float, float, float]:
    """Make whole sweeps with a kernel, which changes sites, mean and factor.

    It returns the kernel's status, the number of sweeps, the log-evidence before the last one, the log-determinant of
    B, and the log of the integral of the prior times the sites.

    - `sweeps`: a kernel of `compiled.propagation` with the data of its likelihood
    - `covariance` (n, n): lower triangle of K
    - `prior_mean` (n,)
    - `log_determinant`: log-determinant of B; NaN if B is not factorized yet
    - `settings`: settings of the kernel
    - `sites` (2, n)
    - `mean` (n,)
    - `factor` (n, n): factor of B, in Fortran order
    """
    known = np.asfortranarray(covariance).T, np.ascontiguousarray(prior_mean, np.float64), log_determinant
    found = sweeps(*known, *settings, sites, mean, factor.T)
    status, inversions, factorizations, log_evidence, log_determinant, normalizer = found
    record_several(inverse=inversions, cholesky=factorizations, matvec=factorizations)
    return status, inversions, log_evidence, log_determinant, normalizer


def stepped(
    steps: Callable[..., Any],
    covariance: np.ndarray,
    prior_mean: np.ndarray,
    settings: tuple[float, ...],
    sites: np.ndarray,
    mean: np.ndarray,
    factor: np.ndarray,
) -> tuple[int, float, float] | None:
    """Run Newton's method in a kernel, which writes sites, mean and factor.

    It returns the number of steps, the log-evidence, and the log-determinant of B; None if B is indefinite.

    `steps`: a kernel of `compiled.newton` with the data of its likelihood; `covariance` (n, n): lower triangle of K;
    `prior_mean` (n,); `settings`: settings of the kernel; `sites` (2, n); `mean` (n,): the start, which is read;
    `factor` (n, n): factor of B, in Fortran order.
    """
    known = np.asfortranarray(covariance).T, np.ascontiguousarray(prior_mean, np.float64)
    number, log_evidence, log_determinant = steps(*known, *settings, sites, mean, factor.T)
    record_several(cholesky=number, matvec=number)
    return (number, log_evidence, log_determinant) if isfinite(log_determinant) else None


def deviations(
    transposed_prior_factor: np.ndarray,
    transposed: np.ndarray,
    transposed_factor: np.ndarray,
    precision: np.ndarray,
    normals: np.ndarray,
) -> np.ndarray:
    """Return draws less their mean, made from standard normals: (2, size, n) -> (size, n).

    With u = L e1 and c = B^-1 (W^1/2 u + e2), the vector u - K W^1/2 c has the covariance (K^-1 + W)^-1, for e1 and e2
    standard normal; all draws are columns of one matrix. As B c is known, the product with K cancels here, too:
    the vector is W^-1/2 (c - e2). If a site says almost nothing, this is a difference of nearly equal numbers, and the
    product is computed.

    - `transposed_prior_factor`, `transposed`, `transposed_factor` (n, n): L, K and the factor of B: their transposes,
      in C order; the upper triangles are read
    - `precision` (n,)
    - `normals` (2, size, n): in C order; overwritten
    """
    out = np.empty(normals.shape[1:])
    known = transposed_prior_factor, transposed, transposed_factor, precision
    if compiled("sites.deviations")(*known, normals[0], normals[1], out):
        record("matvec", len(out))
    return out


def log_normalizer(
    prior_mean: np.ndarray, linear: np.ndarray, precision: np.ndarray, mean: np.ndarray, log_determinant: float
) -> float:
    """Return the log of the integral of the prior times the sites: m'(b - W m / 2) + b'_c (mu - m) / 2 - log|B| / 2.

    `prior_mean`, `linear`, `precision`, `mean` (n,); `log_determinant`: log determinant of B.
    """
    known = vectors(prior_mean, linear, precision, mean)
    return compiled("sites.log_normalizer")(*known, log_determinant)


def log_sites(linear: np.ndarray, precision: np.ndarray, f: np.ndarray) -> np.ndarray:
    """Sum of b_i f_i - w_i f_i^2 / 2: (..., n) -> (...).

    Shapes: linear, precision (n,); f (..., n).
    """
    return for_rows(partial(compiled("sites.log_sites"), *vectors(linear, precision)), f)
