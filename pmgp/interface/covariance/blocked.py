"""A model's covariance as a function of theta, in cache-sized blocks.

K(theta) is taken apart into instructions (`program`), which NumPy's vectorized loops run block by block, on and below
the diagonal only. PyTensor takes about as long for the whole of K as the Cholesky factorization does; these loops take
a third of that. Products with vectors and their gradients are computed from the same blocks, without the matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.covariance.executor import Inputs, MomentParts, by_kind
from pmgp.interface.covariance.filling import Block, Part, blocks, packed_parts
from pmgp.interface.covariance.packed import elementwise, packed, unpack
from pmgp.interface.covariance.program import Instruction, Program
from pmgp.interface.covariance.pullback import Pullback, Weighted, differentiable, of_symmetric
from pmgp.interface.covariance.rows import ValuesOfRows
from pmgp.interface.graphs.compilation import CompiledOnRequest, Compiler
from pmgp.interface.graphs.numpy_graph import UnsupportedGraphError
from pmgp.interface.graphs.rewriting import rewrite
from pmgp.interface.graphs.theta_function import NumpyFunction, ThetaFunction, simplified


class BlockedCovariance:
    """Compiled theta -> (m, K), K in Fortran order with its lower triangle only.

    `keeping` says whether distances that theta only scales may be kept, which are matrices of n by n.
    """

    def __init__(
        self,
        mean: TensorVariable,
        covariance: TensorVariable,
        theta: TensorVariable,
        compile_function: Compiler,
        keeping: bool = True,
    ) -> None:
        mean, covariance = rewrite([mean, covariance], clone=True)
        program = Program(covariance, theta if keeping else None)
        self._whole_code = program.code
        self._code, self._last_diagonals = _without_last_diagonals(program.code)
        self._shape = program.shape
        self._elementwise = elementwise(self._code, program.leaves)
        outputs = [mean, *program.thin]
        whole = [leaf for leaf in program.leaves if not any(leaf.type.broadcastable)]
        self._values_of_all = ThetaFunction(theta, outputs, compile_function, whole)
        self._values: Callable[[np.ndarray], list[np.ndarray]] = self._values_of_all
        self._distances_at = compile_function.as_written([], program.distances)
        self._pullback, self._thin_pullback = self._differentiated(theta, outputs, whole, compile_function)
        self.refresh_data()

    def refresh_data(self) -> None:
        """Compute the parts that do not depend on theta again, as `pymc.set_data` may have changed them."""
        self._values_of_all.refresh_data()
        if self._thin_pullback is not None:
            self._thin_pullback.refresh_data()
        self._forget()

    def _forget(self) -> None:
        self._last: tuple[bytes, list[np.ndarray]] | None = None
        self._distances: list[np.ndarray] | None = None
        self._packed: list[np.ndarray] | None = None
        self._blocks: list[Block] = []
        self._parts: list[Part] = []

    @np.errstate(all="ignore")
    def __call__(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean (n,) and covariance (n, n) at theta; as with PyTensor, overflow gives non-finite values."""
        mean, *values = self._at(theta)
        fill = self._fill_packed if self._elementwise else self._fill
        upper = np.empty((len(mean), len(mean)))
        fill(upper, by_kind(values, self._shape))
        return np.array(mean, dtype=float), upper.T

    def _at(self, theta: np.ndarray) -> list[np.ndarray]:
        """Return the mean and thin values at theta; the last ones are kept, as a gradient is needed soon after K."""
        key = theta.tobytes()
        if self._last is None or key != self._last[0]:
            self._last = key, self._values(theta)
        return self._last[1]

    @property
    def has_pullback(self) -> bool:
        """Whether derivatives of all operations are known."""
        return self._pullback is not None

    def of_rows(self, rows: np.ndarray) -> BlockedCovariance:
        """Return the function from theta to (m, K) of some rows and the same columns, given by different numbers.

        Each call takes the thin values of all rows, which is O(n). No distances may be kept.
        """
        part, values = copy(self), ValuesOfRows(self._at, self._shape, rows)
        part._values = values
        if self._thin_pullback is not None:
            part._thin_pullback = lambda *given: self._thin_pullback(*values.extended(given[-1], given[:-1]), given[-1])
        part._forget()
        return part

    @np.errstate(all="ignore")
    def parts(self, theta: np.ndarray) -> MomentParts:
        """Return the mean and covariance at theta; parts and products are computed when they are asked for."""
        mean, *values = self._at(theta)
        return MomentParts(mean, self._whole_code, by_kind(values, self._shape) | self._kept())

    def pullback(self, theta: np.ndarray, covariance_bar: np.ndarray, mean_bar: np.ndarray) -> np.ndarray:
        """Return the gradient in theta of <covariance_bar, K> + mean_bar' m, using the former's lower triangle only."""
        return self._pulled_back(theta, of_symmetric(covariance_bar), covariance_bar.diagonal(), mean_bar)

    @np.errstate(all="ignore")
    def _pulled_back(
        self, theta: np.ndarray, weighted: Weighted, on_diagonal: np.ndarray, mean_bar: np.ndarray
    ) -> np.ndarray:
        assert self._pullback is not None
        inputs, (gradients, bars) = by_kind(self._at(theta)[1:], self._shape), self._zero_gradients(theta, mean_bar)
        self._pullback(inputs | self._kept(), bars, weighted)
        return self._to_theta(theta, gradients, bars, on_diagonal)

    def _zero_gradients(self, theta: np.ndarray, mean_bar: np.ndarray) -> tuple[list[np.ndarray], Inputs]:
        """Return gradients in the mean and in all thin values, where the latter are zero, and the latter by kind."""
        gradients = [np.array(mean_bar), *[np.zeros(np.shape(value)) for value in self._at(theta)[1:]]]
        return gradients, by_kind(gradients[1:], self._shape)

    def _to_theta(
        self, theta: np.ndarray, gradients: list[np.ndarray], bars: Inputs, on_diagonal: np.ndarray
    ) -> np.ndarray:
        """Return the gradient in theta from those in the mean and the thin values, of which `bars` are views."""
        for step in self._last_diagonals:
            bars["diagonal"][step.place][:] = on_diagonal
        return self._thin_pullback(*gradients, theta)[0]

    def _differentiated(
        self,
        theta: TensorVariable,
        outputs: list[TensorVariable],
        whole: list[TensorVariable],
        compile_function: Compiler,
    ) -> tuple[Pullback | None, Any]:
        """Return the pullback of gradients in K to the thin outputs, and that of theirs to theta."""
        moves = [theta in set(ancestors([output])) for output in outputs]
        if any(theta in set(ancestors([leaf])) for leaf in whole):
            return None, None
        places = by_kind(moves[1:], self._shape)
        places["product"] = [any(pair) for pair in places["product"]]
        try:
            depends = differentiable(self._code, places)
        except UnsupportedGraphError:
            return None, None
        return Pullback(self._code, depends), thin_pullback(theta, outputs, compile_function)

    def _kept(self) -> Inputs:
        """Return the inputs that do not depend on theta, computed when they are first needed."""
        if self._distances is None:
            self._distances = self._distances_at()
        return {"distance": self._distances}

    def _fill(self, upper: np.ndarray, inputs: Inputs) -> None:
        if not self._blocks:
            self._blocks = blocks(len(upper), self._code)
        inputs |= self._kept()
        for block in self._blocks:
            block.fill(upper[block.rows, block.columns], inputs)
        self._add_diagonal(upper, inputs)

    def _fill_packed(self, upper: np.ndarray, inputs: Inputs) -> None:
        if self._packed is None:
            self._packed = [packed(distances) for distances in self._distances_at()]
        if not self._parts:
            self._parts = packed_parts(len(upper), self._code)
        inputs["distance"] = self._packed
        # A matrix that fits into the cache is written as a whole in the same time.
        mirrored = len(self._parts) == 1
        for first, memory, fill in self._parts:
            fill(memory, inputs)
            unpack(memory[0], first, mirrored, upper)
        self._add_diagonal(upper, inputs)

    def _add_diagonal(self, upper: np.ndarray, inputs: Inputs) -> None:
        for step in self._last_diagonals:
            upper.reshape(-1)[:: len(upper) + 1] += inputs["diagonal"][step.place]

    def __getstate__(self) -> dict[str, Any]:
        """Leave the work space behind when it is pickled."""
        return self.__dict__ | {"_blocks": [], "_parts": [], "_last": None, "_distances": None, "_packed": None}


