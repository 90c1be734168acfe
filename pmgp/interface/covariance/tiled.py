"""A model's covariance as a function of theta that never makes the matrix: a `Kernel` for iterative solvers.

The last additions to the diagonal are set apart as noise: preconditioners approximate the covariance without it, and
solvers measure residuals in units of the noise's standard deviations.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from pytensor.tensor.variable import TensorVariable

from pmgp.core.iterative.bars import CovarianceBar
from pmgp.core.iterative.preconditioners import Kernel
from pmgp.core.numerics.ledger import record
from pmgp.interface.covariance.blocked import BlockedCovariance
from pmgp.interface.covariance.executor import MomentParts, by_kind
from pmgp.interface.covariance.kept import Products
from pmgp.interface.covariance.pullback import of_columns, of_pairs
from pmgp.interface.graphs.compilation import Compiler
from pmgp.interface.graphs.numpy_graph import UnsupportedGraphError

# With more points than this, no n by n matrix is kept, whatever it is computed from.
LARGEST_WHOLE = 10_000


class TiledMoments(NamedTuple):
    """The mean m, and the covariance K + diag(noise) in parts.

    The noise is zero where the graph adds nothing to the diagonal at its end.
    """

    mean: np.ndarray
    kernel: Kernel
    noise: np.ndarray

    @property
    def total(self) -> NoisyKernel:
        """K + diag(noise) as a kernel."""
        return NoisyKernel(self.kernel, self.noise)


class CovarianceInTiles(Protocol):
    """A function from theta to the mean and to K in parts, with gradients."""

    def moments(self, theta: np.ndarray) -> TiledMoments:
        """Return the mean, K in parts, and the noise at theta; products with K are in double precision."""

    def quick_kernel(self, moments: TiledMoments) -> Kernel:
        """Return K with products in single precision, if these are accurate enough, or else K as it is."""

    def pullback_of_bar(self, theta: np.ndarray, bar: CovarianceBar, mean_bar: np.ndarray) -> np.ndarray:
        """Return the gradient in theta of a function with gradients `bar` in K and the noise, and `mean_bar` in m."""

    def refresh_data(self) -> None:
        """Read the data again, as `pymc.set_data` may have changed them."""

    @property
    def computed(self) -> str:
        """How products are computed, in words."""


class Theta(Protocol):
    """Theta as a vector: the part of `interface.model.ThetaVector` that makers of covariances in tiles need."""

    compile_function: Compiler

    def write(self, outputs: list[TensorVariable]) -> tuple[list[TensorVariable], TensorVariable]:
        """Return graphs of the value variables as graphs of the vector, and the vector."""

    @property
    def initial(self) -> np.ndarray:
        """Theta at the model's initial point."""


class Backend(Protocol):
    """A maker of covariances in tiles."""

    def covariance(
        self, model: Any, theta: Theta, mean: TensorVariable, covariance: TensorVariable
    ) -> CovarianceInTiles:
        """Return the mean and the covariance as a function of theta, from their graphs of the value variables.

        Raises
        ------
        UnsupportedGraphError
            If the covariance cannot be computed in tiles; the message says why.
        """


class TiledKernel:
    """K in parts that are computed on request; a `core.iterative.preconditioners.Kernel`."""

    def __init__(self, parts: MomentParts, products: Products) -> None:
        self._parts, self.products = parts, products
        self.size = len(parts.mean)

    def product(self, vectors: np.ndarray) -> np.ndarray:
        """Multiply K by columns: (n, k) -> (n, k)."""
        record("matvec", vectors.shape[1])
        return self.products(vectors)

    def columns(self, points: np.ndarray) -> np.ndarray:
        """Return columns of K: (m,) -> (n, m)."""
        return self._parts.gathered(points)

    def block(self, where: slice) -> np.ndarray:
        """Return a square block of K: the rows and columns of a slice with a start and a stop."""
        return self._parts.block(where)

    def diagonal(self) -> np.ndarray:
        """Return the diagonal of K, of shape (n,)."""
        return self._parts.diagonal(slice(0, self.size))

    def quick(self, noise: np.ndarray) -> TiledKernel:
        """Return K with the fastest products among those that rounding changes little."""
        return TiledKernel(self._parts, self.products.quick(noise))


