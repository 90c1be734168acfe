"""What made a result: the version of the package and the kind of machine, nothing that names it."""

from __future__ import annotations

import os
import platform

import pmgp

__all__ = ["provenance"]


def provenance() -> dict[str, str]:
    """Version and machine, to be kept in each row of a table of results."""
    return {"version": pmgp.__version__, "machine": f"{platform.machine()}, {os.cpu_count()} CPUs"}