def thin_pullback(
    theta: TensorVariable, outputs: list[TensorVariable], compile_function: Compiler
) -> CompiledOnRequest:
    """Return the function that maps gradients in the outputs, and theta, to the gradient in theta."""
    given = theta, outputs, compile_function
    return CompiledOnRequest(partial(_thin_pullback, *given), partial(_thin_pullback_by_numpy, *given))


def last_diagonals(covariance: TensorVariable) -> TensorVariable | None:
    """Return the sum of the vectors that a graph adds to the diagonal at its end, such as noise; None without any.

    Raises
    ------
    UnsupportedGraphError
        If the graph has no form with parts.
    """
    program = Program(*rewrite([covariance], clone=True))
    _, last = _without_last_diagonals(program.code)
    return pt.add(*[program.diagonals[step.place] for step in last], 0.0) if last else None


def _thin_pullback(
    theta: TensorVariable, outputs: list[TensorVariable], compile_function: Compiler
) -> Callable[..., Any]:
    """Compile the function that maps gradients in the outputs, and theta, to the gradient in theta."""
    bars, gradient = _thin_gradient(theta, outputs)
    return compile_function([*bars, theta], [gradient])


def _thin_pullback_by_numpy(
    theta: TensorVariable, outputs: list[TensorVariable], compile_function: Compiler
) -> NumpyFunction | None:
    """Return the pullback in NumPy, not compiled; None without an equivalent, or where the user chose a mode."""
    if compile_function.mode_given:
        return None
    bars, gradient = _thin_gradient(theta, outputs)
    try:
        return NumpyFunction(bars, theta, simplified([gradient]), compile_function)
    except UnsupportedGraphError:
        return None


def _thin_gradient(theta: TensorVariable, outputs: list[TensorVariable]) -> tuple[list[TensorVariable], TensorVariable]:
    bars = [pt.tensor(dtype="float64", shape=output.type.shape) for output in outputs]
    total = pt.add(*[(bar * output).sum() for bar, output in zip(bars, outputs, strict=True)], 0.0)
    return bars, pt.grad(total, theta, disconnected_inputs="ignore")


def _without_last_diagonals(code: list[Instruction]) -> tuple[list[Instruction], list[Instruction]]:
    """Set apart the last additions to the diagonal, such as noise and a jitter, which are made once for all blocks.

    The last of the other instructions makes the matrix that they are added to.
    """
    last = len(code)
    while code[last - 1].kind == "diagonal":
        last -= 1
    return code[:last], code[last:]
