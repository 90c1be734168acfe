"""A dense covariance with sites over combinations of the latent values, such as differences of two of them.

f ~ N(m, K), and the C values of site i are row i of E_1 f, ..., E_C f; E has these matrices one below another. With
K = L L' and W = V V', the sites leave f the covariance

    S = (K^-1 + E'WE)^-1 = L B^-1 L',  B = I + L'E'WEL,

so sites may repeat or follow from each other, and there may be more or fewer of them than elements of f. Neither K nor
W is inverted, and variances are sums of squares.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import block_diag

from pmgp.core.gaussians.block_sites import BlockConditioning
from pmgp.core.gaussians.blocks import IndependentPrior
from pmgp.core.gaussians.dense import DensePrior
from pmgp.core.gaussians.linear_sites import LinearSitesApproximation, LinearSitesPrior
from pmgp.core.numerics import linalg
from pmgp.core.numerics.block_matrices import BlockMatrix, along_last, stacked


@dataclass(frozen=True, eq=False)
class DesignPrior(LinearSitesPrior):
    """N(f|m, K) with matrices for K, and n sites over C values each.

    Parameters
    ----------
    of_f : IndependentPrior
    design : (C n, m) sparse array
        E.
    vectors : int
        C.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from pmgp.core.gaussians import DensePrior, DesignPrior, IndependentPrior
    >>> f = IndependentPrior([DensePrior(np.zeros(2), np.diag([1.0, 3.0]))])
    >>> DesignPrior(f, sparse.csr_array([[1.0, -1.0]]), 1).site_variance
    array([4.])
    """

    of_f: IndependentPrior
    design: Any
    vectors: int

    @property
    def parts(self) -> tuple[DensePrior, ...]:
        """The priors of independent parts of f."""
        return self.of_f.parts

    @property
    def mean(self) -> np.ndarray:  # type: ignore[override]
        """m: (m,)."""
        return self.of_f.mean

    @property
    def jitter(self) -> float:  # type: ignore[override]
        """The largest amount added to the diagonal of a part's covariance."""
        return self.of_f.jitter

    @property
    def variance(self) -> np.ndarray:
        """Prior variances: (m,)."""
        return self.of_f.variance

    @property
    def sites(self) -> int:
        """Number n of sites."""
        return int(self.design.shape[0]) // self.vectors

    @property
    def is_finite(self) -> bool:
        """Whether mean and covariance are finite."""
        return self.of_f.is_finite

    @cached_property
    def factor(self) -> np.ndarray:
        """L: (m, m), block-diagonal."""
        return np.asfortranarray(block_diag(*[np.tril(part.factor) for part in self.of_f.parts]))

    @cached_property
    def root(self) -> np.ndarray:
        """E L: (C n, m)."""
        return self.design @ self.factor

    @cached_property
    def site_blocks(self) -> np.ndarray:
        """Covariances of the values of each site: (n, C, C); NaN if K is indefinite."""
        prior = self.factorized()
        if prior is None:
            return np.full((self.sites, self.vectors, self.vectors), np.nan)
        return _blocks(prior.root.T, self.sites)

    def at_sites(self, f: np.ndarray) -> np.ndarray:
        """Return E f: (..., m) -> (..., C n)."""
        return along_last(self.design, f)

    def from_sites(self, b: np.ndarray) -> np.ndarray:
        """Return E' b: (C n,) -> (m,)."""
        return self.design.T @ b

    def factorized(self) -> DesignPrior | None:
        """Return the prior with its factor, with a jitter if it needs one; None if K stays indefinite."""
        return self._factorized

    @cached_property
    def _factorized(self) -> DesignPrior | None:
        found = self.of_f.factorized()
        if found is None:
            return None
        return self if found is self.of_f else DesignPrior(found, self.design, self.vectors)

    def product(self, x: np.ndarray) -> np.ndarray:
        """Return K x for x of shape (m,) or (m, k)."""
        return self.of_f.product(x)

    def deviations_from(self, normals: np.ndarray) -> np.ndarray:
        """Return L e for each row e of standard normals: (draws, m) -> (draws, m)."""
        return self.of_f.deviations_from(normals)

    def shrunk(self, precision: BlockMatrix) -> DesignShrinkage | None:  # type: ignore[override]
        """Return (K^-1 + E'WE)^-1; None if K or the result is indefinite."""
        prior = self.factorized()
        if prior is None:
            return None
        half = _by_roots(precision.blocks, prior.root, self.sites)
        b = np.asfortranarray(half.T @ half)
        np.einsum("ii->i", b)[:] += 1.0
        try:
            return DesignShrinkage(prior, precision, linalg.cholesky(b, overwrite=True))
        except linalg.NotPositiveDefiniteError:
            return None

    def conditioning(self) -> DesignConditioning:
        """Return the prior, with a jitter if it needs one, in the form that a search for sites conditions."""
        return DesignConditioning(self.factorized() or self)


