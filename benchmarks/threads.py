"""The ten lines of the README as users run them, against one BLAS thread set before Python starts.

Each run is a process of its own, four chains on two cores; seconds are those of `pymc.sample` alone, which says at its
end how long it took to compile and draw. Runs with and without the variable take turns, so that both meet the same
machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["CALL", "rows", "script"]

README = Path(__file__).parents[1] / "README.md"
VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
CALL = "pm.sample(step=pmgp.PseudoMarginal())"
TIMED = """step = pmgp.PseudoMarginal()
    import time
    start = time.perf_counter()
    idata = pm.sample(step=step, chains=4, cores=2, random_seed=1, progressbar=False)
    print("seconds", time.perf_counter() - start)"""
SPIN = "while True: pass"
ROUNDS = 5


def script() -> str:
    """The README's ten lines, with the sampling timed.

    Raises
    ------
    ValueError
        If the README's code does not hold the call that is timed.
    """
    text = README.read_text(encoding="utf-8")
    code = text.split("<!-- ten lines: start -->")[1].split("<!-- ten lines: end -->")[0]
    code = code.split("```python\n")[1].split("```")[0]
    if f"idata = {CALL}" not in code:
        raise ValueError(f"the README's ten lines do not sample with idata = {CALL}")
    return code.replace(f"idata = {CALL}", TIMED)


def seconds(one_thread: bool) -> float:
    """Seconds of sampling in a fresh process."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    if one_thread:
        environment |= dict.fromkeys(VARIABLES, "1")
    command = [sys.executable, "-c", script()]
    output = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    return float(output.split("seconds")[1].split()[0])


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many processes beside it that never pause."""
    running = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def rows(rounds: int = ROUNDS) -> Iterator[dict[str, Any]]:
    """One row for the idle machine, one beside a busy process: medians, and the median ratio of the rounds."""
    seconds(one_thread=False)
    for beside in (0, 1):
        with busy(beside):
            times = np.array([[seconds(one_thread=False), seconds(one_thread=True)] for _ in range(rounds)])
        plain, single = np.median(times, axis=0)
        yield {
            "busy processes": beside,
            "rounds": rounds,
            "seconds": float(plain),
            "seconds, one thread": float(single),
            "ratio": float(np.median(times[:, 0] / times[:, 1])),
        }
