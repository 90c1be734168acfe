"""Builds the lower triangle of a model's covariance in cache-sized blocks.

K(theta) is taken as an elementwise function of what PyTensor computes quickly: products of an (n, d) by a (d, n)
matrix, columns, rows and scalars. That function is evaluated by NumPy's vectorized loops, block by block, on and below
the diagonal only. The whole of K by PyTensor takes about as long as its Cholesky factorization, this a third of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytensor.scalar as ps
import pytensor.tensor as pt
from pytensor.graph.basic import Constant
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.basic import ARange, Eye
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.subtensor import AdvancedIncSubtensor
from pytensor.tensor.variable import TensorVariable

__all__ = ["BlockedCovariance", "UnsupportedGraphError"]

# Elements of a block: a few arrays of that size stay in the second-level cache.
BLOCK_ELEMENTS = 24_576
SMALLEST_BLOCK = 32


class UnsupportedGraphError(TypeError):
    """A covariance that is not an elementwise function with equivalents in NumPy."""


class _Instruction(NamedTuple):
    """What fills one register of a block: a NumPy function of others, a part of an input, or one plus a diagonal."""

    kind: str
    function: Callable[..., np.ndarray] | None = None
    sources: tuple[int, ...] = ()
    place: int = 0


class _Program:
    """A covariance as instructions on blocks.

    Attributes
    ----------
    code : list of _Instruction
        Instruction i fills register i.
    leaves : list
        Graphs that are sliced; their dimensions of length one are broadcast.
    products : list
        Pairs of graphs that are multiplied block by block.
    diagonals : list
        Graphs of vectors that are added to the diagonal.
    """

    def __init__(self, covariance: TensorVariable) -> None:
        self.code: list[_Instruction] = []
        self.leaves: list[TensorVariable] = []
        self.products: list[tuple[TensorVariable, TensorVariable]] = []
        self.diagonals: list[TensorVariable] = []
        self._registers: dict[TensorVariable, int] = {}
        self._visit(covariance)

    def _visit(self, variable: TensorVariable) -> int:
        if variable not in self._registers:
            self._registers[variable] = self._translate(variable)
        return self._registers[variable]

    def _translate(self, variable: TensorVariable) -> int:
        node = variable.owner
        if node is None or any(variable.type.broadcastable):
            return self._input("leaf", self.leaves, variable)
        if isinstance(node.op, Dot):
            return self._input("product", self.products, tuple(node.inputs))
        if _increments_diagonal(node):
            return self._on_diagonal(self._visit(node.inputs[0]), node.inputs[1])
        if isinstance(node.op, Elemwise):
            return self._elementwise(node.op.scalar_op, list(node.inputs))
        return self._input("leaf", self.leaves, variable)

    def _append(self, instruction: _Instruction) -> int:
        self.code.append(instruction)
        return len(self.code) - 1

    def _input(self, kind: str, where: list[Any], what: Any) -> int:
        where.append(what)
        return self._append(_Instruction(kind, place=len(where) - 1))

    def _on_diagonal(self, register: int, values: TensorVariable) -> int:
        self.diagonals.append(values)
        return self._append(_Instruction("diagonal", sources=(register,), place=len(self.diagonals) - 1))

    def _elementwise(self, operation: ps.ScalarOp, inputs: list[TensorVariable]) -> int:
        if operation == ps.clip:
            return self._clip(*inputs)
        if operation == ps.add:
            return self._add(inputs)
        function = _numpy_function(operation)
        first, *rest = [self._visit(variable) for variable in inputs]
        if operation != ps.mul:
            return self._append(_Instruction("call", function, (first, *rest)))
        for register in rest:
            first = self._append(_Instruction("call", function, (first, register)))
        return first

    def _clip(self, variable: TensorVariable, lower: TensorVariable, upper: TensorVariable) -> int:
        register = self._append(_Instruction("call", np.maximum, (self._visit(variable), self._visit(lower))))
        if isinstance(upper, Constant) and np.isposinf(upper.data).all():
            return register
        return self._append(_Instruction("call", np.minimum, (register, self._visit(upper))))

    def _add(self, inputs: list[TensorVariable]) -> int:
        """A sum; terms that are diagonal matrices, such as a jitter, touch the diagonal only."""
        diagonals = {variable: _diagonal_of(variable) for variable in inputs}
        rest = [variable for variable in inputs if diagonals[variable] is None]
        if not rest:
            raise UnsupportedGraphError("a covariance that is diagonal")
        augmented = _augmented_product(rest)
        if augmented is None:
            full = [self._visit(variable) for variable in rest]
        else:
            factors, rest = augmented
            full = [self._input("product", self.products, factors), *[self._visit(variable) for variable in rest]]
        register = full[0]
        for other in full[1:]:
            register = self._append(_Instruction("call", np.add, (register, other)))
        for values in diagonals.values():
            if values is not None:
                register = self._on_diagonal(register, values)
        return register


def _numpy_function(operation: ps.ScalarOp) -> Callable[..., np.ndarray]:
    name = (getattr(operation, "nfunc_spec", None) or ("",))[0]
    function = getattr(np, name, None)
    if function is None:
        raise UnsupportedGraphError(f"no equivalent of {operation} in NumPy")
    return function


def _augmented_product(
    terms: list[TensorVariable],
) -> tuple[tuple[TensorVariable, TensorVariable], list[TensorVariable]] | None:
    """Factors of one product that is the sum of a scaled product, columns and rows, and the terms that are left.

    s A B + c 1' + 1 r' = [s A, c, 1] [B; 1'; r'], as in squared distances: the columns and rows cost nothing then.
    """
    products = [(term, parts) for term in terms if (parts := _scaled_product(term)) is not None]
    columns = [term for term in terms if term.type.broadcastable == (False, True)]
    rows = [term for term in terms if term.type.broadcastable == (True, False)]
    if len(products) != 1 or not (columns or rows):
        return None
    term, (scale, left, right) = products[0]
    column = pt.add(*columns) if len(columns) > 1 else (columns[0] if columns else pt.zeros_like(left[:, :1]))
    row = pt.add(*rows) if len(rows) > 1 else (rows[0] if rows else pt.zeros_like(right[:1]))
    factors = (
        pt.concatenate([scale * left, column, pt.ones_like(column)], axis=1),
        pt.concatenate([right, pt.ones_like(row), row], axis=0),
    )
    used = {term, *columns, *rows}
    return factors, [other for other in terms if other not in used]


def _scaled_product(variable: TensorVariable) -> tuple[Any, TensorVariable, TensorVariable] | None:
    node = variable.owner
    if node is not None and isinstance(node.op, Dot):
        return (1.0, *node.inputs)
    if node is None or not isinstance(node.op, Elemwise) or node.op.scalar_op != ps.mul or len(node.inputs) != 2:
        return None
    for scale, product in (node.inputs, node.inputs[::-1]):
        scalar = all(scale.type.broadcastable)
        if scalar and product.owner is not None and isinstance(product.owner.op, Dot):
            return (scale, *product.owner.inputs)
    return None


def _increments_diagonal(node: Any) -> bool:
    """Whether a node adds a vector to the diagonal of a matrix."""
    if not isinstance(node.op, AdvancedIncSubtensor) or node.op.set_instead_of_inc or len(node.inputs) != 4:
        return False
    rows, columns = node.inputs[2:]
    return rows is columns and rows.owner is not None and isinstance(rows.owner.op, ARange)


def _diagonal_of(variable: TensorVariable) -> TensorVariable | None:
    """Diagonal of a graph that is a diagonal matrix: an identity, a constant, or a multiple of these."""
    node = variable.owner
    if isinstance(variable, Constant):
        matrix = np.asarray(variable.data)
        square = matrix.shape[0] == matrix.shape[1] > 1
        return pt.constant(np.diag(matrix)) if square and np.array_equal(matrix, np.diag(np.diag(matrix))) else None
    if node is None:
        return None
    if isinstance(node.op, Eye):
        size, _, offset = node.inputs
        return pt.ones(size) if isinstance(offset, Constant) and offset.data == 0 else None
    if isinstance(node.op, Elemwise) and node.op.scalar_op == ps.mul:
        scalars = [other for other in node.inputs if all(other.type.broadcastable)]
        others = [other for other in node.inputs if not all(other.type.broadcastable)]
        inner = _diagonal_of(others[0]) if len(others) == 1 else None
        return None if inner is None else pt.mul(inner, *[scalar[0, 0] for scalar in scalars])
    return None


class BlockedCovariance:
    """Compiled theta -> (m, K), K in Fortran order with its lower triangle only.

    Parameters
    ----------
    mean, covariance : TensorVariable
        Graphs of theta.
    theta : TensorVariable
    compile_function : callable
        From lists of inputs and outputs to a function.

    Raises
    ------
    UnsupportedGraphError
        If the covariance is not of this form.
    """

    def __init__(
        self,
        mean: TensorVariable,
        covariance: TensorVariable,
        theta: TensorVariable,
        compile_function: Callable[[list[TensorVariable], list[TensorVariable]], Callable[..., Any]],
    ) -> None:
        mean, covariance = rewrite_graph([mean, covariance], include=("canonicalize", "stabilize", "specialize"))
        program = _Program(covariance)
        self._plan = _plan(program.code)
        self._shape = (len(program.leaves), len(program.products), len(program.diagonals))
        factors = [factor for pair in program.products for factor in pair]
        outputs = [mean, *program.leaves, *factors, *program.diagonals]
        self._moves = [theta in set(ancestors([output])) for output in outputs]
        self._moving = compile_function([theta], [o for o, moves in zip(outputs, self._moves, strict=True) if moves])
        self._fixed = compile_function([], [o for o, moves in zip(outputs, self._moves, strict=True) if not moves])
        self.refresh_data()

    def refresh_data(self) -> None:
        """Compute again what does not depend on theta, as `pymc.set_data` may have changed it."""
        self._fixed_values = self._fixed()
        self._workspace: dict[int, np.ndarray] = {}

    def __call__(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean of shape (n,) and covariance of shape (n, n) at theta."""
        moving, fixed = iter(self._moving(theta)), iter(self._fixed_values)
        mean, *values = [next(moving) if moves else next(fixed) for moves in self._moves]
        leaves, products, _ = self._shape
        inputs = {
            "leaf": values[:leaves],
            "product": list(zip(values[leaves : leaves + 2 * products : 2], values[leaves + 1 :: 2], strict=False)),
            "diagonal": values[leaves + 2 * products :],
        }
        n = mean.shape[0]
        upper = np.empty((n, n))
        start = 0
        while start < n:
            stop = min(n, start + max(SMALLEST_BLOCK, BLOCK_ELEMENTS // (n - start)))
            self._fill(upper[start:stop, start:], slice(start, stop), slice(start, n), inputs)
            start = stop
        return mean.copy(), upper.T

    def _fill(self, out: np.ndarray, rows: slice, columns: slice, inputs: dict[str, list[Any]]) -> None:
        """Run the program on one block of the upper triangle in C order, the lower one in Fortran order."""
        registers: list[np.ndarray] = []
        last = len(self._plan) - 1
        for position, (instruction, reuse) in enumerate(self._plan):
            kind, function, sources, place = instruction
            if kind == "leaf":
                registers.append(_part(inputs["leaf"][place], rows, columns))
                continue
            target = out if position == last else self._buffer(position, out.shape)
            if reuse is not None and position != last:
                target = registers[reuse]
            if kind == "product":
                left, right = inputs["product"][place]
                np.matmul(left[rows], right[:, columns], out=target)
            elif kind == "diagonal":
                if target is not registers[sources[0]]:
                    target[...] = registers[sources[0]]
                np.einsum("ii->i", target[:, : len(target)])[:] += inputs["diagonal"][place][rows]
            elif isinstance(function, np.ufunc) and function.types[0][-1] != "?":
                function(*[registers[source] for source in sources], out=target)
            elif function is not None:
                target = function(*[registers[source] for source in sources])
            registers.append(target)
        if registers[-1] is not out:
            out[...] = registers[-1]

    def _buffer(self, position: int, shape: tuple[int, ...]) -> np.ndarray:
        size = shape[0] * shape[1]
        buffer = self._workspace.get(position)
        if buffer is None or buffer.size < size:
            buffer = self._workspace[position] = np.empty(size)
        return buffer[:size].reshape(shape)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the work space behind when it is pickled."""
        return self.__dict__ | {"_workspace": {}}


def _part(leaf: np.ndarray, rows: slice, columns: slice) -> np.ndarray:
    return leaf[rows if leaf.shape[0] > 1 else slice(None), columns if leaf.shape[1] > 1 else slice(None)]


def _plan(code: list[_Instruction]) -> list[tuple[_Instruction, int | None]]:
    """The instructions, each with a register that it uses last and whose memory can take its result."""
    last_use = {source: position for position, step in enumerate(code) for source in step.sources}
    plan: list[tuple[_Instruction, int | None]] = []
    for position, step in enumerate(code):
        owned = [s for s in step.sources if code[s].kind != "leaf" and last_use[s] == position]
        plan.append((step, owned[0] if owned else None))
    return plan
