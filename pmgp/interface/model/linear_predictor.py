"""Linear predictors as functions: eta = A x + c(theta), one vector for all of them.

The likelihood is a function of A x and theta. Evaluations of the derivative of eta in x give A.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.replace import clone_replace
from pytensor.tensor.variable import TensorVariable
from scipy import sparse

from pmgp.interface.model.latent_variable import ModelError
from pmgp.interface.model.likelihood_terms import binary_masks
from pmgp.interface.model.linear_nodes import Linear, theta_scales, values_read
from pmgp.interface.model.theta_vector import ThetaVector

# In a piece with more elements than this, each predictor may depend on at most one of them.
MOST_COLUMNS = 5000
# Tolerance on a predictor's change, relative to its size.
SAME = 1e-6


class Leaf(NamedTuple):
    """A latent piece as predictors see it.

    `node` is the value variable, or its image under a map that depends on theta; `start` is an array of its shape.
    """

    name: str
    node: TensorVariable
    start: np.ndarray


class LinearPredictor:
    """Linear predictors as one vector, from the nodes that were `found`.

    `vector` is A x in graphs, with an element for each predictor; x holds the pieces times their scales, which depend
    on some `elements` of theta.
    """

    def __init__(self, found: dict[TensorVariable, Linear], leaves: list[Leaf], theta: ThetaVector) -> None:
        self._theta = theta
        self._names = [leaf.name for leaf in leaves]
        self._point = [np.asarray(leaf.start, dtype=leaf.node.dtype) for leaf in leaves]
        self._leaves = [leaf.node for leaf in leaves]
        self._nodes = list(found)
        self._scales, factors = theta_scales(found, self._leaves)
        self.elements = theta.elements_of(factors)
        self._factors_at = theta.compile_small(factors) if factors else None
        self.vector = pt.vector("predictors", shape=(_length(self._nodes),), dtype="float64")
        self._rest = clone_replace(self._nodes, dict(zip(self._leaves, map(pt.constant, self._zeros()), strict=True)))
        inputs = [leaf.node.type() for leaf in leaves]
        given = dict(zip(self._leaves, inputs, strict=True))
        self._at = theta.compile(inputs, clone_replace([*self._nodes, *self._rest], given), True)
        moves = [leaf.node.type(f"{leaf.name}_move") for leaf in leaves]
        plain = clone_replace([one.plain for one in found.values()], given)
        self._change = theta.compile([*inputs, *moves], _derivative(plain, inputs, moves), True)
        self.shapes = [np.shape(found) for found in self._at(*self._point, theta.initial)[: len(self._nodes)]]

    def _zeros(self) -> list[np.ndarray]:
        return [np.zeros_like(value) for value in self._point]

    def write(
        self, graphs: list[TensorVariable], arrays: Sequence[TensorVariable] | None = None
    ) -> list[TensorVariable]:
        """Return graphs of the latent values as graphs of `vector`, A x, or of an array for each predictor."""
        replace = {}
        for node, rest, shape, part in zip(self._nodes, self._rest, self.shapes, arrays or self._slices(), strict=True):
            if part.ndim != len(shape) or len(shape) > 2:
                part = part.reshape((-1, *shape[1:]) if shape else ())
            single = [axis for axis, length in enumerate(node.type.shape) if length == 1]
            part = pt.specify_broadcastable(part, *single) if single else part
            replace[node] = (part + rest).astype(node.dtype)
        return clone_replace(graphs, replace, rebuild_strict=False)

    def _slices(self) -> list[TensorVariable]:
        """Return the part of `vector` for each predictor's array."""
        if len(self._nodes) == 1:
            return [self.vector]
        ends = np.cumsum([0, *(int(np.prod(shape)) for shape in self.shapes)])
        return [self.vector[start:end] for start, end in pairwise(ends)]

    def arrays_in(self, term: TensorVariable) -> set[int]:
        """Return the numbers of the predictors' arrays that occur in a term, not within another one."""
        read = values_read([term], stops=self._nodes)
        return {number for number, node in enumerate(self._nodes) if node in read}

    def together(self, terms: list[TensorVariable]) -> list[list[int]]:
        """Return which predictors occur in the same terms: lists of their numbers, which have none in common."""
        found: list[list[int]] = [[number] for number in range(len(self._nodes))]
        for term in terms:
            read = self.arrays_in(term)
            joined = [each for each in found if read.intersection(each)]
            if len(joined) > 1:
                apart = [each for each in found if each not in joined]
                found = [*apart, sorted(number for each in joined for number in each)]
        return found

    def in_words(self) -> str:
        """Return a sentence that names the variables in each predictor."""
        names = dict(zip(self._leaves, self._names, strict=True))
        found = [sorted(names[one] for one in values_read([node]) if one in names) for node in self._nodes]
        words = "The predictors consist of " + " and of ".join(f"({', '.join(each)})" for each in found) + "."
        if len({tuple(each) for each in found}) < len(found):
            words += " If one of them is another with the opposite sign, write it as -(...) of that."
        return words

    @property
    def scaled(self) -> bool:
        """Whether hyper-parameters multiply pieces."""
        return bool(self._scales)

    def scales(self, theta: np.ndarray) -> np.ndarray:
        """Return the factor before each piece, which is one if it has none: (pieces,)."""
        out = np.ones(len(self._names))
        if self._factors_at is not None:
            out[self._scales] = [np.asarray(one).item() for one in self._factors_at(theta)]
        return out

    def column_scales(self, theta: np.ndarray) -> np.ndarray:
        """Return the factor before each element of x."""
        return np.repeat(self.scales(theta), [value.size for value in self._point])

    def offsets(self, theta: np.ndarray) -> np.ndarray:
        """Return c(theta), the predictors at x = 0: (N,)."""
        return _flat(self._at(*self._point, theta)[len(self._nodes) :])

    def design(self) -> Any:
        """Return A with the current data: a sparse array with a row for each predictor, a column for each element of x.

        It is refused if it would take too many evaluations, or is not constant after all.
        """
        parts = [
            _columns(self._moved_by(piece), self._point[piece].size, name) for piece, name in enumerate(self._names)
        ]
        found = sparse.csr_array(sparse.hstack(parts, format="csr"))
        found.sum_duplicates()
        found.sort_indices()
        self._check(found)
        return found

    def _moved_by(self, piece: int) -> Callable[[np.ndarray], np.ndarray]:
        """Return the function from a piece to A x where all other pieces are zero."""

        def moved(x: np.ndarray) -> np.ndarray:
            moves = self._zeros()
            moves[piece] = np.array(x, dtype=moves[piece].dtype, order="C").reshape(moves[piece].shape)
            return _flat(self._change(*self._point, *moves, self._theta.initial))

        return moved

    def _check(self, design: Any) -> None:
        """Compare A x with evaluations of the predictors, and refuse a model where they differ."""
        rng, scales = np.random.default_rng(0), self.column_scales(self._theta.initial)
        for scale in (0.1, 1.0):
            x = [np.asarray(scale * rng.standard_normal(v.shape), dtype=v.dtype) for v in self._point]
            found = self._at(*x, self._theta.initial)
            number = len(self._nodes)
            with np.errstate(invalid="ignore"):
                change = _flat(found[:number]) - _flat(found[number:])
            expected = design @ (scales * np.concatenate([np.ravel(one) for one in x]))
            finite = np.isfinite(change)
            size = 1.0 + np.abs(_flat(found[number:])[finite])
            if not (np.abs(change - expected)[finite] <= SAME * (size + np.abs(expected[finite]))).all():
                names = ", ".join(map(repr, self._names))
                raise ModelError(f"the likelihood is not a function of linear predictors of {names}")

    def __getstate__(self) -> dict[str, Any]:
        """Leave the graphs behind, as only the functions compiled from them are needed."""
        return self.__dict__ | {"_nodes": [None] * len(self._nodes), "_leaves": [], "_rest": []}


