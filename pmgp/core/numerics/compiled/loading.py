"""Compiled kernels by their names, and arrays as kernels take them.

A kernel is compiled when it is first needed, or read from numba's cache on disk, and the run waits for it. So the draws
of a run depend on its seed alone, and not on what the cache holds.
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
    """The compiled kernel of a name, loaded when it is first asked for.

    Parameters
    ----------
    name : str
        Of the module in this folder, and of the kernel: "sites.condition".
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
    """Where a kernel gets the numbers that `rng.random()` would give next: addresses of a function and of its state.

    They stay the same for as long as the generator is there, which what is remembered sees to.
    """
    interface = rng.bit_generator.ctypes
    # As `ctypes.cast` does, in a seventh of the time.
    return ctypes.c_size_t.from_address(ctypes.addressof(interface.next_double)).value, interface.state_address
