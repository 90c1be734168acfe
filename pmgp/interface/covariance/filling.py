"""Fills K block by block, or its packed triangle part by part, in memory that is used again.

For each block, the instructions become one function with a line for each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pmgp.interface.covariance import executor
from pmgp.interface.covariance.executor import Rectangle, trapezia
from pmgp.interface.covariance.packed import parts
from pmgp.interface.covariance.program import Instruction

Fill = Callable[[np.ndarray, dict[str, list[Any]]], None]


class Block(NamedTuple):
    """A part of the upper triangle, and the function that fills it."""

    rows: slice
    columns: slice
    fill: Fill


class Part(NamedTuple):
    """A part of the packed triangle that begins with the row `first`, memory for it, and the function that fills it."""

    first: int
    memory: np.ndarray
    fill: Fill


def blocks(n: int, code: list[Instruction]) -> list[Block]:
    """Return blocks that cover the upper triangle and share one work space."""
    found = trapezia(n)
    return [Block(*place, fill) for place, fill in zip(found, _fillings(code, found), strict=True)]


def packed_parts(n: int, code: list[Instruction]) -> list[Part]:
    """Return the parts of the packed triangle, which share one array for their elements and one work space."""
    found = parts(n, executor.BLOCK_ELEMENTS)
    memory = np.empty((1, max(part.stop - part.start for _, part in found)))
    fillings = _fillings(code, [(slice(0, 1), part) for _, part in found])
    return [
        Part(first, memory[:, : part.stop - part.start], fill)
        for (first, part), fill in zip(found, fillings, strict=True)
    ]


def _fillings(code: list[Instruction], places: list[tuple[slice, slice]]) -> list[Fill]:
    """Return functions that fill rectangles, which are given by their rows and columns."""
    rectangles = [Rectangle(*place) for place in places]
    largest = max(height * width for height, width in (rectangle.shape for rectangle in rectangles))
    buffers = _buffers(code)
    workspace = {place: np.full(largest, code[place].value) for place in buffers if place is not None}
    fillings = []
    for rectangle in rectangles:
        height, width = rectangle.shape
        shaped = {name: buffer[: height * width].reshape(height, width) for name, buffer in workspace.items()}
        memory = [None if buffer is None else shaped[buffer] for buffer in buffers]
        fillings.append(_filling(code, rectangle, memory))
    return fillings


def _filling(code: list[Instruction], rectangle: Rectangle, memory: list[np.ndarray | None]) -> Fill:
    """Return a function that runs the program on a rectangle, as `run` does, but in memory that it is given.

    The function has a line for each instruction, as in `NumpyGraph`: with a hundred rows, a loop over the instructions
    takes longer than the instructions themselves. The last one writes to the block, the others to their own memory.
    """
    called: dict[str, Any] = {"rectangle": rectangle}
    lines = []
    for number, (step, target) in enumerate(zip(code, memory, strict=True)):
        called |= {f"function{number}": step.function, f"memory{number}": target}
        given = [f"r{source}" for source in step.sources]
        if step.kind not in ("call", "constant"):
            given = [f"inputs[{step.kind!r}][{step.place}]", *given]
        if target is not None:
            given.append(f"out={'out' if number == len(code) - 1 else f'memory{number}'}")
        function = f"function{number}" if step.kind == "call" else f"rectangle.{step.kind}"
        lines.append(
            f"r{number} = " + (f"memory{number}" if step.kind == "constant" else f"{function}({', '.join(given)})")
        )
    last = f"r{len(code) - 1}"
    exec("\n    ".join(["def fill(out, inputs):", *lines, f"if {last} is not out: out[...] = {last}"]), called)
    return called["fill"]


def _buffers(code: list[Instruction]) -> list[int | None]:
    """Assign a buffer to each instruction: the buffer of a register that it is the last to use, or a new one."""
    last_use = {source: position for position, step in enumerate(code) for source in step.sources}
    buffers: list[int | None] = []
    for position, step in enumerate(code):
        owned = [s for s in step.sources if buffers[s] is not None and last_use[s] == position]
        free = [buffers[s] for s in owned if code[s].kind != "constant"]
        own = position if step.writes or step.kind == "constant" else None
        buffers.append(free[0] if free and step.writes else own)
    return buffers