@dataclass(frozen=True, eq=False)
class DesignShrinkage:
    """The covariance S = L B^-1 L' of f given the sites.

    `precision`: W; `factor` (m, m): lower Cholesky factor of B.
    """

    prior: DesignPrior
    precision: BlockMatrix
    factor: np.ndarray

    @property
    def log_determinant(self) -> float:
        """The log-determinant of I + K E'WE."""
        return linalg.log_determinant(self.factor)

    @cached_property
    def root(self) -> np.ndarray:
        """H with H'H = S: (m, m)."""
        return linalg.triangular_solve(self.factor, np.asfortranarray(self.prior.factor.T))

    def product(self, x: np.ndarray) -> np.ndarray:
        """Return S x for x of shape (m,) or (m, k)."""
        return self.prior.of_f.deviation(linalg.cholesky_solve(self.factor, self.prior.of_f.pull(x)))

    def diagonal(self) -> np.ndarray:
        """Return the diagonal of S: (m,)."""
        return np.einsum("ki,ki->i", self.root, self.root)

    def marginals(self) -> np.ndarray:
        """Return the covariances of the values of each site: (n, C, C)."""
        whitened = linalg.triangular_solve(self.factor, np.asfortranarray(self.prior.root.T))
        return self.prior.raised(_blocks(whitened, self.prior.sites))

    def drawn_from(self, normals: np.ndarray) -> np.ndarray:
        """Turn standard normals into draws with covariance S: (size, m) -> (size, m)."""
        whitened = linalg.triangular_solve(self.factor, np.asfortranarray(normals.T), transpose=True)
        return self.prior.of_f.deviation(whitened).T

    def resistance(self) -> np.ndarray:
        """Return M - M S M, for M = E'WE: (m, m), symmetric in Fortran order.

        This is the gradient of log|I + K M| in K.
        """
        information = self._information()
        half = self.root @ information
        return np.asfortranarray(information - half.T @ half)

    def _information(self) -> np.ndarray:
        """E'WE: (m, m)."""
        sites = self.prior.sites
        blocks, number = self.precision.blocks, self.prior.vectors
        parts = [self.prior.design[c * sites : (c + 1) * sites] for c in range(number)]
        pairs = product(range(len(parts)), repeat=2)
        return sum(parts[c].T @ (sparse.diags_array(blocks[:, c, d]) @ parts[d]) for c, d in pairs).toarray()


class DesignConditioning(BlockConditioning):
    """A prior conditioned on one set of sites after another."""

    prior: DesignPrior
    shrinkage: DesignShrinkage  # type: ignore[assignment]

    def approximation(self, log_evidence: float, iterations: int, converged: bool = True) -> DesignPosterior:
        """Return q for the current sites."""
        return DesignPosterior(
            self.prior, self.linear, self.precision, self.mean, self.shrinkage, log_evidence, iterations, converged
        )


@dataclass(frozen=True, eq=False)
class DesignPosterior(LinearSitesApproximation):
    """The approximation q(f); see `BlockApproximation`. A draw takes a triangular solution and a product."""

    prior: DesignPrior
    shrinkage: DesignShrinkage

    def covariance_bar(self, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower triangle of (a a' - R) / 2 for a = E' alpha, (m, m), and covariances of sites, (n, C, C)."""
        resistance = self.shrinkage.resistance()
        return linalg.add_outer(-0.5 * resistance, self.prior.from_sites(alpha)), self.marginals

    def shifted_bar(self, bar: np.ndarray, shift: np.ndarray, alpha: np.ndarray) -> np.ndarray:
        """Return the lower triangle of the bar with (s a' + a s') / 2 added, for s = E' shift."""
        pulled = (self.prior.from_sites(each) for each in (shift, alpha))
        return linalg.add_outer(np.asfortranarray(bar), *pulled)

    def deviations_from(self, normals: np.ndarray) -> np.ndarray:
        """Turn standard normals into draws of f - mean; half of them are not needed: (2, size, m) -> (size, m)."""
        return self.shrinkage.drawn_from(normals[0])

    def sample_deviations(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw f - mean: (size, m)."""
        return self.shrinkage.drawn_from(rng.standard_normal((size, self.size)))


def _blocks(root: np.ndarray, sites: int) -> np.ndarray:
    """Return the products of the columns of a matrix that belong to the same site: (k, C n) -> (n, C, C)."""
    columns = stacked(root, sites)
    return np.einsum("kci,kdi->icd", columns, columns)


def _by_roots(blocks: np.ndarray, root: np.ndarray, sites: int) -> np.ndarray:
    """Return V' G for the roots V of the blocks of W: (n, C, C) and (C n, m) -> (C n, m)."""
    parts = root.reshape(-1, sites, root.shape[1])
    return np.einsum("idc,dim->cim", np.linalg.cholesky(blocks), parts).reshape(root.shape)
