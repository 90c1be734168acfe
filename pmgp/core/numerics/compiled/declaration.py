"""How a kernel is declared: the types of its arguments, when it is compiled, and where the result is stored."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from numba import njit, types

__all__ = [
    "FLAG",
    "NOTHING",
    "NUMBER",
    "ROWS",
    "STRIDED",
    "VECTOR",
    "WRITTEN_ROWS",
    "WRITTEN_VECTOR",
    "inlined",
    "kernel",
]

NOTHING, NUMBER, FLAG = types.void, types.float64, types.boolean
# Arguments that are read: an array that may be written to is one of these too. What LAPACK takes for a matrix is passed
# as its transpose: numba says of an array of one element, which is in both orders, that it is in C's.
VECTOR = types.Array(NUMBER, 1, "C", readonly=True)
STRIDED = types.Array(NUMBER, 1, "A", readonly=True)
ROWS = types.Array(NUMBER, 2, "C", readonly=True)
WRITTEN_VECTOR = types.Array(NUMBER, 1, "C")
WRITTEN_ROWS = types.Array(NUMBER, 2, "C")

# Divisions follow IEEE as NumPy's do; callbacks from C, which take as long to compile as the kernel, are not made.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True, "no_cfunc_wrapper": True}
_warned: list[str] = []


def kernel(result: Any, *arguments: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """For arguments of these types, compiled as soon as it is declared or read from numba's cache.

    Where no folder can be written to it is compiled in every process, and a warning says so once.
    """
    signature = result(*arguments)

    def compile_it(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            return njit(signature, cache=True, **OPTIONS)(function)
        except RuntimeError as error:
            _warn_once(str(error))
            return njit(signature, **OPTIONS)(function)

    return compile_it


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """A part of kernels, compiled with each of them."""
    return njit(**OPTIONS)(function)


def _warn_once(reason: str) -> None:
    if not _warned:
        _warned.append(reason)
        warnings.warn(
            f"numba can store compiled functions nowhere ({reason}): each process compiles them again, which takes "
            "seconds; let the environment variable NUMBA_CACHE_DIR name a folder that can be written to",
            UserWarning,
            stacklevel=4,
        )
