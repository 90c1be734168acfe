"""Find compiled kernels by name, and convert arrays to the form that kernels take.

A kernel is compiled when it is first needed, or read from numba's cache on disk, and the run waits for it. The draws of
a run therefore depend on its seed alone, and not on the content of the cache.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

import numpy as np


@cache
def compiled(name: str) -> Callable[..., Any]:
    """Return the compiled kernel with this name, and load it on first use.

    `name`: names of the module in this folder and of the kernel: "sites.condition".
    """
    module, function = name.split(".")
    return getattr(import_module(f"pmgp.core.numerics.compiled.{module}"), function).compiled


def vectors(*arrays: np.ndarray) -> list[np.ndarray]:
    """Return contiguous arrays in double precision, as kernels take them; others are copied."""
    return [np.ascontiguousarray(array, dtype=np.float64) for array in arrays]


def for_rows(write: Callable[[np.ndarray, np.ndarray], Any], f: np.ndarray) -> np.ndarray:
    """Return the number that a kernel writes for each row: (..., n) -> (...)."""
    if f.ndim == 2 and f.flags.c_contiguous and f.dtype == np.float64:
        out = np.empty(len(f))
        write(f, out)
        return out
    rows = np.ascontiguousarray(f, dtype=np.float64).reshape(-1, np.shape(f)[-1])
    out = np.empty(len(rows))
    write(rows, out)
    return out.reshape(np.shape(f)[:-1])[()]


@lru_cache(maxsize=16)
def uniform_numbers(rng: np.random.Generator) -> tuple[int, int]:
    """Return the addresses of a function and its state, from which a kernel gets the next numbers of `rng.random()`.

    The addresses are valid as long as the generator exists; the cache keeps a reference to it.
    """
    interface = rng.bit_generator.ctypes
    # As `ctypes.cast` does, in a seventh of the time.
    return ctypes.c_size_t.from_address(ctypes.addressof(interface.next_double)).value, interface.state_address
