"""Devices along one axis, on this host or, with `jax.distributed`, on several."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXIS = "devices"
"""The name of a mesh's only axis."""


def mesh_of(devices: Any) -> Mesh | None:
    """Return a mesh of devices, or None for the single device that JAX chooses.

    Parameters
    ----------
    devices : None, "all" or sequence of jax.Device

    Raises
    ------
    ValueError
        If `devices` is empty or another value.
    """
    if devices is None:
        return None
    chosen = jax.devices() if isinstance(devices, str) and devices == "all" else devices
    if isinstance(chosen, str) or not len(chosen):
        raise ValueError(f'devices={devices!r}: give "all", or a list of devices such as jax.devices()[:2]')
    return Mesh(np.array(chosen), (AXIS,))


def everywhere(tree: Any, mesh: Mesh | None) -> Any:
    """Return arrays of which each device of a mesh has a copy."""
    if mesh is None:
        return tree
    whole = NamedSharding(mesh, PartitionSpec())
    return jax.tree.map(lambda leaf: _copied(leaf, whole), tree)


def here(tree: Any, mesh: Mesh | None) -> Any:
    """Return arrays of which each device of a mesh has a copy as arrays of this process."""
    return tree if mesh is None else jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)), tree)


def _copied(leaf: Any, whole: NamedSharding) -> Any:
    # Arrays of one process cannot be sent to devices of another; numbers that all processes have can.
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(_copied(jax.random.key_data(leaf), whole))
    return jax.device_put(np.asarray(leaf), whole)


def by_rows(mesh: Mesh | None) -> NamedSharding | None:
    """Return the sharding that distributes rows over the devices of a mesh."""
    return None if mesh is None else NamedSharding(mesh, PartitionSpec(AXIS))
