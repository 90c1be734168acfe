"""GPflow's stochastic variational process at given inducing inputs, by a Python that has GPflow.

The environment variable ``PMGP_GPFLOW`` names its interpreter, since GPflow and this package cannot share one.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from case_studies.sparse.problems import Problem

__all__ = ["available", "fit"]

SCRIPT = Path(__file__).with_name("gpflow_script.py")


def available() -> bool:
    """Whether such an interpreter is named."""
    return bool(os.environ.get("PMGP_GPFLOW"))


def fit(given: Problem, Z: np.ndarray) -> tuple[np.ndarray, float]:
    """Log predictive densities of the held-out labels at its optimum, (m,), and processor seconds.

    Prior, likelihood and covariance are those of the chains, and Z stays as it is.
    """
    data = given.data
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        priors = {"lengthscale": given.priors.lengthscale, "variance": given.priors.variance}
        start = given.start(np.random.default_rng(0), "isotropic")["lengthscale"]
        np.savez(path, **data._asdict(), **priors, Z=Z, start=start)
        words = [os.environ["PMGP_GPFLOW"], str(SCRIPT), str(path)]
        printed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    found = json.loads(printed.splitlines()[-1])
    return np.array(found["log_density"]), float(found["seconds"])
