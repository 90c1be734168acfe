"""Devices by name, the memory that they have, and objects that belong to the process that uses them."""

from __future__ import annotations

import os
from functools import cached_property
from typing import Any

import jax

# With memory for this many matrices, their number is not looked up in the compiled programs.
PLENTY = 100


def device_of(name: str | None) -> Any:
    """Return the device with a name, such as "cpu" or "gpu:1", or for None the one that JAX chooses.

    Raises
    ------
    ValueError
        If JAX has no such device here.
    """
    platform, _, number = (name or "").partition(":")
    try:
        return jax.devices(platform or None)[int(number or 0)]
    except (RuntimeError, IndexError, ValueError) as error:
        raise ValueError(
            f"device={name!r}: JAX has {', '.join(map(str, jax.devices()))} here. Install JAX for that device, such as "
            'pip install "jax[cuda13]" for NVIDIA, or leave device out'
        ) from error


def memory_of(device: Any) -> float:
    """Return the bytes that a device has: those that JAX reports, or for a CPU those of the machine."""
    stats = device.memory_stats() or {}
    if "bytes_limit" in stats:
        return float(stats["bytes_limit"])
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) if hasattr(os, "sysconf") else float("inf")


def compiled(lowered: Any) -> Any:
    """Return a lowered program, compiled.

    Raises
    ------
    MemoryError
        If a device has too little memory for the trials with which XLA chooses among its products of matrices.
    """
    try:
        return lowered.compile()
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise MemoryError(
            "JAX's share of the device's memory is too small to compile a program for matrices of this size. "
            "It is three quarters by default: set XLA_PYTHON_CLIENT_MEM_FRACTION=.95 before Python starts, use a "
            "device with more memory, or inducing inputs (pmgp.gp.Sparse)"
        ) from error


class OfOneProcess:
    """An object whose cached properties are a device, arrays on it, and programs: they belong to one process.

    A pickle leaves them behind.
    """

    def __init__(self) -> None:
        self._process = os.getpid()

    def refuse_fork(self) -> None:
        """Raise an error in a process that was forked from the one that has the device."""
        if os.getpid() != self._process:
            raise RuntimeError(
                'a forked process cannot use the JAX of its parent: give cores=1, or mp_ctx="spawn", or an executor '
                "whose processes are spawned"
            )

    def __getstate__(self) -> dict[str, Any]:
        kind = type(self)
        return {
            name: value
            for name, value in self.__dict__.items()
            if not isinstance(getattr(kind, name, None), cached_property)
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _process=os.getpid())
