"""Memory of a run: how far a process's peak rises above what PyMC needs to compile the model."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

__all__ = ["SAMPLING", "peaks", "rows"]

SAMPLING = (
    "pm.sample(draws=50, tune=100, chains=1, cores=1, step=pmgp.PseudoMarginal(), progressbar=False, "
    "compute_convergence_checks=False, random_seed=1)"
)
SCRIPT = """
import numpy as np, pymc as pm
from benchmarks.time_series import counts, pmgp
from benchmarks.memory import peak
with counts({length}) as model:
    for function in (model.compile_logp(mode={mode!r}), model.compile_dlogp(mode={mode!r})):
        function(model.initial_point())
    print(peak())
    for statement in {statements}:
        kept = eval(statement)
        print(peak())
"""


def peak() -> float:
    """Return the most memory that this process has had so far, in MB; Linux only."""
    with open("/proc/self/status") as status:
        kilobytes = next(line.split()[1] for line in status if line.startswith("VmHWM"))
    return int(kilobytes) / 1024.0


def peaks(length: int, *statements: str, mode: str | None = None) -> list[float]:
    """Return the peaks before and after each statement, in MB, in a process that has compiled the model of counts.

    Parameters
    ----------
    length : int
        Number of counts.
    *statements : str
        Expressions; the model is the context.
    mode : str, optional
        PyTensor's mode for the model's own functions.
    """
    script = SCRIPT.format(length=length, statements=statements, mode=mode)
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return [float(line) for line in done.stdout.splitlines()[-len(statements) - 1 :]]


def rows(lengths: tuple[int, ...] = (1_000, 10_000)) -> Iterator[dict[str, Any]]:
    """Peaks for series of counts."""
    for length in lengths:
        before, after = peaks(length, SAMPLING)
        yield {"n": length, "compiled, MB": before, "sampled, MB": after, "above, MB": after - before}
