"""The gradient of <G, K(theta)> in the thin inputs of K, block by block as K is built.

The instructions of a block are run forwards and then backwards (reverse mode), so that G is contracted with the
elementwise function while the block is in the cache. The result is the gradients in the thin inputs: for a product of
factors these are two thin products, which serve all length-scales at once. G is a matrix, or a sum of products of
vectors that is never formed as a matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from pmgp.interface.covariance.executor import Gathered, Inputs, Rectangle, bands, intervals, run, trapezia
from pmgp.interface.covariance.program import Instruction
from pmgp.interface.graphs.numpy_graph import UnsupportedGraphError

Rule = Callable[..., np.ndarray] | None
# For each operand, its gradient as a function of the result's gradient, the result, and the operands.
RULES: dict[Any, tuple[Rule, ...]] = {
    **dict.fromkeys((np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal), (None, None)),
    np.where: (None, lambda g, out, c, a, b: np.where(c, g, 0.0), lambda g, out, c, a, b: np.where(c, 0.0, g)),
    np.power: (lambda g, out, a, b: g * b * a ** (b - 1.0), lambda g, out, a, b: g * out * np.log(a)),
    np.add: (lambda g, out, a, b: g, lambda g, out, a, b: g),
    np.subtract: (lambda g, out, a, b: g, lambda g, out, a, b: -g),
    np.multiply: (lambda g, out, a, b: g * b, lambda g, out, a, b: g * a),
    np.true_divide: (lambda g, out, a, b: g / b, lambda g, out, a, b: -g * out / b),
    np.negative: (lambda g, out, a: -g,),
    np.exp: (lambda g, out, a: g * out,),
    np.log: (lambda g, out, a: g / a,),
    np.log1p: (lambda g, out, a: g / (1.0 + a),),
    np.sqrt: (lambda g, out, a: 0.5 * g / out,),
    np.square: (lambda g, out, a: 2.0 * g * a,),
    np.reciprocal: (lambda g, out, a: -g * out * out,),
    np.cos: (lambda g, out, a: -g * np.sin(a),),
    np.sin: (lambda g, out, a: g * np.cos(a),),
    # Where both are equal, as at distance zero, the gradient is zero.
    np.minimum: (lambda g, out, a, b: g * (a < b), lambda g, out, a, b: g * (b < a)),
    np.maximum: (lambda g, out, a, b: g * (a > b), lambda g, out, a, b: g * (b > a)),
}


def differentiable(code: list[Instruction], moves: dict[str, list[bool]]) -> list[bool]:
    """Return which registers depend on theta.

    `moves` says whether each leaf, product and diagonal does. Each operation on the way needs a rule.
    """
    depends: list[bool] = []
    for kind, function, sources, place, _ in code:
        own = kind in moves and moves[kind][place]
        depends.append(own or any(depends[source] for source in sources))
        if depends[-1] and kind == "call" and function not in RULES:
            raise UnsupportedGraphError(f"no derivative of {function}")
    return depends


Weighted = Iterator[tuple[Rectangle | Gathered, np.ndarray]]
"""Blocks of K, and weights of their elements."""


def of_symmetric(lower: np.ndarray) -> Weighted:
    """Yield the blocks for <G, K> with a symmetric G of shape (n, n), given as its lower triangle."""
    for rows, columns in trapezia(len(lower)):
        yield Rectangle(rows, columns), _weights(lower, rows)


def of_pairs(left: np.ndarray, right: np.ndarray) -> Weighted:
    """Yield the blocks for the sum of <a, K b> over pairs of vectors, the columns of two arrays of shape (n, k)."""
    places = intervals(len(left))
    for i, rows in enumerate(places):
        yield Rectangle(rows, rows), left[rows] @ right[rows].T
        for columns in places[i + 1 :]:
            yield Rectangle(rows, columns), left[rows] @ right[columns].T + right[rows] @ left[columns].T


def of_columns(points: np.ndarray, weights: np.ndarray) -> Weighted:
    """Yield the blocks for <weights, K[:, points]>, with weights of shape (n, m) and m different points."""
    for rows in bands(*weights.shape):
        yield Gathered(rows, points), weights[rows]


def _weights(lower: np.ndarray, rows: slice) -> np.ndarray:
    """Return a block's weights in sum_ij G_ij dK_ij, from G's lower triangle: 2 G above the diagonal, and G on it."""
    block = lower.T[rows, rows.start :]
    counted = np.multiply(block, 2.0)
    square = block[:, : len(block)]
    # Elements below the diagonal may be NaN.
    np.copyto(counted[:, : len(block)], 0.0, where=_below_diagonal(len(block)))
    np.einsum("ii->i", counted[:, : len(block)])[:] = np.einsum("ii->i", square)
    return counted


@lru_cache(maxsize=64)
def _below_diagonal(size: int) -> np.ndarray:
    below = np.tri(size, k=-1, dtype=bool)
    below.flags.writeable = False
    return below


def pull_back(code: list[Instruction], depends: list[bool], inputs: Inputs, bars: Inputs, weighted: Weighted) -> None:
    """Add to `bars` the gradients of the weighted sum of K's elements.

    `depends` is the result of :func:`differentiable`. `weighted` yields blocks with the gradient in their elements.
    """
    for place, weight in weighted:
        _pull_back_block(code, depends, run(code, inputs, place), inputs, bars, place, weight)


def _pull_back_block(
    code: list[Instruction],
    depends: list[bool],
    registers: list[np.ndarray],
    inputs: Inputs,
    bars: Inputs,
    block: Rectangle | Gathered,
    weight: np.ndarray,
) -> None:
    rows, columns = block.rows, block.columns
    found: list[Any] = [None] * len(code)
    found[-1] = weight
    for position in reversed(range(len(code))):
        gradient, (kind, function, sources, place, _) = found[position], code[position]
        if gradient is None or not depends[position]:
            continue
        if kind == "leaf":
            _add_to_leaf(bars["leaf"][place], gradient, rows, columns)
        elif kind == "product":
            (left, right), (left_bar, right_bar) = inputs["product"][place], bars["product"][place]
            left_bar[rows] += gradient @ right[:, columns].T
            right_bar[:, columns] += left[rows].T @ gradient
        elif kind == "diagonal":
            where, elements = block.of_diagonal(gradient)
            bars["diagonal"][place][where] += elements
            found[sources[0]] = _sum(found[sources[0]], gradient)
        elif kind == "call":
            operands = gradient, registers[position], *[registers[source] for source in sources]
            for source, rule in zip(sources, RULES[function], strict=True):
                if depends[source] and rule is not None:
                    found[source] = _sum(found[source], rule(*operands))


def _sum(known: Any, more: Any) -> Any:
    return more if known is None else known + more


def _add_to_leaf(bar: np.ndarray, gradient: np.ndarray, rows: slice, columns: slice | np.ndarray) -> None:
    """Add a block's gradient to that of a leaf, summed over the axes along which the leaf was broadcast."""
    if bar.size == 1:
        bar += gradient.sum()
    elif bar.shape[1] == 1:
        bar[rows] += gradient.sum(axis=1, keepdims=True)
    else:
        bar[:, columns] += gradient.sum(axis=0, keepdims=True)
