"""What fills K, block by block or part by part of its packed triangle, in memory that is used again.

The instructions become one function for each block, with a line for each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from pmgp.interface.covariance.packed import parts
from pmgp.interface.covariance.program import Instruction

__all__ = ["Block", "Part", "blocks", "packed_parts", "places", "result_of"]

# Elements of a block: a few arrays of that size stay in the second-level cache.
BLOCK_ELEMENTS = 32_768
SMALLEST_BLOCK = 32

Fill = Callable[[np.ndarray, dict[str, list[Any]]], None]


class Block(NamedTuple):
    """A part of the upper triangle, and what fills it."""

    rows: slice
    columns: slice
    fill: Fill


class Part(NamedTuple):
    """A part of the packed triangle that begins with the row `first`, memory for it, and what fills that."""

    first: int
    memory: np.ndarray
    fill: Fill


def blocks(n: int, code: list[Instruction]) -> list[Block]:
    """Blocks that cover the upper triangle, with one work space for all."""
    found = places(n)
    return [Block(*place, fill) for place, fill in zip(found, _fillings(code, found), strict=True)]


def places(n: int) -> list[tuple[slice, slice]]:
    """Rows and columns of the blocks."""
    bounds = [0]
    while (start := bounds[-1]) < n:
        bounds.append(min(n, start + max(SMALLEST_BLOCK, BLOCK_ELEMENTS // (n - start))))
    return [(slice(start, stop), slice(start, n)) for start, stop in pairwise(bounds)]


def packed_parts(n: int, code: list[Instruction]) -> list[Part]:
    """Parts of the packed triangle, with one memory and one work space for all."""
    found = parts(n, BLOCK_ELEMENTS)
    memory = np.empty((1, max(part.stop - part.start for _, part in found)))
    fillings = _fillings(code, [(slice(0, 1), part) for _, part in found])
    return [
        Part(first, memory[:, : part.stop - part.start], fill)
        for (first, part), fill in zip(found, fillings, strict=True)
    ]


def _fillings(code: list[Instruction], places: list[tuple[slice, slice]]) -> list[Fill]:
    """What fills rectangles, their rows and columns being given."""
    shapes = [(rows.stop - rows.start, columns.stop - columns.start) for rows, columns in places]
    largest = max(height * width for height, width in shapes)
    buffers = _buffers(code)
    workspace = {place: np.full(largest, code[place].value) for place in buffers if place is not None}
    fillings = []
    for place, (height, width) in zip(places, shapes, strict=True):
        shaped = {name: buffer[: height * width].reshape(height, width) for name, buffer in workspace.items()}
        memory = [None if buffer is None else shaped[buffer] for buffer in buffers]
        fillings.append(_filling(code, *place, memory))
    return fillings


def _filling(
    code: list[Instruction], rows: slice, columns: slice, memory: list[np.ndarray | None]
) -> Callable[[np.ndarray, dict[str, list[Any]]], None]:
    """What runs the program on a block of the upper triangle in C order, the lower one in Fortran order.

    One function with a line for each instruction, as of `NumpyGraph`: a loop over them takes longer than they do where
    there are a hundred rows. The last one writes to the block itself, the others to the memory that is theirs.
    """
    called: dict[str, Any] = {"result": result_of, "part": _part, "rows": rows, "columns": columns}
    lines = []
    for number, (step, target) in enumerate(zip(code, memory, strict=True)):
        called |= {f"step{number}": step, f"function{number}": step.function, f"memory{number}": target}
        into = "out" if number == len(code) - 1 else f"memory{number}"
        taken = [f"r{source}" for source in step.sources]
        if step.kind == "call":
            made = f"function{number}({', '.join(taken if target is None else [*taken, f'out={into}'])})"
        elif target is None:
            made = f"part(inputs[{step.kind!r}][{step.place}], rows, columns)"
        else:
            known = ", ".join([f"r{register}" for register in range(number)])
            made = f"result(step{number}, [{known}], inputs, rows, columns, {into})"
        lines.append(f"r{number} = {made}")
    last = f"r{len(code) - 1}"
    exec("\n    ".join(["def fill(out, inputs):", *lines, f"if {last} is not out: out[...] = {last}"]), called)
    return called["fill"]


def _buffers(code: list[Instruction]) -> list[int | None]:
    """Which buffer each instruction writes to: that of a register that it is the last to use, or a new one."""
    last_use = {source: position for position, step in enumerate(code) for source in step.sources}
    buffers: list[int | None] = []
    for position, step in enumerate(code):
        owned = [s for s in step.sources if buffers[s] is not None and last_use[s] == position]
        free = [buffers[s] for s in owned if code[s].kind != "constant"]
        own = position if step.writes or step.kind == "constant" else None
        buffers.append(free[0] if free and step.writes else own)
    return buffers


def result_of(
    instruction: Instruction,
    registers: list[np.ndarray],
    inputs: dict[str, list[Any]],
    rows: slice,
    columns: slice,
    target: np.ndarray | None,
) -> np.ndarray:
    """What an instruction fills its register with, in `target` where it can write to it."""
    kind, function, sources, place, _ = instruction
    operands = [registers[source] for source in sources]
    if target is None:
        return function(*operands) if kind == "call" else _part(inputs[kind][place], rows, columns)
    if kind == "call":
        function(*operands, out=target)
    elif kind == "product":
        left, right = inputs["product"][place]
        np.matmul(left[rows], right[:, columns], out=target)
    elif kind == "diagonal":
        if target is not operands[0]:
            target[...] = operands[0]
        np.einsum("ii->i", target[:, : len(target)])[:] += inputs["diagonal"][place][rows]
    return target


def _part(leaf: np.ndarray, rows: slice, columns: slice) -> np.ndarray:
    if leaf.size == 1:
        return leaf
    return leaf[rows if leaf.shape[0] > 1 else slice(None), columns if leaf.shape[1] > 1 else slice(None)]
