"""The gradient of <G, K(theta)> in theta, block by block as K is built.

The instructions of a block are run forwards and then backwards (reverse mode), so that G is contracted with the
elementwise function while the block is in the cache. What is left are the gradients in the thin inputs: for a product
of factors two thin products, which serve all length-scales at once. PyTensor takes them on to theta.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from pmgp.interface.covariance.program import Instruction
from pmgp.interface.graphs.numpy_graph import UnsupportedGraphError

__all__ = ["differentiable", "pull_back_block", "weights"]

Rule = Callable[..., np.ndarray] | None
# For each operand, the gradient in it from that in the result, the result, and the operands; none where it has none.
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
    # Where both are the same, as at distance zero, neither moves.
    np.minimum: (lambda g, out, a, b: g * (a < b), lambda g, out, a, b: g * (b < a)),
    np.maximum: (lambda g, out, a, b: g * (a > b), lambda g, out, a, b: g * (b > a)),
}


def differentiable(code: list[Instruction], moves: dict[str, list[bool]]) -> list[bool]:
    """Which registers depend on theta.

    Parameters
    ----------
    code : list of Instruction
    moves : dict
        Whether each leaf, product and diagonal does.

    Raises
    ------
    UnsupportedGraphError
        If one of them is made by an operation without a rule.
    """
    depends: list[bool] = []
    for kind, function, sources, place, _ in code:
        own = kind in moves and moves[kind][place]
        depends.append(own or any(depends[source] for source in sources))
        if depends[-1] and kind == "call" and function not in RULES:
            raise UnsupportedGraphError(f"no derivative of {function}")
    return depends


def weights(lower: np.ndarray, rows: slice) -> np.ndarray:
    """The part of a block in sum_ij G_ij dK_ij, from G's lower triangle: twice G above the diagonal, and G on it."""
    block = lower.T[rows, rows.start :]
    counted = np.multiply(block, 2.0)
    square = block[:, : len(block)]
    # What stands below the diagonal may be no number.
    np.copyto(counted[:, : len(block)], 0.0, where=_below_diagonal(len(block)))
    np.einsum("ii->i", counted[:, : len(block)])[:] = np.einsum("ii->i", square)
    return counted


@lru_cache(maxsize=64)
def _below_diagonal(size: int) -> np.ndarray:
    below = np.tri(size, k=-1, dtype=bool)
    below.flags.writeable = False
    return below


def pull_back_block(
    code: list[Instruction],
    depends: list[bool],
    registers: list[np.ndarray],
    inputs: dict[str, list[Any]],
    bars: dict[str, list[Any]],
    rows: slice,
    weight: np.ndarray,
) -> None:
    """Add a block's part to the gradients in the inputs.

    Parameters
    ----------
    code : list of Instruction
    depends : list of bool
    registers : list of arrays
        Of the block, all of them.
    inputs, bars : dict
        Leaves, pairs of factors and diagonals, and the gradients in them.
    rows : slice
        Of the block, whose columns begin where they do.
    weight : array
        Gradient in the last register.
    """
    columns = slice(rows.start, None)
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
            bars["diagonal"][place][rows] += np.einsum("ii->i", gradient[:, : len(gradient)])
            found[sources[0]] = _sum(found[sources[0]], gradient)
        elif kind == "call":
            operands = gradient, registers[position], *[registers[source] for source in sources]
            for source, rule in zip(sources, RULES[function], strict=True):
                if depends[source] and rule is not None:
                    found[source] = _sum(found[source], rule(*operands))


def _sum(known: Any, more: Any) -> Any:
    return more if known is None else known + more


def _add_to_leaf(bar: np.ndarray, gradient: np.ndarray, rows: slice, columns: slice) -> None:
    """Sum over what the leaf was broadcast along."""
    if bar.size == 1:
        bar += gradient.sum()
    elif bar.shape[1] == 1:
        bar[rows] += gradient.sum(axis=1, keepdims=True)
    else:
        bar[:, columns] += gradient.sum(axis=0, keepdims=True)
