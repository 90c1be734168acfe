"""Devices by name, and the memory that they have."""

from __future__ import annotations

import os
from typing import Any

import jax


def device_of(given: Any) -> Any:
    """Return the device of the given name, a given device, or for None the one that JAX chooses."""
    if given is not None and not isinstance(given, str):
        return given
    try:
        return jax.devices(given)[0]
    except RuntimeError as error:
        seen = ", ".join(sorted({device.platform for device in jax.devices()}))
        raise ValueError(
            f"device={given!r}: JAX finds none here, but {seen}. Install JAX for that device, such as "
            'pip install "jax[cuda13]" for NVIDIA, or leave device out'
        ) from error


def memory_of(device: Any) -> float:
    """Return the bytes that a device has: those that JAX reports, or for a CPU those of the machine."""
    stats = device.memory_stats() or {}
    if "bytes_limit" in stats:
        return float(stats["bytes_limit"])
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) if hasattr(os, "sysconf") else float("inf")
