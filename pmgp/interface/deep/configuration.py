"""Checks of the arguments of a deep process, and their translation for the core."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

import jax

from pmgp.core.deep.features import KERNELS
from pmgp.core.deep.likelihoods import LIKELIHOODS, JaxLikelihood
from pmgp.core.deep.network import OMEGA
from pmgp.core.numerics.arrays import is_whole
from pmgp.core.tiles.devices import mesh_of


def check_counts(least: int = 1, **counts: int) -> None:
    """Refuse values that are not integers of at least `least`."""
    for name, value in counts.items():
        if not is_whole(value, least):
            raise ValueError(f"{name}={value!r}: give an integer of at least {least}")


def check_choices(kernel: str, omega: str, dtype: str) -> None:
    """Refuse unknown names."""
    known = {"kernel": (kernel, tuple(KERNELS)), "omega": (omega, OMEGA), "dtype": (dtype, ("float32", "float64"))}
    for name, (value, names) in known.items():
        if value not in names:
            raise ValueError(f"{name}={value!r}: choose one of {', '.join(names)}")


def likelihood_of(given: str | JaxLikelihood | Callable[[Any, Any], Any]) -> JaxLikelihood:
    """Return a likelihood that is given as itself, as its name, or as a log density of y and f."""
    if isinstance(given, JaxLikelihood):
        return given
    if callable(given):
        log_density = given
        return JaxLikelihood(lambda y, f, theta: log_density(y, f))
    if given not in LIKELIHOODS:
        raise ValueError(f"likelihood={given!r}: choose one of {', '.join(LIKELIHOODS)}, or give a log density")
    return LIKELIHOODS[given]


def check_schedules(**given: float | Mapping[int, float]) -> None:
    """Refuse settings that are negative, or that are given by step and lack one for the first step."""
    for name, values in given.items():
        if isinstance(values, Mapping) and 0 not in values:
            raise ValueError(f"{name}={dict(values)!r}: give a value for step 0 too")
        for value in values.values() if isinstance(values, Mapping) else [values]:
            if not isinstance(value, Real) or not value >= 0:
                raise ValueError(f"{name}={value!r}: give a number that is not negative")


def starts_of(given: Any) -> list[int]:
    """Return the steps at which a setting may change."""
    return list(given) if isinstance(given, Mapping) else []


def value_at(step: int, given: Any) -> Any:
    """Return a setting at a step: itself, or, of a mapping from steps, the value at the last step reached."""
    return given[max(start for start in given if start <= step)] if isinstance(given, Mapping) else given


def batch_mesh(devices: Any, batch_size: int) -> Any:
    """Return a mesh of devices that share each batch, or None for one device.

    Raises
    ------
    ValueError
        If the batch has no equal shares.
    """
    mesh = mesh_of(devices)
    if mesh is not None and batch_size % mesh.size:
        raise ValueError(f"batch_size={batch_size}: give a multiple of the number of devices, {mesh.size}")
    return mesh


def device_of(name: str | None) -> Any:
    """Return JAX's device of the given kind, or the one that JAX chooses."""
    try:
        return jax.local_devices(backend=name)[0]
    except RuntimeError as error:
        found = sorted({device.platform for device in jax.devices()})
        raise ValueError(
            f"device={name!r}, but JAX finds only {', '.join(found)}: install JAX for that device, "
            "for example 'pip install jax[cuda13]', or leave device=None"
        ) from error
