"""Versions of the packages on which results depend, and of those that a worker must share."""

from __future__ import annotations

import platform
from importlib.metadata import version

from pmgp._version import __version__


def versions() -> dict[str, str]:
    """Return the versions of the packages on which draws depend."""
    return {"pmgp": __version__, **{name: version(name) for name in ("pymc", "pytensor", "numpy", "scipy")}}


def worker_versions() -> dict[str, str]:
    """Return the versions that must be the same on all machines: pickles do not go from one Python to another."""
    return versions() | {"Python": ".".join(platform.python_version_tuple()[:2])}


def differences(expected: dict[str, str]) -> list[str]:
    """Return the packages of this process that have other versions, with both versions."""
    here = worker_versions()
    return [f"{name} {here.get(name)} and not {one}" for name, one in expected.items() if here.get(name) != one]
