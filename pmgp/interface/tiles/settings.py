"""The settings of products by JAX, resolved to its devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from pmgp.core.tiles.blocks import TILES


@dataclass(frozen=True)
class Settings:
    """Settings of products.

    Parameters
    ----------
    memory : float
        Bytes that a product may take beside its inputs, on each device.
    precision : {"auto", "float32", "float64"}
        The precision of tiles.
    mesh : jax.sharding.Mesh or None
    """

    memory: float
    precision: str
    mesh: Any


def mesh_of(devices: Any) -> Any:
    """Return a mesh of devices along one axis, or None for the single device that JAX chooses.

    Parameters
    ----------
    devices : None, "all" or sequence of jax.Device

    Raises
    ------
    ValueError
        If `devices` is empty or no such value.
    """
    if devices is None:
        return None
    chosen = jax.devices() if isinstance(devices, str) and devices == "all" else devices
    if isinstance(chosen, str) or not len(chosen):
        raise ValueError(f'devices={devices!r}: give "all", or a list of devices such as jax.devices()[:2]')
    return jax.sharding.Mesh(np.array(chosen), (TILES,))
