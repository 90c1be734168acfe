"""Several latent vectors, independent a priori, as one vector: f is f_1, ..., f_C, one after another.

Code that moves f, estimates with it or stores it sees one flat vector of C n elements. Only likelihoods and sites know
that the C elements of a site belong together (`block_sites.py`). Each vector keeps its own dense prior; vectors with
the same covariance share one prior object, with its factor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Self, cast

import numpy as np

from pmgp.core.gaussians.base import ConditionedPrior, Prior
from pmgp.core.gaussians.block_sites import BlockConditioning
from pmgp.core.gaussians.dense import DensePrior
from pmgp.core.gaussians.held import HeldCovariances
from pmgp.core.gaussians.observed import BlockObservedPrior


class IndependentPrior(Prior):
    """N(f|m, K) with a block-diagonal K, without sites.

    Parameters
    ----------
    parts : sequence of DensePrior
        Priors of f_1, ..., f_C, of any sizes. An object that occurs several times is factorized once.
    """

    parts: tuple[DensePrior, ...]

    def __init__(self, parts: Sequence[DensePrior]) -> None:
        self.parts = tuple(parts)
        self.mean = np.concatenate([part.mean for part in parts])
        self.jitter = max(part.jitter for part in parts)
        self._ends = np.cumsum([part.size for part in parts])

    @property
    def variance(self) -> np.ndarray:
        """Prior variances: (size,)."""
        return np.concatenate([part.variance for part in self.parts])

    @property
    def is_finite(self) -> bool:
        """Whether means and covariances are finite."""
        return all(part.is_finite for part in self.parts)

    def conditioning(self) -> ConditionedPrior:
        """Refuse: it is not known which elements belong to the same site."""
        self._lacks("sites", "BlockPrior or DesignPrior")

    def factorized(self) -> Self | None:
        """Return the prior with its factor, with a jitter if it needs one; None if a part stays indefinite."""
        # A part that occurs several times remembers its factorized form.
        found = [part.factorized() for part in self.parts]
        parts = [part for part in found if part is not None]
        if len(parts) < len(found):
            return None
        same = all(part is before for part, before in zip(parts, self.parts, strict=True))
        return self if same else type(self)(parts)

    def inverted(self) -> Self:
        """Return the prior after computing its inverse, instead of when that is first needed."""
        for part in self.parts:
            part.inverted()
        return self

    def scaled(self, ratio: float) -> Self:
        """Return N(m, ratio K), with the factors that are already known."""
        scaled = {id(part): part.scaled(ratio) for part in self.parts}
        return type(self)([scaled[id(part)] for part in self.parts])

    def deviations_from(self, normals: np.ndarray) -> np.ndarray:
        """Return L e for each row e of standard normals: (draws, size) -> (draws, size)."""
        return self._each(DensePrior.deviations_from, normals, axis=1)

    def whiten(self, f: np.ndarray) -> np.ndarray:
        """Return L^-1 (f - m) for f of shape (size,), or for several f as rows: (k, size)."""
        return self._each(DensePrior.whiten, f, axis=-1)

    def deviation(self, nu: np.ndarray) -> np.ndarray:
        """Return L nu, for nu of shape (size,) or (size, k)."""
        return self._each(DensePrior.deviation, nu)

    def pull(self, gradient: np.ndarray) -> np.ndarray:
        """Return L' g, for g of shape (size,) or (size, k)."""
        return self._each(DensePrior.pull, gradient)

    def solve(self, x: np.ndarray) -> np.ndarray:
        """Return K^-1 x for x of shape (size,) or (size, k)."""
        return self._each(DensePrior.solve, x)

    def product(self, x: np.ndarray) -> np.ndarray:
        """Return K x for x of shape (size,) or (size, k)."""
        return self._each(DensePrior.product, x)

    def precision_product(self, x: np.ndarray) -> np.ndarray:
        """Return K^-1 x using the inverses, for many x of shape (size,)."""
        return self._each(DensePrior.precision_product, x)

    def log_density(self, f: np.ndarray) -> float:
        """Return log N(f|m, K) for f of shape (size,)."""
        return sum(part.log_density(x) for part, x in zip(self.parts, self._split(f), strict=True))

    def _split(self, x: np.ndarray, axis: int = 0) -> list[np.ndarray]:
        return np.split(x, self._ends[:-1], axis)

    def _each(
        self, function: Callable[[DensePrior, np.ndarray], np.ndarray], x: np.ndarray, axis: int = 0
    ) -> np.ndarray:
        """Apply a function to each part and its block of x, and join the results along the same axis."""
        values = [function(part, block) for part, block in zip(self.parts, self._split(x, axis), strict=True)]
        return np.concatenate(values, axis)


