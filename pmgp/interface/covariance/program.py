"""A covariance's graph as a list of instructions that NumPy can run block by block.

K is treated as an elementwise function of graphs that PyTensor computes quickly: products of an (n, d) and a (d, n)
matrix, columns, rows and scalars.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytensor.scalar as ps
import pytensor.tensor as pt
from pytensor.graph.basic import Constant
from pytensor.tensor.basic import ARange, Eye
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.subtensor import AdvancedIncSubtensor
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.covariance.separated import scalar_of, separated
from pmgp.interface.graphs.numpy_operations import UnsupportedGraphError, numpy_function
from pmgp.interface.graphs.rewriting import is_elementwise, rewrite

# The largest number of matrices of distances that are kept.
KEPT = 2


class Instruction(NamedTuple):
    """Fills one register of a block.

    Its kind is a NumPy function of other registers ("call"), a part of an input ("leaf", "product", "distance"), a
    register with a vector added to its "diagonal", or a "constant".
    """

    kind: str
    function: Any = None
    sources: tuple[int, ...] = ()
    place: int = 0
    value: float = 0.0

    @property
    def writes(self) -> bool:
        """Whether the result can be written to memory that it is given."""
        if self.kind == "call":
            return isinstance(self.function, np.ufunc) and any(types[-1] == "d" for types in self.function.types)
        return self.kind in ("product", "diagonal")


class Program:
    """A covariance, canonical and specialized, as instructions on blocks: instruction i of `code` fills register i.

    `leaves` are sliced, and their dimensions of length one broadcast; `products` are pairs of graphs that are
    multiplied block by block; `diagonals` are vectors that are added to the diagonal; `distances` are whole matrices
    that do not depend on theta. With `theta`, distances that it only scales are kept.
    """

    def __init__(self, covariance: TensorVariable, theta: TensorVariable | None = None) -> None:
        self._theta = theta
        self.code: list[Instruction] = []
        self.leaves: list[TensorVariable] = []
        self.products: list[tuple[TensorVariable, TensorVariable]] = []
        self.diagonals: list[TensorVariable] = []
        self.distances: list[TensorVariable] = []
        self._registers: dict[TensorVariable, int] = {}
        self._visit(covariance)

    @property
    def thin(self) -> list[TensorVariable]:
        """Graphs of all inputs except distances: leaves, the factors of each product in turn, and diagonals."""
        return [*self.leaves, *(factor for pair in self.products for factor in pair), *self.diagonals]

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of leaves and of products."""
        return len(self.leaves), len(self.products)

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

    def _append(self, instruction: Instruction) -> int:
        self.code.append(instruction)
        return len(self.code) - 1

    def _input(self, kind: str, where: list[Any], what: Any) -> int:
        where.append(what)
        return self._append(Instruction(kind, place=len(where) - 1))

    def _on_diagonal(self, register: int, values: TensorVariable) -> int:
        self.diagonals.append(values)
        return self._append(Instruction("diagonal", sources=(register,), place=len(self.diagonals) - 1))

    def _elementwise(self, operation: ps.ScalarOp, inputs: list[TensorVariable]) -> int:
        if operation == ps.clip:
            return self._clip(*inputs)
        if operation == ps.add:
            return self._add(inputs)
        if operation == ps.mul and (kept := self._scaled_distance(inputs)) is not None:
            return kept
        if operation == ps.mul and (scaled := _scaled_clip(inputs)) is not None:
            factors, limit = scaled
            product = self._input("product", self.products, factors)
            zero = self._append(Instruction("constant"))
            return self._append(Instruction("call", limit, (product, zero)))
        function = numpy_function(operation)
        first, *rest = [self._visit(variable) for variable in inputs]
        if operation != ps.mul:
            return self._append(Instruction("call", function, (first, *rest)))
        for register in rest:
            first = self._append(Instruction("call", function, (first, register)))
        return first

    def _scaled_distance(self, inputs: list[TensorVariable]) -> int | None:
        """Translate c max(S, 0) if S is a positive scalar that depends on theta times a graph that does not."""
        if self._theta is None or _scaled_clip(inputs) is None or len(self.distances) == KEPT:
            return None
        scale, clipped = inputs if isinstance(inputs[0], Constant) else inputs[::-1]
        product = separated(clipped.owner.inputs[0], self._theta)
        if product is None or any(power % 2 for power in product[0].values()):
            return None
        self.distances.append(scale * pt.maximum(product[1], 0.0))
        register = self._append(Instruction("distance", place=len(self.distances) - 1))
        if not product[0]:
            return register
        return self._append(Instruction("call", np.multiply, (register, self._visit(scalar_of(product[0])))))

    def _clip(self, variable: TensorVariable, lower: TensorVariable, upper: TensorVariable) -> int:
        register = self._append(Instruction("call", np.maximum, (self._visit(variable), self._bound(lower))))
        if isinstance(upper, Constant) and np.isposinf(upper.data).all():
            return register
        return self._append(Instruction("call", np.minimum, (register, self._bound(upper))))

    def _bound(self, variable: TensorVariable) -> int:
        """Translate a bound to a constant array: NumPy's maximum takes four times as long with a scalar."""
        if isinstance(variable, Constant) and variable.data.size == 1:
            return self._append(Instruction("constant", value=float(variable.data.item())))
        return self._visit(variable)

    def _add(self, inputs: list[TensorVariable]) -> int:
        """Translate a sum, in which terms that are diagonal matrices, such as a jitter, touch only the diagonal."""
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
            register = self._append(Instruction("call", np.add, (register, other)))
        for values in diagonals.values():
            if values is not None:
                register = self._on_diagonal(register, values)
        return register