def _length(nodes: list[TensorVariable]) -> int | None:
    """Return the total number of elements of nodes, or None if their types do not give it."""
    lengths = [length for node in nodes for length in node.type.shape]
    return None if None in lengths else sum(int(np.prod(node.type.shape)) for node in nodes)


def _derivative(
    nodes: list[TensorVariable], values: list[TensorVariable], moves: list[TensorVariable]
) -> list[TensorVariable]:
    """Return the moves of nodes when values move: the derivative in weights of the weighted sum's derivative."""
    weights = [node.type() for node in nodes]
    total = pt.add(*[(node * weight).sum() for node, weight in zip(nodes, weights, strict=True)], 0.0)
    gradients = pytensor.grad(total, values, disconnected_inputs="ignore")
    inner = pt.add(*[(gradient * move).sum() for gradient, move in zip(gradients, moves, strict=True)], 0.0)
    found = pytensor.grad(inner, weights, disconnected_inputs="ignore")
    # The result may depend on the shapes of the weights, which are those of the nodes.
    return clone_replace(found, dict(zip(weights, nodes, strict=True)))


def _flat(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.ravel(part) for part in parts])


def _columns(moved: Callable[[np.ndarray], np.ndarray], size: int, name: str) -> Any:
    """Return the matrix of a linear function of a vector: (N, size), sparse.

    A few evaluations give the column in each row that has one element: a binary digit of the column is one if the row
    changes when the columns with that digit move.
    """
    weights = np.random.default_rng(0).uniform(1.0, 2.0, size)
    marks = np.array([moved(mask * weights) for mask in binary_masks(size)]) != 0.0
    ones, zeros = np.split(marks, 2)
    several = (ones & zeros).any(axis=0)
    single = np.flatnonzero((ones | zeros).any(axis=0) & ~several)
    columns = ((1 << np.arange(len(ones))) @ ones)[single]
    rows, coefficients = single, moved(np.ones(size))[single]
    if several.any():
        dense = sparse.coo_array(_each_column(moved, size, name) * several[:, None])
        rows, columns = np.concatenate([rows, dense.row]), np.concatenate([columns, dense.col])
        coefficients = np.concatenate([coefficients, dense.data])
    return sparse.csr_array((coefficients, (rows, columns)), shape=(marks.shape[1], size))


def _each_column(moved: Callable[[np.ndarray], np.ndarray], size: int, name: str) -> np.ndarray:
    if size > MOST_COLUMNS:
        raise ModelError(
            f"some linear predictors depend on several of the {size} elements of {name!r}; this is supported for up to "
            f"{MOST_COLUMNS} elements. Let each predictor depend on one of them, as in {name}[index]"
        )
    return np.stack([moved(np.eye(1, size, column)[0]) for column in range(size)], axis=1)
