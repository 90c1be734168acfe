"""Tiles of K from a covariance function itself: k(theta, Xi, Xj), also for kernels whose graph has no parts.

A covariance between two sets of inputs has no nugget, such as that of `pm.gp.cov.WhiteNoise`, even where the sets are
the same. So the nugget is the difference of k(Xi) and k(Xi, Xi) on the diagonal.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor.tensor as pt
from pytensor.graph.replace import clone_replace
from pytensor.tensor.variable import TensorVariable

from pmgp.core.iterative.bars import CovarianceBar
from pmgp.core.iterative.preconditioners import Kernel
from pmgp.core.tiles.blocks import TileInputs, blocked, joined
from pmgp.interface.covariance.blocked import last_diagonals, thin_pullback
from pmgp.interface.covariance.tiled import Theta, TiledMoments
from pmgp.interface.graphs.numpy_operations import UnsupportedGraphError
from pmgp.interface.graphs.rewriting import rewrite
from pmgp.interface.graphs.theta_function import ThetaFunction
from pmgp.interface.tiles.jax_functions import jax_function
from pmgp.interface.tiles.kernel import JaxKernel, Products
from pmgp.interface.tiles.settings import Settings

COMPARED = 20
"""Points at which the model's covariance is compared with the function's."""


class FunctionTile:
    """A tile from a covariance function of two sets of inputs.

    `pair` is a JAX function from theta, Xi and Xj to k(Xi, Xj) alone in a tuple.
    """

    def __init__(self, pair: Any) -> None:
        self._pair = pair

    def __call__(self, inputs: TileInputs, rows: Any, columns: Any) -> Any:
        """Return the elements of K in some rows and columns, given by their numbers."""
        X = inputs.fixed["X"]
        with warnings.catch_warnings():
            # PyTensor's graphs ask for float64 also where tiles are in float32.
            warnings.filterwarnings("ignore", message="Explicitly requested dtype float64")
            (K,) = self._pair(inputs.shared["theta"], X[rows], X[columns])
        return jnp.where(rows[:, None] == columns[None, :], K + inputs.rows["nugget"][:, None], K)


class Nugget:
    """The diagonal of k(X) - k(X, X), without the additions that the model's noise includes.

    `own` is a JAX function from theta, Xi and Xi again to k(Xi), k(Xi, Xi), and the additions; `side` points are
    computed together.
    """

    def __init__(self, own: Any, side: int) -> None:
        self._own, self._side = own, side

    @partial(jax.jit, static_argnames="self")
    def __call__(self, theta: Any, X: Any) -> Any:
        """Return the nugget of all points, (n,)."""
        blocks = jax.lax.map(lambda block: self._of_block(theta, block), blocked(X, self._side))
        return joined(blocks, len(X))

    @partial(jax.jit, static_argnames="self")
    def gradient(self, theta: Any, X: Any, weights: Any) -> Any:
        """Return the gradient in theta of the weighted sum of the nugget."""

        def add(total: Any, one: Any) -> Any:
            block, weight = one
            return total + jax.grad(lambda theta: weight @ self._of_block(theta, block))(theta), None

        given = blocked(X, self._side), jnp.pad(weights, (0, -len(X) % self._side)).reshape(-1, self._side)
        return jax.lax.scan(add, jnp.zeros(theta.shape), given)[0]

    def _of_block(self, theta: Any, block: Any) -> Any:
        whole, pair, additions = self._own(theta, block, block)
        return jnp.diagonal(whole - pair) - additions


class FunctionParts:
    """Parts of K in double precision, from a tile; a `core.iterative.preconditioners.Kernel` without products."""

    def __init__(self, tiles: Any, inputs: TileInputs) -> None:
        self._tiles, self._inputs = tiles, inputs
        self.size = tiles.size

    def columns(self, points: np.ndarray) -> np.ndarray:
        """Return columns of K: (m,) -> (n, m)."""
        return self._rectangle(np.arange(self.size), points)

    def block(self, where: slice) -> np.ndarray:
        """Return a square block of K: the rows and columns of a slice with a start and a stop."""
        points = np.arange(self.size)[where]
        return self._rectangle(points, points)

    def diagonal(self) -> np.ndarray:
        """Return the diagonal of K, of shape (n,)."""
        with jax.enable_x64(True):
            return np.array(self._tiles.diagonal(self._inputs))

    def _rectangle(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        # A few numbers of columns serve for all, so that few programs are compiled.
        padded = np.pad(columns, (0, (1 << (len(columns) - 1).bit_length()) - len(columns)), mode="edge")
        with jax.enable_x64(True):
            found = self._tiles.rectangle(self._inputs, rows.astype(np.int32), padded.astype(np.int32))
            return np.array(found[:, : len(columns)])


class FunctionCovariance:
    """Theta -> (m, K, noise) in O(n) memory, from a covariance function; JAX computes all of K.

    The mean and the covariance are the model's graphs of the value variables, `pair` and `whole` those of k(Xi, Xj) and
    k(Xi), and `between` has Xi and Xj. An operation without a JAX function is refused, and so is a function whose K
    differs from the model's.
    """

    def __init__(
        self,
        theta: Theta,
        mean: TensorVariable,
        covariance: TensorVariable,
        pair: TensorVariable,
        whole: TensorVariable,
        between: tuple[TensorVariable, TensorVariable],
        X: Any,
        settings: Settings,
    ) -> None:
        graphs, vector = theta.write([mean, covariance, pair, whole])
        mean, covariance, pair, whole = graphs
        noise, additions = last_diagonals(covariance), last_diagonals(whole)
        thin = rewrite([mean, mean * 0.0 if noise is None else noise])
        own = [whole, pair, between[0][:, 0] * 0.0 if additions is None else additions]
        self._X, self._values = X, ThetaFunction(vector, thin, theta.compile_function)
        self._thin_pullback = thin_pullback(vector, thin, theta.compile_function)
        self._products = Products(FunctionTile(jax_function([vector, *between], [pair])), settings)
        self._nugget = Nugget(jax_function([vector, *between], own), self._products.tiles(len(self._inputs)).side)
        self._compare(theta, vector, covariance)

    @property
    def computed(self) -> str:
        """How the last products were computed, in words."""
        return self._products.words

    @property
    def _inputs(self) -> np.ndarray:
        return np.asarray(self._X.get_value() if hasattr(self._X, "get_value") else self._X, dtype=float)

    def refresh_data(self) -> None:
        """Read the data again, as `pymc.set_data` may have changed them."""
        self._values.refresh_data()
        self._thin_pullback.refresh_data()

    def moments(self, theta: np.ndarray) -> TiledMoments:
        """Return the mean, K in parts, and the noise at theta."""
        mean, noise = (np.array(value, dtype=float) for value in self._values(theta))
        inputs = self._inputs_at(theta)
        parts = FunctionParts(self._products.tiles(len(mean)), inputs)
        return TiledMoments(mean, JaxKernel(parts, self._products, inputs), noise)

    def quick_kernel(self, moments: TiledMoments) -> Kernel:
        """Return K with products in single precision, if these are accurate enough."""
        return moments.kernel.quick(moments.noise)  # type: ignore[attr-defined]

    def pullback_of_bar(self, theta: np.ndarray, bar: CovarianceBar, mean_bar: np.ndarray) -> np.ndarray:
        """Return the gradient in theta of a function with gradients `bar` in K and the noise, and `mean_bar` in m."""
        inputs = self._inputs_at(theta)
        [total] = self._thin_pullback(mean_bar, bar.noise, theta)
        with jax.enable_x64(True):
            for shared, rows, _ in self._products.gradients(inputs, bar):
                by_nugget = self._nugget.gradient(theta, inputs.fixed["X"], rows["nugget"])
                total = total + np.asarray(shared["theta"]) + np.asarray(by_nugget)
        return total

    def _inputs_at(self, theta: np.ndarray) -> TileInputs:
        X = self._inputs
        with jax.enable_x64(True):
            nugget = np.asarray(self._nugget(theta, X))
        return TileInputs({"X": X}, {"theta": np.array(theta)}, {"nugget": nugget}, {})

    def _compare(self, theta: Theta, vector: TensorVariable, covariance: TensorVariable) -> None:
        """Refuse a function and inputs that do not give the model's covariance at the initial theta."""
        rows, size = len(self._inputs), len(self._values(theta.initial)[0])
        if rows != size:
            raise UnsupportedGraphError(
                f"X has {rows} rows, and the model's covariance {size}: give the inputs that the process was given"
            )
        few = np.arange(min(COMPARED, rows))
        moments = self.moments(theta.initial)
        found = moments.total.block(slice(0, len(few)))
        given, values = [vector], [theta.initial]
        if hasattr(self._X, "get_value"):
            # Only the few points are given to the model's graph, which may need a whole matrix.
            stand_in = pt.matrix(shape=(None, self._inputs.shape[1]))
            covariance = clone_replace(covariance, {self._X: stand_in}, rebuild_strict=False)
            given, values = [vector, stand_in], [theta.initial, self._inputs[few]]
        part = covariance[: len(few), : len(few)]
        [expected] = theta.compile_function(given, [part], interpreted=True)(*values)
        if not np.allclose(found, expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max()):
            raise UnsupportedGraphError(
                "cov_func and X do not give the model's covariance: at the initial point, elements differ by up to "
                f"{np.abs(found - expected).max():.3g}. Give the same covariance function and inputs as to the model's "
                "process"
            )