class BlockPrior(IndependentPrior, HeldCovariances):
    """N(f|m, K) with a block-diagonal K, and a site over the elements with the same index.

    Parameters
    ----------
    parts : sequence of DensePrior
        Priors of f_1, ..., f_C, of n elements each. An object that occurs several times is factorized once.

    Raises
    ------
    ValueError
        If there are no parts, or parts of different sizes.
    """

    parts: tuple[DensePrior, ...]

    def __init__(self, parts: Sequence[DensePrior]) -> None:
        sizes = [part.size for part in parts]
        if len(set(sizes)) != 1:
            raise ValueError(f"latent vectors must have the same length, not {sizes} elements")
        super().__init__(parts)
        self.vectors = len(parts)

    def conditioning(self) -> BlockConditioning:
        """Return the prior in the form that a search for sites conditions."""
        return BlockConditioning(self)

    def observed(self, precision: np.ndarray) -> BlockObservedPrior | None:
        """Condition f on noisy observations, using two factorizations and one inversion for each vector."""
        found = [part.observed(w) for part, w in zip(self.parts, self._split(precision), strict=True)]
        parts = [part for part in found if part is not None]
        if len(parts) < len(found):
            return None
        # A part with a jitter is another prior.
        return BlockObservedPrior(BlockPrior([cast(DensePrior, part.prior) for part in parts]), parts)

    def log_density_gradient(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradients of log N(f|m, K) in the K_c, (C, n, n), and in m, (C n,)."""
        found = [part.log_density_gradient(x) for part, x in zip(self.parts, self._split(f), strict=True)]
        return np.array([covariance for covariance, _ in found]), np.concatenate([mean for _, mean in found])

    def unwhitening_gradient(self, nu: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Return the gradients in the K_c, (C, n, n), of a function whose gradient in f = m + L nu is g."""
        blocks = zip(self.parts, self._split(nu), self._split(gradient), strict=True)
        return np.array([part.unwhitening_gradient(x, g) for part, x, g in blocks])

    def unwhitening_changes(self, nu: np.ndarray, changes: np.ndarray) -> np.ndarray:
        """Return the change of L nu for each of p changes of the K_c: (C n,) and (p, C, n, n) -> (p, C n)."""
        blocks = zip(self.parts, self._split(nu), changes.swapaxes(0, 1), strict=True)
        return np.concatenate([part.unwhitening_changes(x, by) for part, x, by in blocks], axis=1)

    def fisher_information(self, means: np.ndarray, covariances: Iterable[np.ndarray]) -> np.ndarray:
        """Return the Fisher information about parameters: the sum of those of the parts.

        Parameters
        ----------
        means : (p, C n) array
        covariances : p arrays of shape (C, n, n)
        """
        blocks = zip(self.parts, self._split(means, axis=1), zip(*covariances, strict=True), strict=True)
        return np.sum([part.fisher_information(mean, changes) for part, mean, changes in blocks], axis=0)

    def precision_factor(self, information: np.ndarray) -> np.ndarray | None:
        """Return the lower Cholesky factor of K^-1 + diag(information); None if that is not positive definite."""
        factor = np.zeros((self.size, self.size), order="F")
        for number, (part, diagonal) in enumerate(zip(self.parts, self._split(information), strict=True)):
            block = part.precision_factor(diagonal)
            if block is None:
                return None
            rows = slice(number * self.sites, (number + 1) * self.sites)
            factor[rows, rows] = np.tril(block)
        return factor