class NoisyKernel:
    """K + diag(noise) in parts that are computed on request; a `core.iterative.preconditioners.Kernel`."""

    def __init__(self, kernel: Kernel, noise: np.ndarray) -> None:
        self._kernel, self._noise = kernel, noise
        self.size = kernel.size

    def product(self, vectors: np.ndarray) -> np.ndarray:
        """Multiply K + diag(noise) by columns: (n, k) -> (n, k)."""
        return self._kernel.product(vectors) + self._noise[:, None] * vectors

    def columns(self, points: np.ndarray) -> np.ndarray:
        """Return columns of K + diag(noise): (m,) -> (n, m)."""
        columns = self._kernel.columns(points)
        columns[points, np.arange(len(points))] += self._noise[points]
        return columns

    def block(self, where: slice) -> np.ndarray:
        """Return a square block of K: the rows and columns of a slice with a start and a stop."""
        return self._kernel.block(where) + np.diag(self._noise[where])

    def diagonal(self) -> np.ndarray:
        """Return the diagonal of K + diag(noise), of shape (n,)."""
        return self._kernel.diagonal() + self._noise


class TiledCovariance(BlockedCovariance):
    """Compiled theta -> (m, K, noise), in O(n) memory besides elements of K, which are kept if `memory` bytes suffice.

    A covariance is refused if it has no form with parts, a whole n x n matrix among its inputs, or an operation without
    a known derivative.
    """

    def __init__(
        self,
        mean: TensorVariable,
        covariance: TensorVariable,
        theta: TensorVariable,
        compile_function: Compiler,
        memory: float = 0.0,
    ) -> None:
        super().__init__(mean, covariance, theta, compile_function, keeping=False)
        self._memory = memory
        self._words = "by NumPy"
        if not self.has_pullback:
            raise UnsupportedGraphError(
                "the derivative of the covariance cannot be computed in tiles: an n by n matrix in its graph depends "
                "on theta as a whole, or an operation has no rule. JaxTiles(cov_func=..., X=...) computes tiles from "
                "the covariance function itself"
            )

    @property
    def computed(self) -> str:
        """How the last products were computed, in words."""
        return self._words

    @np.errstate(all="ignore")
    def moments(self, theta: np.ndarray) -> TiledMoments:
        """Return the mean, K in parts, and the noise at theta.

        A whole matrix among the inputs of the instructions is refused for more than 10,000 points.
        """
        mean, *values = self._at(theta)
        inputs = by_kind(values, self._shape)
        _refuse_whole(inputs["leaf"])
        noise = sum((inputs["diagonal"][step.place] for step in self._last_diagonals), np.zeros(len(mean)))
        parts = MomentParts(mean, self._code, inputs)
        products = Products(parts, self._memory)
        self._words = str(products)
        return TiledMoments(np.array(mean, dtype=float), TiledKernel(parts, products), noise)

    def quick_kernel(self, moments: TiledMoments) -> Kernel:
        """Return K with products in single precision, if only these can be kept and they are accurate enough."""
        kernel = cast("TiledKernel", moments.kernel).quick(moments.noise)
        self._words = str(kernel.products)
        return kernel

    def pullback_of_bar(self, theta: np.ndarray, bar: CovarianceBar, mean_bar: np.ndarray) -> np.ndarray:
        """Return the gradient in theta of a function with gradients `bar` in K and the noise, and `mean_bar` in m."""
        weighted = chain(of_pairs(bar.left, bar.right), of_columns(bar.points, bar.weights))
        return self._pulled_back(theta, weighted, bar.noise, mean_bar)


def _refuse_whole(leaves: list[np.ndarray]) -> None:
    if any(min(leaf.shape) > 1 and len(leaf) > LARGEST_WHOLE for leaf in leaves):
        raise UnsupportedGraphError(
            "the graph of the covariance contains an n by n matrix that is not a function of thin products, and such "
            f"a matrix is not stored for more than {LARGEST_WHOLE} points: write the kernel as a function of inner "
            "products or squared distances, or give it as JaxTiles(cov_func=..., X=...)"
        )
