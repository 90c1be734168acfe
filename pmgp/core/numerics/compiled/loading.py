"""Whether kernels are compiled: decided here, for all of them and for as long as the process lasts.

A compiled kernel and its NumPy version agree to rounding and not to the last bit. So that the draws of a run depend on
its seed alone, a run does not begin with one and go on with the other: a kernel is compiled when it is first needed,
or read from numba's cache on disk, and the run waits for it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, cast

import numpy as np

__all__ = ["VARIABLE", "compiled", "compiled_or", "for_rows", "kernels_switched", "uniform_numbers", "vectors"]

VARIABLE = "PMGP_KERNELS"
"""The environment variable that says which kernels are used: "compiled", as where it is not set, or "numpy"."""


@cache
def compiled(name: str) -> Callable[..., Any] | None:
    """The compiled kernel; None where NumPy is to be used.

    Parameters
    ----------
    name : str
        Of the module in this folder, and of the kernel: "sites.condition".

    Raises
    ------
    ValueError
        For another value of the environment variable than those two.
    """
    chosen = os.environ.get(VARIABLE) or "compiled"
    if chosen not in ("compiled", "numpy"):
        raise ValueError(f'the environment variable {VARIABLE} must be "compiled" or "numpy", not {chosen!r}')
    if chosen == "numpy" or os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        return None
    module, function = name.split(".")
    return getattr(import_module(f"pmgp.core.numerics.compiled.{module}"), function).compiled


@cache
def compiled_or[Function: Callable[..., Any]](numpy_version: Function, name: str) -> Function:
    """The compiled kernel, or the NumPy version where that is to be used; called alike.

    Parameters
    ----------
    numpy_version : callable
    name : str
        As of :func:`compiled`, which says what is raised.
    """
    return cast("Function", compiled(name) or numpy_version)


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


@contextmanager
def kernels_switched(chosen: str) -> Iterator[None]:
    """Use "compiled" or "numpy" kernels inside the block, to compare them."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = chosen
    _forget()
    try:
        yield
    finally:
        os.environ.pop(VARIABLE)
        if before is not None:
            os.environ[VARIABLE] = before
        _forget()


def _forget() -> None:
    compiled.cache_clear()
    compiled_or.cache_clear()
