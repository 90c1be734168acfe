"""Tiles of K from a model's graph: the instructions of its program, with the functions of `jax.numpy`.

The thin inputs of the instructions are computed for each theta by PyTensor or NumPy, as for NumPy's tiles, and so is
the gradient in theta from the gradients in these inputs.
"""

from __future__ import annotations

from typing import Any, cast

import jax.numpy as jnp
import numpy as np
from pytensor.tensor.variable import TensorVariable

from pmgp.core.iterative.bars import CovarianceBar
from pmgp.core.iterative.preconditioners import Kernel
from pmgp.core.tiles.blocks import TileInputs
from pmgp.interface.covariance.executor import Inputs, by_kind, run
from pmgp.interface.covariance.program import Instruction
from pmgp.interface.covariance.tiled import TiledCovariance, TiledMoments
from pmgp.interface.graphs.compilation import Compiler
from pmgp.interface.graphs.numpy_operations import UnsupportedGraphError
from pmgp.interface.tiles.kernel import JaxKernel, Products
from pmgp.interface.tiles.settings import Settings

KINDS = ("leaf", "product", "diagonal")


class ProgramTile:
    """A tile from the instructions of a program."""

    def __init__(self, code: list[Instruction]) -> None:
        self._code = [in_jax(step) for step in code]
        # An instruction's input is found by its number.
        self._numbers: Inputs = {kind: list(range(len(code))) for kind in KINDS}

    def __call__(self, inputs: TileInputs, rows: Any, columns: Any) -> Any:
        """Return the elements of K in some rows and columns, given by their numbers."""
        found = run(self._code, self._numbers, _Place(inputs, rows, columns))  # type: ignore[arg-type]
        return jnp.broadcast_to(found[-1], (len(rows), len(columns)))


def in_jax(instruction: Instruction) -> Instruction:
    """Return the instruction with JAX's function in place of NumPy's of the same name."""
    if instruction.kind != "call":
        return instruction
    name = getattr(instruction.function, "__name__", str(instruction.function))
    function = getattr(jnp, name, None)
    if function is None:
        raise UnsupportedGraphError(f"no equivalent of {name} in JAX")
    return instruction._replace(function=function)


class _Place:
    """Takes the parts of the inputs that belong to a tile."""

    def __init__(self, inputs: TileInputs, rows: Any, columns: Any) -> None:
        self._inputs, self._rows, self._columns = inputs, rows, columns

    def leaf(self, number: int) -> Any:
        name = f"leaf {number}"
        if name in self._inputs.shared:
            return self._inputs.shared[name]
        if name in self._inputs.rows:
            return self._inputs.rows[name][:, None]
        if name in self._inputs.columns:
            return self._inputs.columns[name][None, :]
        return self._inputs.fixed[name][self._rows][:, self._columns]

    def product(self, number: int) -> Any:
        name = f"product {number}"
        return self._inputs.rows[name] @ self._inputs.columns[name].T

    def diagonal(self, number: int, matrix: Any) -> Any:
        values = self._inputs.rows[f"diagonal {number}"]
        own = self._rows[:, None] == self._columns[None, :]
        return jnp.where(own, matrix + values[:, None], matrix)

    def constant(self, value: float) -> float:
        return value


def tile_inputs(inputs: Inputs) -> TileInputs:
    """Return the inputs of a program's instructions, sorted by the part of them that a tile sees."""
    found = TileInputs({}, {}, {}, {})
    for number, values in enumerate(inputs["leaf"]):
        where, array = _leaf(found, np.asarray(values, dtype=float))
        where[f"leaf {number}"] = array
    for number, (left, right) in enumerate(inputs["product"]):
        found.rows[f"product {number}"] = np.asarray(left, dtype=float)
        found.columns[f"product {number}"] = np.ascontiguousarray(np.asarray(right, dtype=float).T)
    for number, values in enumerate(inputs["diagonal"]):
        found.rows[f"diagonal {number}"] = np.asarray(values, dtype=float)
    return found


def _leaf(inputs: TileInputs, values: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    height, width = values.shape
    if values.size == 1:
        return inputs.shared, values
    if width == 1:
        return inputs.rows, values[:, 0]
    return (inputs.columns, values[0]) if height == 1 else (inputs.fixed, values)


class JaxTiledCovariance(TiledCovariance):
    """Theta -> (m, K, noise) in O(n) memory, whose products and gradients JAX computes.

    Graphs that `TiledCovariance` refuses, and those with a function that `jax.numpy` lacks, are refused.
    """

    def __init__(
        self,
        mean: TensorVariable,
        covariance: TensorVariable,
        theta: TensorVariable,
        compile_function: Compiler,
        settings: Settings,
    ) -> None:
        super().__init__(mean, covariance, theta, compile_function)
        self._products = Products(ProgramTile(self._code), settings)

    @property
    def computed(self) -> str:
        """How the last products were computed, in words."""
        return self._products.words

    def moments(self, theta: np.ndarray) -> TiledMoments:
        """Return the mean, K in parts, and the noise at theta."""
        moments = super().moments(theta)
        return moments._replace(kernel=JaxKernel(moments.kernel, self._products, self._inputs_at(theta)))

    def quick_kernel(self, moments: TiledMoments) -> Kernel:
        """Return K with products in single precision, if these are accurate enough."""
        return cast("JaxKernel", moments.kernel).quick(moments.noise)

    def pullback_of_bar(self, theta: np.ndarray, bar: CovarianceBar, mean_bar: np.ndarray) -> np.ndarray:
        """Return the gradient in theta of a function with gradients `bar` in K and the noise, and `mean_bar` in m."""
        inputs, (gradients, bars) = self._inputs_at(theta), self._zero_gradients(theta, mean_bar)
        for part in self._products.gradients(inputs, bar):
            _add(bars, part)
        return self._to_theta(theta, gradients, bars, bar.noise)

    def _inputs_at(self, theta: np.ndarray) -> TileInputs:
        return tile_inputs(by_kind(self._at(theta)[1:], self._shape))


def _add(bars: Inputs, found: tuple[Any, Any, Any]) -> None:
    """Add gradients in a tile's inputs to those in the inputs of instructions."""
    shared, rows, columns = found
    for name, values in (*shared.items(), *rows.items()):
        kind, number = name.split()
        bar = bars[kind][int(number)]
        into = bar[0] if kind == "product" else bar
        into += values.reshape(into.shape)
    for name, values in columns.items():
        kind, number = name.split()
        bar = bars[kind][int(number)]
        into = bar[1] if kind == "product" else bar
        into += values.T.reshape(into.shape)
