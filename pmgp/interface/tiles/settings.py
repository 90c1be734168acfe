"""The settings of products by JAX, resolved to its devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from pmgp.core.tiles.blocks import TILES


@dataclass(frozen=True)
class Settings:
    """Settings of products: the precision of tiles, and the bytes that a product may take on each device."""

    memory: float
    precision: str
    mesh: Any


def mesh_of(devices: Any) -> Any:
    """Return a mesh of devices along one axis, or None for the single device that JAX chooses."""
    if devices is None:
        return None
    chosen = jax.devices() if isinstance(devices, str) and devices == "all" else devices
    if isinstance(chosen, str) or not len(chosen):
        raise ValueError(f'devices={devices!r}: give "all", or a list of devices such as jax.devices()[:2]')
    return jax.sharding.Mesh(np.array(chosen), (TILES,))
