"""q in coordinates that are drawn group by group, for particles that take in the observations one group at a time.

With K = R R' and f = mean + R v, v has the precision P = I + R' W R under q, which is well-conditioned where K is not.
If latent values are ordered by group, R is lower triangular: K is block-diagonal, and all latent values of a
site are in the same group. With P = T' T and a lower triangular T, T v is standard normal, and v follows from normals
by forward substitution, group by group. So neither an inverse nor a factor of q's covariance is needed.

One factorization, with a row for each latent value, is made for each q, and kept as long as q.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from scipy.linalg.blas import dtrmm

from pmgp.core.gaussians.base import Posterior
from pmgp.core.gaussians.held import HeldCovariance
from pmgp.core.numerics import linalg
from pmgp.core.numerics.block_matrices import BlockMatrix, flat
from pmgp.core.numerics.ledger import record


class Group(NamedTuple):
    """Sites from `start` to `stop`, s of them with C latent values each.

    `across` (C, C s, start): T in the rows of the group, for the sites before it, by latent vector; `own` (C s, C s): T
    in the rows and columns of the group, lower triangle; `mean` (C, s): mean of q; `linear` (C s,): linear parameters
    of the sites; `precision`: precisions of the sites.
    """

    start: int
    stop: int
    across: np.ndarray
    own: np.ndarray
    mean: np.ndarray
    linear: np.ndarray
    precision: BlockMatrix

    @property
    def where(self) -> slice:
        """The sites as a slice."""
        return slice(self.start, self.stop)

    def log_sites(self, values: np.ndarray) -> np.ndarray:
        """Return the log of the product of the sites: (draws, C, s) -> (draws,)."""
        f = flat(values)
        return f @ self.linear - 0.5 * self.precision.quadratic(f)


@dataclass(frozen=True, eq=False)
class SiteGroups:
    """All groups of sites of a q.

    `mean` (C, n): mean of q; `roots` sequence of (n, n) arrays: R, a lower triangle for each latent vector;
    `log_normalizer`: log of the integral of the prior times the sites.
    """

    mean: np.ndarray
    roots: Sequence[np.ndarray]
    groups: Sequence[Group]
    log_normalizer: float

    @classmethod
    def of(cls, q: Posterior, parts: Sequence[HeldCovariance], precision: BlockMatrix, number: int) -> SiteGroups:
        """Make `number` groups whose sizes differ by at most one, or one for each site if there are fewer sites."""
        vectors, sites = len(parts), parts[0].size
        bounds = list(pairwise(np.linspace(0, sites, min(number, sites) + 1).round().astype(int).tolist()))
        roots = _triangles(parts)
        factor = _factor(roots, precision.blocks, bounds)
        mean, linear = (x.reshape(vectors, sites) for x in (q.mean, q.linear))
        groups = []
        for start, stop in bounds:
            across, own = _rows(factor, vectors, bounds, start, stop)
            here = slice(start, stop)
            parameters = mean[:, here], linear[:, here].ravel()
            groups.append(Group(start, stop, across, own, *parameters, precision.subset(here)))
        return cls(mean, roots, groups, q.log_normalizer)

    def whitened(self, f: np.ndarray) -> np.ndarray:
        """Return v for f = mean + R v: (C n,) to (C, n)."""
        deviations = f.reshape(self.mean.shape) - self.mean
        return np.array([linalg.triangular_solve(root, x) for root, x in zip(self.roots, deviations, strict=True)])

    def grow(self, group: Group, whitened: np.ndarray, normals: np.ndarray) -> None:
        """Extend particles by v in a group of sites, given v in the groups before it.

        - `whitened` (C, draws, n): v, changed in place
        - `normals` (draws, C s): T v there; overwritten
        """
        for v, across in zip(whitened, group.across, strict=True):
            normals -= v[:, : group.start] @ across.T
        solved = linalg.triangular_solve(group.own, normals.T).T
        whitened[:, :, group.where] = solved.reshape(len(normals), len(whitened), -1).swapaxes(0, 1)

    def values(self, group: Group, whitened: np.ndarray) -> np.ndarray:
        """Return the latent values in a group: (C, draws, n) to (draws, C, s)."""
        known = [
            v[:, : group.stop] @ root[group.where, : group.stop].T for v, root in zip(whitened, self.roots, strict=True)
        ]
        return np.stack(known, axis=1) + group.mean


# The groups of each q, by their number. An entry is dropped with its q.
_known: WeakKeyDictionary[Posterior, dict[int, SiteGroups]] = WeakKeyDictionary()


def site_groups(q: Posterior, parts: Sequence[HeldCovariance], precision: BlockMatrix, number: int) -> SiteGroups:
    """Return the groups of q, which are made on the first call, and kept as long as q.

    - `parts`: priors of the latent vectors
    - `precision`: precisions of the sites, each over one value of each vector
    - `number`: number of groups; one for each site if there are fewer sites
    """
    found = _known.setdefault(q, {})
    if number not in found:
        found[number] = SiteGroups.of(q, parts, precision, number)
    return found[number]


def _triangles(parts: Sequence[HeldCovariance]) -> list[np.ndarray]:
    """Return the root R of each vector's K, with zeros above the diagonal; vectors that share a prior share one."""
    found = {id(part): np.asfortranarray(np.tril(part.factor)) for part in parts}
    return [found[id(part)] for part in parts]


def _factor(roots: Sequence[np.ndarray], blocks: np.ndarray, bounds: list[tuple[int, int]]) -> np.ndarray:
    """Return T with rows and columns reversed: the transpose of a Cholesky factor of P reversed.

    Rows are ordered by group, within a group by vector, and within a vector by site.
    """
    vectors, n = len(roots), len(blocks)
    kinds = np.concatenate([np.repeat(np.arange(vectors), stop - start) for start, stop in bounds])[::-1]
    sites = np.concatenate([np.tile(np.arange(start, stop), vectors) for start, stop in bounds])[::-1]
    # R' in this order: a row for each latent value.
    placed, precision = np.empty((vectors * n, n), order="F"), np.empty((vectors * n, vectors * n), order="F")
    for c, root in enumerate(roots):
        placed[kinds == c] = root.T[sites[kinds == c]]
    for c, root in enumerate(roots):
        weighted = placed * blocks[:, c][:, kinds].T
        precision[:, np.flatnonzero(kinds == c)[::-1]] = dtrmm(1.0, root, weighted, side=1, lower=1, overwrite_b=1)
    record("matmul", vectors**2)
    np.einsum("ii->i", precision)[:] += 1.0
    return linalg.cholesky(precision, overwrite=True)


def _rows(
    factor: np.ndarray, vectors: int, bounds: list[tuple[int, int]], start: int, stop: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return a group's rows of T: in the columns of the sites before it, by latent vector, and in its own columns."""
    turned = factor.T[::-1, ::-1]
    rows, size = slice(start * vectors, stop * vectors), (stop - start) * vectors
    before = np.empty((vectors, size, start))
    for first, last in bounds:
        if last <= start:
            block = turned[rows, first * vectors : last * vectors]
            before[:, :, first:last] = block.reshape(size, vectors, last - first).swapaxes(0, 1)
    return before, np.asfortranarray(turned[rows, rows])
