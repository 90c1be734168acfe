"""The gradient of <G, K(theta)> in the thin inputs of K, block by block as K is built.

The instructions of a block are run forwards and then backwards (reverse mode), so that G is contracted with the
elementwise function while the block is in the cache. The result is the gradients in the thin inputs: for a product of
factors these are two thin products, which serve all length-scales at once. G is a matrix, or a sum of products of
vectors that is never formed as a matrix.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from pmgp.interface.covariance.executor import Gathered, Inputs, Rectangle, bands, intervals, trapezia
from pmgp.interface.covariance.program import Instruction
from pmgp.interface.graphs.numpy_graph import UnsupportedGraphError

# For each operand, its gradient as a Python expression in that of the result {g}, the result {r} and the operands.
# One that begins with "{g} * " may be computed in the memory of {g}.
RULES: dict[Any, tuple[str | None, ...]] = {
    **dict.fromkeys((np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal), (None, None)),
    np.where: (None, "np.where({a}, {g}, 0.0)", "np.where({a}, 0.0, {g})"),
    np.power: ("{g} * ({b} * {a} ** ({b} - 1.0))", "{g} * ({r} * np.log({a}))"),
    np.add: ("{g}", "{g}"),
    np.subtract: ("{g}", "-{g}"),
    np.multiply: ("{g} * {b}", "{g} * {a}"),
    np.true_divide: ("{g} / {b}", "{g} * (-{r} / {b})"),
    np.negative: ("-{g}",),
    np.exp: ("{g} * {r}",),
    np.log: ("{g} / {a}",),
    np.log1p: ("{g} / (1.0 + {a})",),
    np.sqrt: ("{g} * (0.5 / {r})",),
    np.square: ("{g} * (2.0 * {a})",),
    np.reciprocal: ("{g} * (-{r} * {r})",),
    np.cos: ("{g} * -np.sin({a})",),
    np.sin: ("{g} * np.cos({a})",),
    # Where both are equal, as at distance zero, the gradient is zero.
    np.minimum: ("{g} * ({a} < {b})", "{g} * ({b} < {a})"),
    np.maximum: ("{g} * ({a} > {b})", "{g} * ({b} > {a})"),
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
"""Blocks of K, and weights of their elements in new arrays."""


def of_symmetric(lower: np.ndarray) -> Weighted:
    """Yield the blocks for <G, K> with a symmetric G of shape (n, n), given as its lower triangle."""
    for rows, columns in trapezia(len(lower)):
        yield Rectangle(rows, columns), _weights(lower, rows)


def of_pairs(left: np.ndarray, right: np.ndarray) -> Weighted:
    """Yield the blocks for the sum of <a, K b> over pairs of vectors, the columns of two arrays of shape (n, k)."""
    places = intervals(len(left)) if left.shape[1] else []
    for i, rows in enumerate(places):
        yield Rectangle(rows, rows), left[rows] @ right[rows].T
        for columns in places[i + 1 :]:
            yield Rectangle(rows, columns), left[rows] @ right[columns].T + right[rows] @ left[columns].T


def of_columns(points: np.ndarray, weights: np.ndarray) -> Weighted:
    """Yield the blocks for <weights, K[:, points]>, with weights of shape (n, m) and m different points."""
    for rows in bands(*weights.shape) if len(points) else []:
        yield Gathered(rows, points), weights[rows].copy()


def _weights(lower: np.ndarray, rows: slice) -> np.ndarray:
    """Return a block's weights in sum_ij G_ij dK_ij, from G's lower triangle: 2 G above the diagonal, and G on it."""
    counted = np.multiply(lower.T[rows, rows.start :], 2.0, order="C")
    height, width = counted.shape
    # Elements below the diagonal may be NaN.
    np.copyto(counted[:, :height], 0.0, where=_below_diagonal(height))
    counted.reshape(-1)[: height * width : width + 1] *= 0.5
    return counted


@lru_cache(maxsize=64)
def _below_diagonal(size: int) -> np.ndarray:
    below = np.tri(size, k=-1, dtype=bool)
    below.flags.writeable = False
    return below


class Pullback:
    """Adds the gradients of a weighted sum of K's elements to those in its thin inputs.

    `depends` is the result of :func:`differentiable`.
    """

    def __init__(self, code: list[Instruction], depends: list[bool]) -> None:
        self._code = code
        self._depends = depends
        self._size = 0
        self._memory: dict[tuple[int, int], dict[int, np.ndarray]] = {}

    def __call__(self, inputs: Inputs, bars: Inputs, weighted: Weighted) -> None:
        """Add to `bars`; `weighted` yields blocks with the gradient in their elements, which is overwritten."""
        for place, weight in weighted:
            self._program(place, weight, inputs, bars, self._shaped(place.shape))

    @cached_property
    def _program(self) -> Callable[..., None]:
        return _written(self._code, self._depends)

    def _shaped(self, shape: tuple[int, int]) -> dict[int, np.ndarray]:
        """Return the memory of registers that take it or are constant, as matrices of one shape."""
        size = shape[0] * shape[1]
        if size > self._size:
            owned = [place for place, step in enumerate(self._code) if _owns_memory(step)]
            self._size, self._whole = size, {place: np.full(size, self._code[place].value) for place in owned}
            self._memory.clear()
        if shape not in self._memory:
            self._memory[shape] = {place: memory[:size].reshape(shape) for place, memory in self._whole.items()}
        return self._memory[shape]

    def __getstate__(self) -> dict[str, Any]:
        """Leave the program and its memory behind when it is pickled."""
        return {"_code": self._code, "_depends": self._depends, "_size": 0, "_memory": {}}


def _owns_memory(step: Instruction) -> bool:
    return step.kind == "constant" or (step.kind in ("call", "product") and step.writes)


def _written(code: list[Instruction], depends: list[bool]) -> Callable[..., None]:
    """Return the function that runs a block forwards and backwards, with a line for each operation.

    Register i is r{i}, and its gradient g{i}. Only registers that rules of gradients take are computed.
    """
    backwards = _backwards(code, depends)
    needed = {int(place) for line in backwards for place in re.findall(r"\br(\d+)\b", line)}
    forwards: list[str] = []
    for place in reversed(range(len(code))):
        if place in needed:
            forwards.insert(0, _forwards(code[place], place))
            needed.update(code[place].sources)
    called = {f"function{place}": step.function for place, step in enumerate(code)}
    known = called | {"np": np, "leaf": _add_to_leaf, "product": _add_to_product, "diagonal": _add_to_diagonal}
    head = f"def program(place, g{len(code) - 1}, inputs, bars, memory):"
    exec("\n    ".join([head, *forwards, *backwards, "return"]), known)
    return known["program"]


def _forwards(step: Instruction, place: int) -> str:
    """Return the line that fills a register."""
    if step.kind == "constant":
        return f"r{place} = memory[{place}]"
    given = [f"r{source}" for source in step.sources]
    if step.kind != "call":
        given.insert(0, f"inputs[{step.kind!r}][{step.place}]")
    if _owns_memory(step):
        given.append(f"out=memory[{place}]")
    function = f"function{place}" if step.kind == "call" else f"place.{step.kind}"
    return f"r{place} = {function}({', '.join(given)})"


def _backwards(code: list[Instruction], depends: list[bool]) -> list[str]:
    """Return the lines that take the gradient from the last register to the thin inputs."""
    lines = []
    # Registers that have a gradient, and whether its memory is used by no other.
    own = {len(code) - 1: True}
    for place in reversed(range(len(code))):
        if place not in own or not depends[place]:
            continue
        kind, function, sources, number, _ = code[place]
        if kind != "call":
            lines.append(f"{kind}(place, g{place}, inputs[{kind!r}][{number}], bars[{kind!r}][{number}])")
        rules = RULES[function] if kind == "call" else ("{g}",) * len(sources)
        wanted = [(s, rule) for s, rule in zip(sources, rules, strict=True) if depends[s] and rule is not None]
        operands = {name: f"r{source}" for name, source in zip("abc", sources, strict=False)}
        for number, (source, rule) in enumerate(wanted, 1):
            gradient = rule.format(g=f"g{place}", r=f"r{place}", **operands)
            last = number == len(wanted) and own[place]
            if source in own:
                lines.append(f"g{source} = g{source} + {gradient}")
            elif last and rule.startswith("{g} * "):
                factor = gradient.removeprefix(f"g{place} * ")
                lines.append(f"g{source} = np.multiply(g{place}, {factor}, out=g{place})")
            else:
                lines.append(f"g{source} = {gradient}")
            own[source] = source in own or rule != "{g}" or (last and len(wanted) == 1)
    return lines


def _add_to_product(
    block: Rectangle | Gathered, gradient: np.ndarray, factors: tuple[Any, Any], bars: tuple[Any, Any]
) -> None:
    (left, right), (left_bar, right_bar) = factors, bars
    left_bar[block.rows] += gradient @ right[:, block.columns].T
    right_bar[:, block.columns] += left[block.rows].T @ gradient


def _add_to_diagonal(block: Rectangle | Gathered, gradient: np.ndarray, values: np.ndarray, bar: np.ndarray) -> None:
    where, elements = block.of_diagonal(gradient)
    bar[where] += elements


def _add_to_leaf(block: Rectangle | Gathered, gradient: np.ndarray, values: np.ndarray, bar: np.ndarray) -> None:
    """Add a block's gradient to that of a leaf, summed over the axes along which the leaf was broadcast."""
    if bar.size == 1:
        bar += gradient.sum()
    elif bar.shape[1] == 1:
        bar[block.rows] += gradient.sum(axis=1, keepdims=True)
    else:
        bar[:, block.columns] += gradient.sum(axis=0, keepdims=True)
