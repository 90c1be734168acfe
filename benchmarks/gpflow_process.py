"""GPflow in an environment that uv makes for it: it needs another NumPy, and another Python, than this project."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from tempfile import TemporaryDirectory

import arviz as az
import numpy as np
import xarray as xr

from benchmarks.problems import Problem
from benchmarks.samplers import CHAINS

__all__ = ["release", "sampler"]

ROOT = Path(__file__).parents[1]
# GPflow wants pkg_resources, which later releases of setuptools do not have.
PYTHON = (
    *(str(ROOT / "scripts" / "uv"), "run", "--quiet", "--isolated", "--no-project", "--python", "3.12"),
    *("--with", "gpflow==2.11.2", "--with", "tensorflow==2.21.0", "--with", "setuptools<81", "python"),
)
# What uv, as a shell, adds to a signal's number for its own exit status.
SHELL_SIGNALS = 128


def release(package: str) -> str:
    """Version of GPflow.

    Raises
    ------
    PackageNotFoundError
        Where the environment cannot be made.
    """
    words = [*PYTHON, "-c", f"from importlib.metadata import version; print(version({package!r}))"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise PackageNotFoundError(package)
    return done.stdout.strip()


def sampler(problem: Problem) -> Callable[[int, int, int], tuple[float, xr.DataTree]]:
    """From tuning iterations, draws and a seed to processor seconds and draws."""
    parts = {"X": problem.X, "y": problem.y, "kernel": problem.kernel, "likelihood": problem.likelihood}

    def sampled(tune: int, draws: int, seed: int) -> tuple[float, xr.DataTree]:
        with TemporaryDirectory() as folder:
            source, target = Path(folder) / "problem.npz", Path(folder) / "draws.npz"
            np.savez(source, tune=tune, draws=draws, seed=seed, chains=CHAINS, **parts)
            script = Path(__file__).with_name("gpflow_script.py")
            done = subprocess.run([*PYTHON, str(script), str(source), str(target)], cwd=ROOT, stdout=2)
            drawn = {} if done.returncode else dict(np.load(target))
        _end_as(done)
        posterior = az.convert_to_dataset({name: drawn[name] for name in ("lengthscale", "variance")})
        return float(drawn["seconds"]), xr.DataTree.from_dict({"posterior": posterior})

    return sampled


def _end_as(done: subprocess.CompletedProcess) -> None:
    """End this process, too, where the system has ended the other for its processor time; it inherits the limit."""
    if done.returncode in (-signal.SIGXCPU, SHELL_SIGNALS + signal.SIGXCPU):
        signal.raise_signal(signal.SIGXCPU)
    done.check_returncode()
