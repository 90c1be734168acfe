"""Origin of a result: the version of the package, the kind of machine, nothing that names it, and the random streams.

Lines whose column ``streams`` says :data:`STREAMS` have random numbers from :func:`case_studies.tools.stream.stream`,
which depend on the seed and on the names of the cell alone. **Lines without an entry there, or in a table without that
column, precede it**: their streams came from positions in lists of models, data sets and methods. They are just as
valid and count as finished, but the same seed reproduces neither them nor the data that were simulated for them. So
cells of one simulated data set of which some lines have an entry and some have none are not of the same data; the
option ``--again`` makes all of them anew. Traces, R-hat along the chains and histograms of predictions, which have a
table of their own, belong to the line of their cell.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from typing import Any

import pmgp

__all__ = ["STREAMS", "made_by", "provenance"]

STREAMS = "by name"
"""How random streams are made."""


def provenance() -> dict[str, str]:
    """Version, machine and streams, to be kept in each row of a table of results."""
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs"
    return {"version": pmgp.__version__, "machine": machine, "streams": STREAMS}


def made_by(result: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns of a finished result that :func:`provenance` gave it."""
    return {name: result[name] for name in ("version", "machine", "streams")}
