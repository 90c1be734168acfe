"""The protocol of likelihoods whose terms depend on one value of each of several latent vectors."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.numerics.block_matrices import BlockMatrix, flat

# Step of the central differences of a curvature, in deviations of q.
STEP = 1e-5


class BlockMoments(NamedTuple):
    """Moments of the densities proportional to ``p(y_i|f_i) N(H f_i|mean, covariance)`` of d contrasts H f_i.

    - `mean` (n, d)
    - `covariance` (n, d, d)
    - `log_normalizer` (n,): log of the integral of p(y_i|f_i) N(H f_i|mean, covariance) over H f_i
    - `curvature` (n, C, C) or None: expectations of minus the second derivatives of log p(y_i|f_i), if sites use these
      as precisions: a form that cannot match all covariances can always come close to them
    """

    mean: np.ndarray
    covariance: np.ndarray
    log_normalizer: np.ndarray
    curvature: np.ndarray | None = None


class BlockLikelihood(Likelihood, Protocol):
    """p(y|f) = prod_i p(y_i|f_i) with C latent values in each f_i.

    f is flat: the n values of the first latent vector, then those of the second, and so on; leading axes are
    independent draws.
    """

    @property
    def contrasts(self) -> np.ndarray:
        """H, (d, C), with orthonormal rows, such that p(y_i|f_i) depends only on H f_i.

        It is the identity, or a matrix with one row less if adding a number to all elements of f_i changes nothing.
        """

    @property
    def site_form(self) -> type[BlockMatrix]:
        """Class of the sites' precision matrices: `ContrastBlocks` or `DenseBlocks`."""

    def derivatives(self, f: np.ndarray) -> tuple[np.ndarray, BlockMatrix]:
        """Return the gradient, (C n,), and a positive semidefinite curvature, near minus the second derivative."""

    def tilted_moments(
        self, mean: np.ndarray, covariance: np.ndarray, near: tuple[np.ndarray, np.ndarray] | None = None, /
    ) -> BlockMoments | None:
        """Return the moments of p(y_i|f_i) N(H f_i|mean, covariance): (n, d) and (n, d, d) arrays; None if not known.

        `near` holds means and covariances of H f_i close to the answer.
        """


def curvature_gradient(likelihood: Any, f: np.ndarray, marginals: np.ndarray) -> np.ndarray:
    """Return the gradient of sum_i <S_i, W_i(f)> in f, from central differences if the likelihood does not know it.

    `marginals` (n, C, C): S. A site's block depends only on the site's own values, so all sites are moved at once.
    """
    if hasattr(likelihood, "curvature_gradient"):
        return likelihood.curvature_gradient(f, marginals)
    number, n = marginals.shape[1], len(marginals)
    steps = STEP * np.sqrt(np.einsum("icc->ci", marginals))
    found = np.empty((number, n))
    for c in range(number):
        shift = np.zeros((number, n))
        shift[c] = steps[c]
        above, below = (likelihood.derivatives(f + sign * flat(shift))[1].blocks for sign in (1.0, -1.0))
        found[c] = np.einsum("icd,icd->i", marginals, above - below) / (2.0 * steps[c])
    return flat(found)