def _augmented_product(
    terms: list[TensorVariable],
) -> tuple[tuple[TensorVariable, TensorVariable], list[TensorVariable]] | None:
    """Return the factors of a product that absorbs a scaled product, columns and rows, and the remaining terms.

    s A B + c 1' + 1 r' = [s A, c, 1] [B; 1'; r'], as in squared distances: the columns and rows are then free.
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
        pt.concatenate([scale * left, column, _ones(column)], axis=1),
        pt.concatenate([right, _ones(row), row], axis=0),
    )
    used = {term, *columns, *rows}
    return factors, [other for other in terms if other not in used]


def _ones(like: TensorVariable) -> TensorVariable:
    shape = like.type.shape
    return pt.ones_like(like) if None in shape else pt.constant(np.ones(shape))


def _scaled_clip(
    inputs: list[TensorVariable],
) -> tuple[tuple[TensorVariable, TensorVariable], Callable[..., np.ndarray]] | None:
    """Return the factors of c S, and the function that bounds it at zero, for c max(S, 0) with S an augmented product.

    The bounded value is min(c S, 0) for a negative constant c, as in exp(-distance^2 / 2); c goes into a thin factor.
    """
    constants = [variable for variable in inputs if isinstance(variable, Constant) and variable.data.size == 1]
    clipped = [variable.owner for variable in inputs if is_elementwise(variable, ps.clip)]
    if len(inputs) != 2 or len(constants) != 1 or len(clipped) != 1:
        return None
    total, lower, upper = clipped[0].inputs
    bounds = [
        bound.data.item() if isinstance(bound, Constant) and bound.data.size == 1 else None for bound in (lower, upper)
    ]
    augmented = _augmented_product(list(total.owner.inputs)) if is_elementwise(total, ps.add) else None
    if bounds != [0.0, np.inf] or augmented is None or augmented[1]:
        return None
    scale, (left, right) = constants[0].data.item(), augmented[0]
    return (scale * left, right), np.minimum if scale < 0.0 else np.maximum


def _scaled_product(variable: TensorVariable) -> tuple[Any, TensorVariable, TensorVariable] | None:
    node = variable.owner
    if node is not None and isinstance(node.op, Dot):
        return (1.0, *node.inputs)
    if not is_elementwise(variable, ps.mul) or len(node.inputs) != 2:
        return None
    for scale, product in (node.inputs, node.inputs[::-1]):
        scalar = all(scale.type.broadcastable)
        if scalar and product.owner is not None and isinstance(product.owner.op, Dot):
            return (scale, *product.owner.inputs)
    return None


def _increments_diagonal(node: Any) -> bool:
    """Return whether a node adds a vector to the diagonal of a matrix."""
    if not isinstance(node.op, AdvancedIncSubtensor) or node.op.set_instead_of_inc or len(node.inputs) != 4:
        return False
    rows, columns = node.inputs[2:]
    return rows is columns and rows.owner is not None and isinstance(rows.owner.op, ARange)


def _diagonal_of(variable: TensorVariable) -> TensorVariable | None:
    """Return the diagonal of a graph that is a diagonal matrix: an identity, a constant, or a multiple of these."""
    node = variable.owner
    if isinstance(variable, Constant):
        matrix = np.asarray(variable.data)
        square = matrix.shape[0] == matrix.shape[1] > 1
        return pt.constant(np.diag(matrix)) if square and np.array_equal(matrix, np.diag(np.diag(matrix))) else None
    if node is None:
        return None
    if isinstance(node.op, Eye):
        size, _, offset = node.inputs
        if not isinstance(offset, Constant) or offset.data != 0:
            return None
        # The size is usually that of a matrix, which should not be computed only to find its size.
        return pt.ones(*rewrite([size], ("ShapeOpt", "canonicalize"), clone=True))
    if isinstance(node.op, Elemwise) and node.op.scalar_op == ps.mul:
        scalars = [other for other in node.inputs if all(other.type.broadcastable)]
        others = [other for other in node.inputs if not all(other.type.broadcastable)]
        inner = _diagonal_of(others[0]) if len(others) == 1 else None
        return None if inner is None else pt.mul(inner, *[scalar[0, 0] for scalar in scalars])
    return None
