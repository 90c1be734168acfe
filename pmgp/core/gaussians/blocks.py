"""Several latent vectors, independent a priori, as one: f is f_1, ..., f_C, one after another.

What moves f, estimates with it or stores it sees one flat vector of C n elements; likelihoods and sites know that the
C elements of a site belong together (`block_sites.py`). Each vector keeps its own dense prior, and those that share a
covariance share it as one object, with its factor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

import numpy as np

from pmgp.core.gaussians.dense import DensePrior
from pmgp.core.likelihoods.base import Likelihood

__all__ = ["BlockPrior"]


class BlockPrior:
    """N(f|m, K) with a block-diagonal K.

    Parameters
    ----------
    parts : sequence of DensePrior
        Of f_1, ..., f_C, of n elements each. One that stands there several times is factorized once.

    Raises
    ------
    ValueError
        For none, and for parts of different sizes.
    """

    def __init__(self, parts: Sequence[DensePrior]) -> None:
        sizes = [part.size for part in parts]
        if len(set(sizes)) != 1:
            raise ValueError(f"latent vectors must be as long as each other, not of {sizes} elements")
        self.parts = tuple(parts)

    @property
    def sites(self) -> int:
        """Number n of elements that each of the vectors has."""
        return self.parts[0].size

    @property
    def size(self) -> int:
        """Number of latent values C n."""
        return len(self.parts) * self.sites

    @cached_property
    def mean(self) -> np.ndarray:
        """m: (C n,)."""
        return np.concatenate([part.mean for part in self.parts])

    @property
    def variance(self) -> np.ndarray:
        """Prior variances: (C n,)."""
        return np.concatenate([part.variance for part in self.parts])

    @property
    def jitter(self) -> float:
        """The largest one of the parts."""
        return max(part.jitter for part in self.parts)

    @property
    def is_finite(self) -> bool:
        """Whether means and covariances are."""
        return all(part.is_finite for part in self.parts)

    @property
    def covariances(self) -> list[np.ndarray]:
        """The K_c, lower triangles: C arrays of shape (n, n)."""
        return [part.covariance for part in self.parts]

    def factorized(self) -> BlockPrior | None:
        """The same prior with its factors, or with a jitter in the parts that need it; None where one is indefinite."""
        # A part that stands there several times remembers what it has found.
        found = [part.factorized() for part in self.parts]
        parts = [part for part in found if part is not None]
        if len(parts) < len(found):
            return None
        same = all(part is before for part, before in zip(parts, self.parts, strict=True))
        return self if same else BlockPrior(parts)

    def inverted(self) -> BlockPrior:
        """The same prior, its inverses made now and not when they are first needed."""
        for part in self.parts:
            part.inverted()
        return self

    def scaled(self, ratio: float) -> BlockPrior:
        """N(m, ratio K), with the factors that are known."""
        scaled = {id(part): part.scaled(ratio) for part in self.parts}
        return BlockPrior([scaled[id(part)] for part in self.parts])

    def sample_deviations(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draws of f - m, of shape (size, C n)."""
        return self.deviations_from(rng.standard_normal((size, self.size)))

    def deviations_from(self, normals: np.ndarray) -> np.ndarray:
        """L e for each row e of standard normals: (size, C n) -> (size, C n)."""
        return self._each(DensePrior.deviations_from, normals, axis=1)

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draws, of shape (size, C n)."""
        return self.mean + self.sample_deviations(rng, size)

    @staticmethod
    def log_ratio(likelihood: Likelihood, f: np.ndarray) -> np.ndarray:
        """Log of p(y|f) N(f|m, K) over the prior, that is of the likelihood: (..., C n) -> (...)."""
        return likelihood.log_likelihood(f)

    def whiten(self, f: np.ndarray) -> np.ndarray:
        """L^-1 (f - m) for f of shape (C n,), or of several f that are rows: (k, C n)."""
        return self._each(DensePrior.whiten, f, axis=-1)

    def deviation(self, nu: np.ndarray) -> np.ndarray:
        """L nu: (C n,) -> (C n,)."""
        return self._each(DensePrior.deviation, nu)

    def unwhiten(self, nu: np.ndarray) -> np.ndarray:
        """m + L nu: (C n,) -> (C n,)."""
        return self.mean + self.deviation(nu)

    def pull(self, gradient: np.ndarray) -> np.ndarray:
        """L' g: (C n,) -> (C n,)."""
        return self._each(DensePrior.pull, gradient)

    def solve(self, x: np.ndarray) -> np.ndarray:
        """K^-1 x for x of shape (C n,) or (C n, k)."""
        return self._each(DensePrior.solve, x)

    def product(self, x: np.ndarray) -> np.ndarray:
        """K x for x of shape (C n,) or (C n, k)."""
        return self._each(DensePrior.product, x)

    def precision_product(self, x: np.ndarray) -> np.ndarray:
        """K^-1 x by the inverses, for many x of shape (C n,)."""
        return self._each(DensePrior.precision_product, x)

    def log_density(self, f: np.ndarray) -> float:
        """Log N(f|m, K) for f of shape (C n,)."""
        return sum(part.log_density(x) for part, x in zip(self.parts, self._split(f), strict=True))

    def log_density_gradient(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradients of log N(f|m, K) in the K_c, (C, n, n), and in m, (C n,)."""
        found = [part.log_density_gradient(x) for part, x in zip(self.parts, self._split(f), strict=True)]
        return np.array([covariance for covariance, _ in found]), np.concatenate([mean for _, mean in found])

    def unwhitening_gradient(self, nu: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Gradients in the K_c, (C, n, n), of what has the gradient g in f = m + L nu."""
        blocks = zip(self.parts, self._split(nu), self._split(gradient), strict=True)
        return np.array([part.unwhitening_gradient(x, g) for part, x, g in blocks])

    def unwhitening_change(self, nu: np.ndarray, change: np.ndarray) -> np.ndarray:
        """How L nu changes with the K_c: (C n,) and (C, n, n) -> (C n,)."""
        blocks = zip(self.parts, self._split(nu), change, strict=True)
        return np.concatenate([part.unwhitening_change(x, by) for part, x, by in blocks])

    def fisher_information(self, means: np.ndarray, covariances: Iterable[np.ndarray]) -> np.ndarray:
        """Fisher information about parameters: the sum of those of the parts.

        Parameters
        ----------
        means : (p, C n) array
        covariances : p arrays of shape (C, n, n)
        """
        blocks = zip(self.parts, self._split(means, axis=1), zip(*covariances, strict=True), strict=True)
        return np.sum([part.fisher_information(mean, changes) for part, mean, changes in blocks], axis=0)

    def precision_factor(self, information: np.ndarray) -> np.ndarray | None:
        """Lower Cholesky factor of K^-1 + diag(information), (C n, C n), block by block; None where it has none."""
        factor = np.zeros((self.size, self.size), order="F")
        for number, (part, diagonal) in enumerate(zip(self.parts, self._split(information), strict=True)):
            block = part.precision_factor(diagonal)
            if block is None:
                return None
            rows = slice(number * self.sites, (number + 1) * self.sites)
            factor[rows, rows] = np.tril(block)
        return factor

    def _split(self, x: np.ndarray, axis: int = 0) -> list[np.ndarray]:
        return np.split(x, len(self.parts), axis)

    def _each(
        self, function: Callable[[DensePrior, np.ndarray], np.ndarray], x: np.ndarray, axis: int = 0
    ) -> np.ndarray:
        """The parts' values of a function of blocks of x, along the same axis."""
        values = [function(part, block) for part, block in zip(self.parts, self._split(x, axis), strict=True)]
        return np.concatenate(values, axis)
