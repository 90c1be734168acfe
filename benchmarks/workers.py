"""How long two short chains take when their processes are forked, and when they are spawned.

macOS and Windows only spawn: each worker then imports PyMC again, reads the step method, and loads compiled kernels.
Each run is a process of its own, timed from its start to its end; the script is written to a folder of its own, because
a spawned worker runs it again.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

__all__ = ["SCRIPT", "rows"]

REPEATS = 3
SCRIPT = """
import sys
import numpy as np
import pymc as pm
import pmgp

if __name__ == "__main__":
    X = np.linspace(0.0, 10.0, 100)[:, None]
    with pm.Model():
        lengthscale, variance = pm.LogNormal("lengthscale"), pm.LogNormal("variance")
        gp = pm.gp.Latent(cov_func=variance * pm.gp.cov.Matern52(1, ls=lengthscale))
        f = gp.prior("f", X=X, reparameterize=False)
        pm.Poisson("y", pm.math.exp(f), observed=np.random.default_rng(1).poisson(np.exp(np.sin(X[:, 0]))))
        pm.sample(100, tune=100, chains=2, cores=2, step=pmgp.PseudoMarginal(), mp_ctx=sys.argv[1], progressbar=False)
"""


def rows() -> Iterator[dict[str, Any]]:
    """The shortest of some runs of each kind, which take turns."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "chains.py")
        script.write_text(SCRIPT, encoding="utf-8")
        seconds = [{kind: _seconds(script, kind) for kind in ("fork", "spawn")} for _ in range(REPEATS + 1)]
    # The first run of each kind may have to compile.
    for kind in ("fork", "spawn"):
        yield {"workers": kind, "seconds": min(run[kind] for run in seconds[1:])}


def _seconds(script: Path, kind: str) -> float:
    """Python writes bytecode as it does for users, whatever the environment here says."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = perf_counter()
    subprocess.run([sys.executable, str(script), kind], check=True, capture_output=True, env=environment)
    return perf_counter() - start
